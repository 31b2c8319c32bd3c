"""``AsyncConsumer``: a Kafka consumer on the caller's event loop."""

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from kohort.assign.registry import choose_assignors
from kohort.client import arguments
from kohort.client.admin.clients import AsyncAdmin
from kohort.client.admin.topics import OffsetSpec
from kohort.client.arguments import AnyOffset, AnyPartition, PartitionKey, as_partition, as_partitions
from kohort.client.columnar.options import COLUMNS, take_table
from kohort.client.connection import dial_tcp
from kohort.client.consumer.engine import Engine, EngineInputs, Records, start
from kohort.client.consumer.lookups import OffsetAndTimestamp, by_times, partitions_of, places, public_topics
from kohort.client.consumer.member import CommitCallback, Invoke, invoke_here
from kohort.client.consumer.settings import ConsumerOptions, consumer_settings
from kohort.client.errors import ConcurrentUseError, ConsumerClosedError, NoGroupError
from kohort.client.fetching.buffer import Remaining
from kohort.client.fetching.chunk import ConsumerRecord
from kohort.client.membership.commands import AutoCommitIfDue, EnforceRebalance, SubscriptionReplaced
from kohort.client.membership.state import MemberGeneration
from kohort.client.subscription import (
    OffsetAndMetadata,
    PartitionState,
    Position,
    RebalanceListener,
    SubscriptionError,
    SubscriptionPattern,
    Subscriptions,
)
from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition

if TYPE_CHECKING:
    from pyarrow import lib as pa

CLOSE_TIMEOUT_MS = 30_000
_ALL_ROWS = 1 << 31
_ITERATION_MS = 60_000  # how long one poll of an iteration waits; then it polls again


class AsyncConsumer:
    """Reads topics, alone or as a member of a group.

    ``async with AsyncConsumer("orders", bootstrap_servers="…", group_id="billing") as consumer`` connects,
    and leaves the group after; ``async for record in consumer`` or ``await consumer.poll(1_000)`` read. For
    one task at a time; only ``wakeup`` may be called meanwhile.
    """

    def __init__(self, *topics: str, **settings: Unpack[ConsumerOptions]) -> None:
        """Settings as in ``ConsumerSettings``; SettingError names one that does not exist or fit."""
        self._settings = consumer_settings(settings)
        self._subscriptions = Subscriptions()
        assignors = choose_assignors(self._settings.partition_assignment_strategy)
        self._given = EngineInputs(self._subscriptions, assignors, invoke_here, dial_tcp)
        self._engine: Engine | None = None
        self._listener: RebalanceListener | None = None
        self.remaining = Remaining()  # polled for an iteration, and not yet reached by it
        self._is_polling = False
        self._is_closed = False
        if topics:
            self.subscribe(topics)

    def __repr__(self) -> str:
        group, how = self._settings.group_id, self._subscriptions.subscription.type.value
        has = ", ".join(map(str, self._subscriptions.assignment)) or "nothing"
        state = "closed" if self._is_closed else f"by {how} reads {has}"
        return f"<{type(self).__name__} of {'no group' if group is None else repr(group)}: {state}>"

    def invoke_by(self, invoke: Invoke) -> None:
        """Call listeners and callbacks this way; before ``start``."""
        self._given = self._given._replace(invoke=invoke)

    # --- beginning and end --------------------------------------------------------------------

    async def start(self) -> None:
        """Connect; NoBrokerError if no broker answers. ``async with`` does this."""
        if self._is_closed:
            raise ConsumerClosedError
        if self._engine is not None:
            return
        self._engine = await start(self._settings, self._given)
        self._tell_subscription()

    async def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commit (with auto-commit), give partitions back and leave; closing twice does nothing.

        Not while another task polls (cancel it, or wake it up), nor from a callback: ConcurrentUseError.
        """
        self._refuse_another_call()
        engine = self._engine
        if engine is None or self._is_closed:
            self._is_closed = True
            return
        self._is_closed = True
        self.stir()
        self.remaining.take_back(self._subscriptions.assignment)
        try:
            await engine.close(timeout_ms)  # the listener may still ask and commit
        finally:
            self._engine = None

    def _refuse_another_call(self) -> None:
        member = self._engine.member if self._engine is not None else None
        if member is not None and member.is_calling_back:
            raise ConcurrentUseError("callback")
        if self._is_polling:
            raise ConcurrentUseError("task")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.remaining.step_back()
        await self.close()

    def _working(self) -> Engine:
        if self._engine is None:
            raise ConsumerClosedError(
                "the consumer is closed" if self._is_closed else "the consumer is not started"
            )
        return self._engine

    # --- what to read -------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics, or those whose whole name matches, as a member of the group.

        A ``SubscriptionPattern`` is matched by the brokers; that needs group_protocol "consumer".

        Replaces an earlier subscription. The listener's methods may be coroutine functions.
        """
        names = arguments.as_topics(topics)
        arguments.check_listener(listener)
        if self._settings.group_id is None:
            raise NoGroupError("subscribe")
        if (pattern is None) == (not names):
            raise SubscriptionError("subscribe to topics or to a pattern", hint="to give up: unsubscribe()")
        if isinstance(pattern, SubscriptionPattern):
            if not self._settings.uses_consumer_protocol:
                raise SubscriptionError(
                    "a SubscriptionPattern needs group_protocol='consumer'",
                    hint="in the classic protocol the consumer matches: give the pattern as text",
                )
            self._subscriptions.subscribe_remote_pattern(pattern)
        elif pattern is not None:
            self._subscriptions.subscribe_pattern(re.compile(pattern))
        else:
            self._subscriptions.subscribe(names)
        self._listener = listener
        self._tell_subscription()

    def _tell_subscription(self) -> None:
        engine = self._engine
        if engine is not None and engine.member is not None and self._subscriptions.is_group_managed:
            engine.member.listener = self._listener
            engine.member.do(SubscriptionReplaced())

    async def unsubscribe(self) -> None:
        """Read nothing; leaves the group. The listener is called with what goes."""
        self.stir()
        self.remaining.drop()
        if self._engine is not None and self._engine.member is not None:
            await self._engine.member.unsubscribe()
        else:
            self._subscriptions.unsubscribe()

    def assign(self, partitions: Iterable[AnyPartition]) -> None:
        """Read exactly these partitions, outside any membership; replaces an earlier assignment."""
        wanted = set(as_partitions(partitions))
        if (engine := self._engine) is not None and engine.member is not None:
            engine.member.do(AutoCommitIfDue())
        self.remaining.drop(set(self._subscriptions.assignment) - wanted)
        self._subscriptions.assign(wanted)
        self.stir()

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer has."""
        return set(self._subscriptions.assignment)

    def subscription(self) -> set[str]:
        """The topics subscribed to; with a pattern those that match now."""
        managed = self._subscriptions.is_group_managed
        return set(self._subscriptions.subscription.topics) if managed else set()

    # --- reading ------------------------------------------------------------------------------

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Records:
        """Records by partition, as soon as there are some; none when the time is up.

        Takes part in rebalances: call it more often than max_poll_interval_ms.
        """
        engine, patience = self._working(), arguments.as_millis(timeout_ms)
        limit = arguments.as_limit(max_records, self._settings.max_poll_records)
        with self._polling():
            if len(self.remaining):
                return self.remaining.take_all()
            if (buffered := engine.poll_buffered(limit)) is not None:
                return buffered
            return await engine.poll(patience, limit)

    @contextmanager
    def _polling(self) -> Iterator[None]:
        self._refuse_another_call()
        self._is_polling = True
        try:
            yield
        finally:
            self._is_polling = False

    def poll_buffered(self, max_records: int | None = None) -> Records | None:
        """What ``poll`` would return at once, with nothing to be done on the loop; None if there is."""
        if self._engine is None or self._is_polling or len(self.remaining):
            return None
        return self._engine.poll_buffered(arguments.as_limit(max_records, self._settings.max_poll_records))

    def stir(self) -> None:
        """Let the next poll see what has changed. From any thread."""
        if (engine := self._engine) is not None:
            engine.stir()

    async def take_part(self, timeout_ms: float = 0) -> bool:
        """Be a member and read nothing: rebalances advance and callbacks run, as in ``poll``.

        Whether the group has settled in time: then ``assignment`` is what this generation gave. For programs
        that read the records elsewhere; they commit with ``commit(offsets)``.
        """
        engine = self._working()
        with self._polling():
            return await engine.take_part(arguments.as_millis(timeout_ms))

    async def fetch_arrow(
        self, timeout_ms: float = 0, max_rows: int | None = None, columns: Iterable[str] = COLUMNS
    ) -> "dict[TopicPartition, pa.Table]":
        """As ``poll``, with an Arrow table for each partition: all that has arrived, or up to ``max_rows``.

        Needs ``kohort[arrow]``. Deserializers and interceptors are not asked.
        """
        engine = self._working()
        take, limit = take_table(columns), arguments.as_limit(max_rows, _ALL_ROWS)
        with self._polling():
            self.remaining.take_back(self._subscriptions.assignment)
            return await engine.poll_by(take, arguments.as_millis(timeout_ms), limit)

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Records one at a time, for ever. A commit covers those that were handed out."""
        while True:
            record = self.remaining.next()
            if record is None:
                self.remaining.refill((await self.poll(_ITERATION_MS)).values())
            else:
                yield record

    def wakeup(self) -> None:
        """End the poll that waits, or the next one, with WakeupError."""
        self._working().wakeup()

    # --- where to read ------------------------------------------------------------------------

    def seek(self, partition: AnyPartition, offset: AnyOffset) -> None:
        """Read on from ``offset``; with a leader epoch the leader is asked first whether it still exists."""
        where, place = as_partition(partition), arguments.as_offset(offset)
        if place.offset < 0:
            raise KohortError(f"cannot seek to offset {place.offset}: it is negative")
        self._subscriptions.state(where).seek(Position(place.offset, place.leader_epoch))
        self.remaining.drop([where])
        self.stir()

    def seek_to_beginning(self, *partitions: AnyPartition) -> None:
        """Read these (all, if none are named) from the start; looked up by the next poll."""
        self._reset(partitions, OffsetSpec.EARLIEST)

    def seek_to_end(self, *partitions: AnyPartition) -> None:
        """Read only what comes from now on."""
        self._reset(partitions, OffsetSpec.LATEST)

    def _reset(self, partitions: Iterable[AnyPartition], spec: OffsetSpec) -> None:
        chosen = as_partitions(partitions) or list(self._subscriptions.assignment)
        for state in self._states(chosen):
            state.reset(int(spec))
        self.remaining.drop(chosen)
        self.stir()

    def _states(self, partitions: Iterable[AnyPartition]) -> list[PartitionState]:
        return [self._subscriptions.state(each) for each in as_partitions(partitions)]

    def pause(self, *partitions: AnyPartition) -> None:
        """Return nothing of these until ``resume``; the group does not notice."""
        for state in self._states(partitions):
            state.is_paused = True
        self.remaining.take_back(self._subscriptions.assignment, as_partitions(partitions))

    def resume(self, *partitions: AnyPartition) -> None:
        """Return records of these partitions again."""
        for state in self._states(partitions):
            state.is_paused = False
        self.stir()

    def paused(self) -> set[TopicPartition]:
        """The partitions that ``pause`` stopped."""
        return {each for each, state in self._subscriptions.assignment.items() if state.is_paused}

    async def position(self, partition: AnyPartition, timeout_ms: float | None = None) -> int:
        """The offset of the next record to be returned."""
        where = as_partition(partition)
        if (first := self.remaining.first_offsets().get(where)) is not None:
            return first.offset
        return await self._working().position(where, self._patience(timeout_ms))

    def current_lag(self, partition: AnyPartition) -> int | None:
        """How many offsets are left to be read, as far as known without asking."""
        where = as_partition(partition)
        position = self._subscriptions.state(where).valid_position
        end = self._working().fetcher.ends.get(where)
        return None if position is None or end is None else max(0, end - position.offset)

    def _patience(self, timeout_ms: float | None) -> float:
        return (
            self._settings.default_api_timeout_ms if timeout_ms is None else arguments.as_millis(timeout_ms)
        )

    # --- commits ------------------------------------------------------------------------------

    async def commit(
        self,
        offsets: Mapping[PartitionKey, AnyOffset] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit these offsets, or everything that was handed out, and wait for the answer."""
        engine = self._working()
        deadline = engine.after(self._patience(timeout_ms))
        await engine.require_member("commit").commit(self._to_commit(offsets), deadline)

    def commit_async(
        self,
        offsets: Mapping[PartitionKey, AnyOffset] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit without waiting, one attempt; the callback runs inside a later call."""
        member = self._working().require_member("commit")
        member.commit_async(self._to_commit(offsets), callback)

    def _to_commit(
        self, offsets: Mapping[PartitionKey, AnyOffset] | None
    ) -> dict[TopicPartition, OffsetAndMetadata] | None:
        if offsets is not None:
            return arguments.as_offsets(offsets)
        if not len(self.remaining):
            return None
        handed_out = self._subscriptions.assignment.committable()
        firsts = self.remaining.first_offsets()
        return {each: firsts.get(each, offset) for each, offset in handed_out.items()}

    async def committed(
        self, *partitions: AnyPartition, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where nothing is."""
        wanted = tuple(as_partitions(partitions))
        return dict(await self._working().committed(wanted, self._patience(timeout_ms)))

    # --- the group ----------------------------------------------------------------------------

    def group_metadata(self) -> MemberGeneration:
        """The generation and the member id."""
        return self._working().require_member("be a member").membership.generation

    def enforce_rebalance(self, reason: str = "") -> None:
        """Let the group rebalance at the next poll."""
        self._working().require_member("rebalance").do(EnforceRebalance(reason))

    # --- the cluster --------------------------------------------------------------------------

    def admin(self) -> AsyncAdmin:
        """An admin client on the connections of this consumer, which closes them."""
        return AsyncAdmin(self._working().cluster)

    async def beginning_offsets(self, partitions: Iterable[AnyPartition]) -> dict[TopicPartition, int]:
        """The first offset there is of each."""
        return await self._places(partitions, OffsetSpec.EARLIEST)

    async def end_offsets(self, partitions: Iterable[AnyPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record that can be read; with read_committed behind the last decided."""
        return await self._places(partitions, OffsetSpec.LATEST)

    async def _places(
        self, partitions: Iterable[AnyPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        committed = self._settings.read_committed
        return await places(self._working().cluster, partitions, spec, read_committed=committed)

    async def offsets_for_times(
        self, times: Mapping[PartitionKey, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record with a timestamp at or after the one given, for each partition."""
        committed = self._settings.read_committed
        return await by_times(self._working().cluster, times, read_committed=committed)

    async def partitions_for_topic(self, topic: str) -> set[int]:
        """The partitions of a topic; UnknownTopicError if there is none."""
        return await partitions_of(self._working().cluster, topic)

    async def topics(self) -> set[str]:
        """All topics of the cluster that may be seen, without internal ones."""
        return await public_topics(self._working().cluster)
