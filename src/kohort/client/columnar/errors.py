"""What can go wrong with columns besides what can go wrong with a broker.

KohortError
 ├── MissingExtraError    numpy or pyarrow is not installed
 └── ReadTimeoutError     the end of a range was not reached in time
"""

from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition


class MissingExtraError(KohortError):
    """An optional package that is needed for this is not installed."""

    def __init__(self, what: str, package: str | None, extra: str) -> None:
        super().__init__(
            f"{what} needs {package or 'a package'}, which is not installed",
            hint=f"install it with `pip install 'kohort[{extra}]'`",
        )


class ReadTimeoutError(KohortError):
    """The broker answers, and has nothing more to give, although the range goes on."""

    def __init__(self, partition: TopicPartition, offset: int, end: int) -> None:
        super().__init__(
            f"{partition} has nothing at offset {offset}, and was to be read up to {end}",
            hint="the range may end behind the log, or a transaction be undecided there",
            retriable=True,
        )
        self.partition = partition
        self.offset = offset
