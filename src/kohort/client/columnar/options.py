"""What is read into columns, and in which portions."""

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition

if TYPE_CHECKING:
    from pyarrow import lib as pa

    from kohort.client.columnar.portions import TakeTable


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


COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOptions:
    """Which columns, in which order, and how they are fetched."""

    columns: tuple[str, ...] = COLUMNS
    rows: int = 20_000  # of an Arrow batch, at most
    isolation_level: str = "read_uncommitted"
    check_crcs: bool = True
    # Of a reply, at most, unless one batch is larger. More gains nothing, and the first takes longer.
    max_bytes: int = 4 * 1024 * 1024
    max_wait_ms: int = 500  # how long a broker may wait for more

    def __post_init__(self) -> None:
        check_columns(self.columns)
        if self.isolation_level not in _ISOLATION_LEVELS:
            raise KohortError(
                f"isolation level {self.isolation_level!r} does not exist",
                hint=f"it is one of {', '.join(_ISOLATION_LEVELS)}",
            )
        for name in ("rows", "max_bytes"):
            if getattr(self, name) < 1:
                raise KohortError(f"{name} must be at least 1, not {getattr(self, name)}")

    @property
    def read_committed(self) -> bool:
        return self.isolation_level == "read_committed"


def check_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """Their names. KohortError for one that does not exist or comes twice, TypeError for a name alone."""
    if isinstance(columns, str):
        raise TypeError(f"write a list of columns: [{columns!r}]")
    names = tuple(columns)
    for name in names:
        if name not in COLUMNS:
            raise KohortError(f"there is no column {name!r}", hint=f"there are {', '.join(COLUMNS)}")
    if not names or len(set(names)) < len(names):
        raise KohortError("name each column once, and at least one")
    return names


def arrow_schema(columns: Iterable[str] = COLUMNS) -> "pa.Schema":
    """The Arrow types of these columns: those of Spark's Kafka connector."""
    return arrow_module().schema(check_columns(columns))


def arrow_module() -> ModuleType:
    """What makes Arrow batches; imported on first use: numpy and pyarrow are an extra, and slow to load."""
    try:
        from kohort.records.columns import arrow
    except ModuleNotFoundError as error:
        raise MissingExtraError("reading columns", error.name, "arrow") from error
    return arrow


def take_table(columns: Iterable[str]) -> "TakeTable":
    """What takes these columns out of what a consumer has fetched."""
    names = check_columns(columns)
    arrow_module()
    from kohort.client.columnar.portions import TakeTable  # needs numpy and pyarrow

    return TakeTable(names)
