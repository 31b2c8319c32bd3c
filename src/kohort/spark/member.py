"""The membership of a streaming query: our consumer, in the runner's process, that never fetches.

Heartbeats and the other requests of the group, by ``kafka.group.protocol``, run on the consumer's own
thread. What a rebalance does to the query (giving partitions back, taking new ones) happens inside ``poll``
alone, and the reader polls between micro-batches.
"""

from collections.abc import Callable, Collection, Coroutine, Mapping
from enum import Enum
from typing import Any, Protocol, TypeVar

from kohort.client.admin import AsyncAdmin
from kohort.client.consumer import Consumer
from kohort.client.errors import (
    BrokerError,
    CommitFailedError,
    FencedInstanceIdError,
    OffsetFetchTimeoutError,
    RebalanceInProgressError,
)
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.topics import TopicPartition
from kohort.spark.errors import OptionError
from kohort.spark.group.plan import NOT_ASSIGNED, GroupAssignment
from kohort.spark.offsets import Assign, SubscribePattern, SubscribeTo
from kohort.spark.options import SourceOptions

T = TypeVar("T")
METADATA_MAX_AGE_MS = 30_000  # new topics and partitions; Kafka's five minutes are long for a stream


class Participant(Protocol):
    """What the reader needs of a membership, whatever protocol the group speaks.

    In the consumer protocol heartbeats run by themselves, ``poll`` acknowledges what was revoked since the
    last batch, the generation is the member epoch, and ``commit`` tries again with the newest epoch after
    STALE_MEMBER_EPOCH.
    """

    def poll(self, timeout_ms: float) -> GroupAssignment:
        """Take part in rebalances for at most this time; return what the member owns. Raises what ends it.

        NOT_ASSIGNED while it is in no generation, or waits for its part of one.
        """

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_ms: float) -> None:
        """Commit in the current generation; raises the error as it was, see ``verdict``."""

    def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float
    ) -> Mapping[TopicPartition, int | None]:
        """What the group has committed; None where nothing is."""

    def leave(self, timeout_ms: float) -> None:
        """Leave the group (a static member only goes silent) and let go of everything."""


class NotJoinedError(KohortError):
    """The group did not settle in time, so a query that ends by itself has nothing to read."""

    def __init__(self, group_id: str | None, millis: float) -> None:
        super().__init__(
            f"group {group_id!r} gave this query no assignment within {millis / 1_000:g} s",
            hint="another member may not have answered the rebalance yet: see `kohort groups describe`; "
            "start the query again",
            retriable=True,
        )


class CommitVerdict(Enum):
    """What an error of a commit means for the query."""

    FENCED = "another member has the partitions: drop them"
    LATER = "still a member: commit again after the next poll"
    FATAL = "no later attempt will do better"


_FENCING = (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


def verdict(error: KohortError) -> CommitVerdict:
    """Judge what ``Participant.commit`` or ``Participant.committed`` raised."""
    if isinstance(error, CommitFailedError | FencedInstanceIdError):
        return CommitVerdict.FENCED
    if isinstance(error, BrokerError) and error.code in _FENCING:
        return CommitVerdict.FENCED
    if error.retriable or isinstance(error, RebalanceInProgressError | OffsetFetchTimeoutError):
        return CommitVerdict.LATER
    return CommitVerdict.FATAL


class QueryMember:
    """A ``Participant`` of either protocol: our consumer, with any of its settings."""

    def __init__(self, options: SourceOptions) -> None:
        """Connects with the first poll, not here."""
        self._consumer = Consumer(**member_settings(options))
        match options.topics:
            case SubscribeTo(names):
                self._consumer.subscribe(names)
            case SubscribePattern(pattern):
                self._consumer.subscribe(pattern=pattern)
            case Assign():
                raise assigned_in_a_group()

    def administer(self, question: Callable[[AsyncAdmin], Coroutine[Any, Any, T]]) -> T:
        """Ask the cluster over the connections of the member, whether or not it has joined."""
        self._consumer.start()
        return self._consumer.administer(question)

    def poll(self, timeout_ms: float) -> GroupAssignment:
        self._consumer.start()
        has_settled = self._consumer.take_part(timeout_ms)
        current = self._consumer.group_metadata()
        held = tuple(sorted(self._consumer.assignment()))
        if current.is_unknown_to_the_group or not (has_settled or held):
            return NOT_ASSIGNED  # what it held may be anybody's by now
        return GroupAssignment(held, current.generation_id, current.member_id)

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_ms: float) -> None:
        self._consumer.commit(dict(offsets.items()), timeout_ms)

    def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float
    ) -> dict[TopicPartition, int | None]:
        found = self._consumer.committed(*partitions, timeout_ms=timeout_ms) if partitions else {}
        return {where: None if offset is None else offset.offset for where, offset in found.items()}

    def leave(self, timeout_ms: float) -> None:
        self._consumer.close(timeout_ms)


def member_settings(options: SourceOptions) -> dict[str, Any]:
    """The settings of the consumer behind a member: the query's, and what a member of Spark must not do."""
    return {
        "client_id": f"spark-{options.group_id}",
        "metadata_max_age_ms": METADATA_MAX_AGE_MS,
        **options.consumer_settings,
        "bootstrap_servers": options.bootstrap,
        "group_id": options.group_id,
        "group_instance_id": options.instance_id,
        "enable_auto_commit": False,
        "allow_auto_create_topics": False,
    }


def assigned_in_a_group() -> OptionError:
    """Partitions that the user assigns and partitions that a group assigns exclude each other."""
    return OptionError(
        "a member of a group cannot assign its own partitions",
        hint='use "subscribe", or set "commit" to "group" to commit without being a member',
    )
