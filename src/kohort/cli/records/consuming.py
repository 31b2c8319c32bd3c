"""One run of ``kohort consume``: a consumer that shows what it reads, up to the end that was asked for."""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kohort.cli.commentary import Commentary, show_partitions
from kohort.cli.records.consume_from import Bounds, StartAt, offsets_of
from kohort.client.consumer import AsyncConsumer
from kohort.client.errors import CommitTimeoutError, UnknownTopicError
from kohort.client.fetching.chunk import ConsumerRecord
from kohort.model.errors import KohortError
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition

_ROUND_MS = 60_000.0  # how long a poll may wait when nothing else is to be looked at
_LOOK_MS = 100.0  # ... and when the end has to be noticed
_COMMIT_MS = 4_000
_LEAVE_MS = 1_000  # brokers that answer need less; others are not waited for
_PRINT_SECONDS = 1.0  # how long an interrupted printing may go on
_MOST = 500  # records of one poll

Records = dict[TopicPartition, list[ConsumerRecord]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeRequest:
    """What is to be read. Without ``start`` where the group is; without ``stop`` for ever."""

    topics: Sequence[str] = ()
    pattern: str | None = None
    partitions: Sequence[int] | None = None
    group: str | None = None
    commits: bool = True
    start: StartAt | None = None
    stop: StartAt | None = None
    limit: int | None = None
    idle_seconds: float | None = None

    @property
    def is_member(self) -> bool:
        """Whether the group hands out the partitions, rather than we choose them."""
        return self.group is not None and self.partitions is None


class Consuming:
    """Reads and shows until the wish is fulfilled. Also listens to the rebalances of the group."""

    def __init__(
        self,
        consumer: AsyncConsumer,
        wish: ConsumeRequest,
        show: Callable[[list[ConsumerRecord]], int],
        commentary: Commentary,
    ) -> None:
        """``show`` prints records, in a thread of its own, and returns how many bytes they had."""
        self._consumer = consumer
        self._wish = wish
        self._show = show
        self._commentary = commentary
        self._left = wish.limit
        self._next: dict[TopicPartition, int] = {}  # where each partition goes on after what was shown
        self._placed: set[TopicPartition] = set()
        self._stops: dict[TopicPartition, int] = {}
        self._is_leaving = False
        self._busy_at: float | None = None  # when something last came; None before there was an assignment

    async def run(self) -> None:
        """Read to the end of the wish. Whatever ends it, what was shown is committed and the group left.

        That takes a few seconds at most, also if no broker answers any more.
        """
        await self._consumer.start()
        try:
            await self._begin()
            try:
                while not await self._is_done():
                    await self._round()
            finally:
                self._is_leaving = True
                await self._commit()
        finally:
            await self._consumer.close(_LEAVE_MS)

    # --- the beginning ------------------------------------------------------------------------

    async def _begin(self) -> None:
        wish = self._wish
        topics = await self._topics()
        if wish.is_member:
            if wish.pattern is not None:
                self._consumer.subscribe(pattern=wish.pattern, listener=self)
            else:
                self._consumer.subscribe(topics, listener=self)
            return
        chosen = [each for topic in topics for each in await self._partitions(topic)]
        self._consumer.assign(chosen)
        await self._place(chosen)

    async def _topics(self) -> list[str]:
        """The topics by name; a name that does not exist is an error here, before anybody waits for it."""
        if self._wish.pattern is None:
            for topic in self._wish.topics:
                await self._consumer.partitions_for_topic(topic)
            return list(self._wish.topics)
        pattern = re.compile(self._wish.pattern)
        found = sorted(topic for topic in await self._consumer.topics() if pattern.fullmatch(topic))
        if not found and not self._wish.is_member:
            raise KohortError(
                f"no topic matches {self._wish.pattern!r}",
                hint="it must match the whole name; `kohort topics list` shows the topics",
            )
        return found

    async def _partitions(self, topic: str) -> list[TopicPartition]:
        there = await self._consumer.partitions_for_topic(topic)
        chosen = there if self._wish.partitions is None else set(self._wish.partitions)
        for number in sorted(chosen - there):
            raise UnknownTopicError(
                topic, f"no partition {number}: it has the partitions 0 to {len(there) - 1}"
            )
        return [TopicPartition(TopicName(topic), Partition(number)) for number in sorted(chosen)]

    async def _place(self, partitions: Iterable[TopicPartition]) -> None:
        """Find out where to start and stop in partitions that are ours for the first time."""
        fresh = [each for each in partitions if each not in self._placed]
        self._placed.update(fresh)
        self._busy_at = time.monotonic()
        if not fresh:
            return
        starts = await self._offsets(self._wish.start, fresh)
        for partition, offset in starts.items():
            self._consumer.seek(partition, offset)
        stops = await self._offsets(self._wish.stop, fresh)
        self._stops |= stops
        await self._expect(stops)
        # To ask for all that took its time, and nothing could come meanwhile.
        self._busy_at = time.monotonic()

    async def _offsets(
        self, place: StartAt | None, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, int]:
        if place is None:
            return {}
        first = await self._consumer.beginning_offsets(partitions)
        end = await self._consumer.end_offsets(partitions)
        at_time: dict[TopicPartition, int | None] = {}
        if place.spec is not None and place.spec >= 0:
            found = await self._consumer.offsets_for_times(dict.fromkeys(partitions, place.spec))
            at_time = {each: None if one is None else one.offset for each, one in found.items()}
        return offsets_of(place, Bounds(first, end, at_time))

    async def _expect(self, stops: dict[TopicPartition, int]) -> None:
        """Let the progress know how much there is, if that can be known."""
        total = self._wish.limit
        if stops and not self._wish.is_member:
            places = [(stop, await self._consumer.position(each)) for each, stop in stops.items()]
            there = sum(max(0, stop - at) for stop, at in places)
            total = there if total is None else min(total, there)
        if total is not None:
            self._commentary.expect(total)

    # --- the work -----------------------------------------------------------------------------

    async def _is_done(self) -> bool:
        if self._left == 0 or self._idle_ms() == 0:
            return True
        if self._wish.stop is None or self._busy_at is None:
            return False
        return all([await self._has_stopped(each) for each in sorted(self._consumer.assignment())])

    async def _has_stopped(self, partition: TopicPartition) -> bool:
        stop = self._stops.get(partition)
        if stop is None or await self._consumer.position(partition) < stop:
            return False
        self._consumer.pause(partition)
        return True

    def _idle_ms(self) -> float | None:
        """How long nothing may come any more; None if there is no such limit, or nothing can come yet."""
        if self._wish.idle_seconds is None or self._busy_at is None:
            return None
        return max(0.0, (self._busy_at + self._wish.idle_seconds - time.monotonic()) * 1_000)

    async def _round(self) -> None:
        idle = self._idle_ms()
        longest = _ROUND_MS if self._wish.stop is None and self._wish.idle_seconds is None else _LOOK_MS
        most = _MOST if self._left is None else min(self._left, _MOST)
        found = self._cut(await self._consumer.poll(longest if idle is None else min(idle, longest), most))
        if found:
            await self._show_all(found)
            self._busy_at = time.monotonic()

    def _cut(self, found: Records) -> Records:
        """Without what lies behind the stop; reading stands exactly there then."""
        kept: Records = {}
        for partition, records in found.items():
            stop = self._stops.get(partition)
            if stop is not None and records[-1].offset >= stop:
                self._consumer.seek(partition, stop)
                records = [record for record in records if record.offset < stop]
            if records:
                kept[partition] = records
        return kept

    async def _show_all(self, found: Records) -> None:
        records = [record for portion in found.values() for record in portion]
        # A pager that is not read stops the printing, and must not stop the heartbeats.
        printing = asyncio.get_running_loop().create_task(asyncio.to_thread(self._show, records))
        try:
            await asyncio.shield(printing)
        except asyncio.CancelledError:  # it is usually done in a moment all the same
            await asyncio.wait([printing], timeout=_PRINT_SECONDS)
            raise
        finally:  # without giving way: we may be interrupted, but not before this is known
            if printing.done() and printing.exception() is None:
                self._account(found, printing.result())
            else:
                for partition, portion in found.items():
                    self._consumer.seek(partition, portion[0].offset)  # not shown: not to be committed

    def _account(self, found: Records, size: int) -> None:
        self._next |= {partition: portion[-1].offset + 1 for partition, portion in found.items()}
        records = sum(map(len, found.values()))
        self._left = None if self._left is None else self._left - records
        self._commentary.advance(records, size)

    # --- the group ----------------------------------------------------------------------------

    async def on_partitions_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._commentary.note(f"partitions assigned: {show_partitions(partitions)}")
        if not self._wish.commits:  # the group does not know how far we were
            for partition in partitions:
                if partition in self._next:
                    self._consumer.seek(partition, self._next[partition])
        await self._place(partitions)

    def on_partitions_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        if not self._is_leaving:  # that they go at the end is no news
            self._commentary.note(f"partitions revoked: {show_partitions(partitions)}")

    def on_partitions_lost(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._commentary.note(f"partitions lost: {show_partitions(partitions)}")

    async def _commit(self) -> None:
        """Commit what was shown, and say so."""
        held = sorted(self._consumer.assignment())
        if self._wish.group is None or not self._wish.commits or not held:
            return
        try:
            await self._consumer.commit(timeout_ms=_COMMIT_MS)
            found = await self._consumer.committed(*held, timeout_ms=_COMMIT_MS)
        except CommitTimeoutError as error:
            self._commentary.note(f"not committed, and the group may not know that this member left: {error}")
            return
        except KohortError as error:
            self._commentary.note(f"not committed: {error}")
            return
        shown = ", ".join(f"{each} at {one.offset}" for each, one in sorted(found.items()) if one is not None)
        self._commentary.note(f"committed for group {self._wish.group}: {shown or 'nothing'}")
