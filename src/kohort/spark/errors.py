"""What can go wrong between a Spark job and its topics.

KohortError
 ├── OptionError            an option that does not exist, or a value it cannot have
 ├── DataLossError          records that were to be read are gone; ``failOnDataLoss`` decides whether to raise
 │    └── TopicMadeAgainError  with their topic, which has another id now
 ├── NoMatchingOffsetError  a partition has no record at or after the timestamp to start from
 ├── GroupInUseError        ``commit=group`` found members in the group
 └── FencedError            the group went on without us; ``failOnFenced`` decides whether to raise
"""

import logging
from collections.abc import Collection

from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition

_log = logging.getLogger(__name__)


class OptionError(KohortError):
    """An option that does not exist, or a value it cannot have."""


def unknown_option(error: OptionError, *, is_refused: bool) -> None:
    """An option that exists neither here nor, as far as we know, in Spark's connector, which ignores it."""
    if is_refused:
        raise error
    _log.warning("%s: it is ignored", error.args[0])


class DataLossError(KohortError):
    """Records that were to be read are no longer there: expired, or their topic was deleted."""

    def __init__(
        self,
        what: str,
        hint: str = 'they expired or the topic was deleted; set "failOnDataLoss" to "false" to go on',
    ) -> None:
        super().__init__(f"{what}: some records may have been missed", hint=hint)


class TopicMadeAgainError(DataLossError):
    """A topic was deleted and made again: what was read of the old one says nothing about the new one."""

    def __init__(self, topics: Collection[str]) -> None:
        super().__init__(
            f"{', '.join(sorted(topics))} was deleted and made again",
            hint='set "failOnDataLoss" to "false" to read the new topic from its beginning; '
            'after the first batch of it, "true" is possible again',
        )


class NoMatchingOffsetError(KohortError):
    """A partition has no record at or after the timestamp to start from."""

    def __init__(self, partition: TopicPartition, timestamp: int) -> None:
        super().__init__(
            f"{partition} has no record at or after timestamp {timestamp}",
            hint='set "startingOffsetsByTimestampStrategy" to "latest" to start such partitions at their end',
        )


class GroupInUseError(KohortError):
    """Offsets can be committed to a group from outside only while it has no members."""

    def __init__(self, group_id: str, reason: str) -> None:
        super().__init__(
            f"cannot commit to group {group_id!r}: {reason}",
            hint='the group has members: join them with "commit" set to "member", or use a group of its own',
        )


class FencedError(KohortError):
    """The group gave partitions of this query to another member while a batch was running."""

    def __init__(self, group_id: str, lost: Collection[TopicPartition], reason: str) -> None:
        named = ", ".join(map(str, sorted(lost)))
        super().__init__(
            f"group {group_id!r} went on without this query and gave {named} to another member: {reason}",
            hint='raise "kafka.max.poll.interval.ms" above the time of a batch, or unset "failOnFenced"',
        )
