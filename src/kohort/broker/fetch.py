"""Reading for consumers: which partitions, how many bytes, and waiting until there are enough."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kohort.broker.fetch_sessions import PartitionKey, TopicKey, Wanted
from kohort.broker.heavy_work import Steps
from kohort.broker.leadership import NO_EPOCH, Leader, NotLedError, led
from kohort.broker.topics import ServedTopic
from kohort.log.log import Log, Slice
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, Offset
from kohort.model.topics import TopicPartition
from kohort.wire.messages.fetch import EpochEndOffset, LeaderIdAndEpoch, PartitionData

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState


MOST_WAITING = 100_000
"""Partitions that Fetches with very many of them wait on together; another one is answered at once."""

_NOTHING = Slice([], 0, Offset(0))
_WITHOUT_TOPIC = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)


class FetchTerms(NamedTuple):
    """What holds for all partitions of one Fetch."""

    version: int
    min_bytes: int
    max_bytes: int
    committed_only: bool  # isolation level read_committed
    may_exceed: bool = True  # whether the first batch comes whole even if it is larger than all budgets
    may_read: Callable[[str], bool] | None = None  # asked for each topic, if there is an authorizer
    listener: str = ""  # that the request came in on


class Planned(NamedTuple):
    """One partition of a Fetch: its log, or why there is none to read."""

    key: PartitionKey
    wanted: Wanted
    log: Log | None
    error: ErrorCode = ErrorCode.NONE
    diverging: EpochEndOffset | None = None
    leader: Leader | None = None  # elsewhere


def plan(broker: "BrokerState", wanted: dict[PartitionKey, Wanted], terms: FetchTerms) -> Iterator[Planned]:
    """Find the logs, one by one; every check that does not need to read."""
    for key, ask in list(wanted.items()):
        yield _plan_one(broker, key, ask, terms)


def _plan_one(broker: "BrokerState", key: PartitionKey, wanted: Wanted, terms: FetchTerms) -> Planned:
    try:
        if terms.may_read is not None:
            _check_may_read(broker, key[0], terms.may_read)
        topic = _topic(broker, key[0])
        claimed = max(wanted.leader_epoch, NO_EPOCH)  # any negative epoch is none here
        log = led(broker, topic, key[1], claimed)
        if log.failure is not None:
            raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR)
        if wanted.offset < log.start_offset:
            raise RefusedError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return Planned(key, wanted, log, diverging=_divergence(log, wanted))
    except NotLedError as error:
        return Planned(key, wanted, None, error.code, leader=error.leader)
    except RefusedError as error:
        return Planned(key, wanted, None, error.code)


def _check_may_read(broker: "BrokerState", key: TopicKey, may_read: Callable[[str], bool]) -> None:
    """Before the topic is looked up: who may not read it does not learn whether it exists."""
    name = key if isinstance(key, str) else _topic(broker, key).name
    if not may_read(name):
        raise RefusedError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _topic(broker: "BrokerState", key: TopicKey) -> ServedTopic:
    if isinstance(key, str):
        topic = broker.topics.get(key)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        topic = broker.topics.by_id(key)
        code = ErrorCode.UNKNOWN_TOPIC_ID
    if topic is None:
        raise RefusedError(code)
    return topic


def _divergence(log: Log, wanted: Wanted) -> EpochEndOffset | None:
    """Where the reader's history leaves ours, if it says from which epoch it read last (KIP-595).

    Raises OFFSET_OUT_OF_RANGE for an epoch of which nothing is known.
    """
    if wanted.last_fetched_epoch < 0:
        return None
    end = log.end_offset_for_epoch(LeaderEpoch(wanted.last_fetched_epoch))
    if end.leader_epoch < 0:
        raise RefusedError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if end.leader_epoch < wanted.last_fetched_epoch or end.end_offset < wanted.offset:
        return EpochEndOffset(epoch=end.leader_epoch, end_offset=end.end_offset)
    return None


def _limit(log: Log, terms: FetchTerms) -> Offset:
    return log.last_stable_offset if terms.committed_only else log.high_watermark


def is_satisfied(planned: list[Planned], terms: FetchTerms) -> bool:
    """Whether a Fetch can be answered now: something is wrong, or there are bytes enough."""
    readable = 0
    for part in planned:
        here = _readable(part, terms)
        if here is None:
            return True
        readable += here
        if readable >= terms.min_bytes:
            return True
    return terms.min_bytes <= 0 or not planned


def _readable(part: Planned, terms: FetchTerms) -> int | None:
    """How many bytes a reader would find, or None if the reply has to say what is wrong."""
    log = part.log
    if log is None or part.diverging is not None or log.failure is not None or _is_beyond(part, log):
        return None
    try:
        return log.readable_bytes(Offset(part.wanted.offset), _limit(log, terms))
    except RefusedError:  # it cannot be read now
        return None


def _is_beyond(part: Planned, log: Log) -> bool:
    """Whether it is asked for what is not there yet: the log itself has to say so, and may look it up."""
    return part.wanted.offset > log.end_offset


def read(
    planned: list[Planned], terms: FetchTerms, take: Callable[[PartitionKey, PartitionData], bool]
) -> Steps[Slice, None]:
    """Every partition of the plan, one by one, in its order: whole batches within both byte budgets.

    The first batch of the reply comes whole even if it is larger than a budget; otherwise a
    consumer with a small budget would never get past it. Partitions that find the budget used
    up are there, with no records. ``take`` gets them, and says when it is time to give way.
    """
    left = terms.max_bytes
    at_least_one = terms.may_exceed
    for part in planned:
        log = part.log
        if log is None:
            answer = _failed(part, part.error)
        else:
            answer = _unread(part, log, terms)
            budget = max(min(left, part.wanted.max_bytes), 0)  # Kafka fails with -1 below 0
            if part.diverging is None and (budget or at_least_one or _is_beyond(part, log)):
                limit = _limit(log, terms)
                try:
                    found = log.read(
                        Offset(part.wanted.offset), budget, limit=limit, at_least_one=at_least_one
                    )
                    if not isinstance(found, Slice):
                        found = (yield found) or _NOTHING
                except RefusedError as error:  # retention or truncation was faster
                    answer = _failed(part, error.code)
                else:
                    answer.records = found.buffers
                    left -= found.size
                    at_least_one = at_least_one and found.size == 0
        if take(part.key, answer):
            yield None


def _unread(part: Planned, log: Log, terms: FetchTerms) -> PartitionData:
    return PartitionData(
        partition_index=part.key[1],
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.start_offset,
        aborted_transactions=[] if terms.committed_only else None,
        records=b"",
        diverging_epoch=part.diverging,
    )


def _failed(part: Planned, code: ErrorCode) -> PartitionData:
    leader = part.leader
    return PartitionData(
        partition_index=part.key[1],
        error_code=code,
        high_watermark=-1,
        aborted_transactions=[] if code in _WITHOUT_TOPIC else None,  # as Kafka has it
        records=b"",
        current_leader=leader and LeaderIdAndEpoch(leader_id=leader.node.node_id, leader_epoch=leader.epoch),
    )


class FetchWaiters:
    """Fetches that wait for bytes, by the partitions they wait on."""

    def __init__(self) -> None:
        self._waiting: defaultdict[TopicPartition, dict[WaitingFetch, None]] = defaultdict(dict)
        self._partitions = 0

    def has_room_for(self, partitions: int) -> bool:
        """Whether a Fetch with very many partitions may wait: what it keeps for each is not small."""
        return self._partitions + partitions <= MOST_WAITING

    def wait(self, planned: list[Planned], terms: FetchTerms, max_wait_ms: int) -> "asyncio.Future[None]":
        """A future that is done when the plan is satisfied or the wait is over; cancel it to give up."""
        waiting = WaitingFetch(planned, terms, asyncio.get_running_loop().create_future())
        partitions = waiting.partitions
        self._partitions += len(partitions)
        for partition in partitions:
            self._waiting[partition][waiting] = None
        alarm = asyncio.get_running_loop().call_later(max_wait_ms / 1_000, waiting.finish)

        def forget(_future: object) -> None:
            alarm.cancel()
            self._partitions -= len(partitions)
            for partition in partitions:
                here = self._waiting[partition]
                here.pop(waiting, None)
                if not here:
                    del self._waiting[partition]

        waiting.future.add_done_callback(forget)
        for partition in partitions:  # what came since the plan was made has woken no waiter
            waiting.look_at(partition)
        return waiting.future

    def look_again(self, partition: TopicPartition) -> None:
        """Something happened to a partition: waiters that have enough now are answered."""
        for waiting in list(self._waiting.get(partition, ())):
            waiting.look_at(partition)

    def __len__(self) -> int:
        return len({waiting for here in self._waiting.values() for waiting in here})


class WaitingFetch:
    """One Fetch in its long poll. It knows what each partition had: an append costs a look at one of them."""

    __slots__ = ("_found", "_parts", "_readable", "_terms", "future")

    def __init__(self, planned: list[Planned], terms: FetchTerms, future: "asyncio.Future[None]") -> None:
        self._parts = {part.log.partition: part for part in planned if part.log is not None}
        self._found: dict[TopicPartition, int] = {}
        self._readable = 0
        self._terms = terms
        self.future = future

    @property
    def partitions(self) -> list[TopicPartition]:
        return list(self._parts)

    def look_at(self, partition: TopicPartition) -> None:
        if self.future.done():
            return
        found = _readable(self._parts[partition], self._terms)
        if found is not None:
            self._readable += found - self._found.get(partition, 0)
            self._found[partition] = found
        if found is None or self._readable >= self._terms.min_bytes:
            self.finish()

    def finish(self) -> None:
        if not self.future.done():
            self.future.set_result(None)
