"""The journal: every event of every group with its cause, as a topic that anybody can read.

``__kohort_journal`` is keyed by group, one JSON document a record. Events get here when they are
true for the next decision; what is durable may be stored a moment later. The journal is never in
the way: it is written in the background, and if it cannot keep up it drops events and records how many.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from kohort.broker.clock import Clock, pause
from kohort.broker.config_values import ConfigValues
from kohort.broker.journal_format import event_document, gap_document
from kohort.broker.topics import ServedTopic, Topics, TopicToCreate
from kohort.cluster.lease import SessionId
from kohort.groups.events import Event, OffsetsCommitted
from kohort.log.background import Background, report
from kohort.log.log import Append, Log, Storage
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import TopicId, WallTime
from kohort.model.topics import CONSUMER_OFFSETS, JOURNAL
from kohort.primitives.strings import partition_for
from kohort.records.build import build_batch
from kohort.records.record import NewRecord

_CAPACITY = 10_000  # events that may wait: several rebalances of a 1,000-member group
_BATCH = 200
_LOOKS, _LOOK_AGAIN_MS = 50, 100  # for the log of a partition that is not open yet


class JournalWriter:
    """Takes events at once, writes them a moment later. ``start`` and ``stop`` are called once each."""

    def __init__(
        self,
        topics: Topics,
        storage: Storage,
        configs: ConfigValues,
        clock: Clock,
        session: Callable[[], SessionId] | None = None,
    ) -> None:
        """``session`` is for a node that shares the journal with others."""
        self._session = session
        self._topics = topics
        self._storage = storage
        self._configs = configs
        self._clock = clock
        self._waiting: deque[tuple[WallTime, Event]] = deque()
        self.dropped = 0  # events that no record of a gap counts yet
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._background = Background(partial(pause, clock))

    def start(self) -> None:
        self._background.keep("the journal", self._run)

    async def stop(self) -> None:
        """Write what waits, as far as the log takes it, and end."""
        await self.written()
        await self._background.stop()

    async def written(self) -> None:
        """Wait until everything taken so far is written or given up."""
        await self._idle.wait()

    def write(self, events: Iterable[Event]) -> None:
        """Take events that have just become true. Never waits, never fails."""
        at: WallTime | None = None
        for event in events:
            if type(event) is OffsetsCommitted and not self._configs.flag("kohort.journal.commits"):
                continue
            if len(self._waiting) >= _CAPACITY:
                self.dropped += 1
                continue
            if at is None:
                at = self._clock.now().wall
            self._waiting.append((at, event))
        if self._waiting:
            self._news.set()
            self._idle.clear()

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting and await self._write_some():
                pass
            if not self._news.is_set():
                self._idle.set()

    async def _write_some(self) -> bool:
        """Write one batch; whether it went well. What could not be written counts as dropped."""
        taken = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
        dropped, self.dropped = self.dropped, 0
        try:
            await self._append(taken, dropped)
        except Exception as error:
            self.dropped += dropped + len(taken)
            report(f"writing {len(taken)} events to the journal", error, "; it counts them as lost")
            return False
        return True

    async def _append(self, events: list[tuple[WallTime, Event]], dropped: int) -> None:
        topic = await self._topic()
        records: dict[int, list[NewRecord]] = {}
        for at, event in events:
            key = event.group_id.encode("utf-8", "surrogatepass")
            record = NewRecord(at, key, event_document(event, at, self._topic_name))
            records.setdefault(partition_for(event.group_id, topic.partitions), []).append(record)
        logs: dict[int, Log] = {}
        for each in records:
            log = await self._log(each)
            if log is not None:
                logs[each] = log
            elif not self._has_moved(each):
                self._lose(each, len(records[each]), "it is not open")
        if dropped and logs:
            at = self._clock.now().wall
            records[min(logs)].append(NewRecord(at, None, gap_document(dropped, at)))
        else:
            self.dropped += dropped
        appends = [
            Append(
                log.partition,
                bytearray(build_batch(records[each])),
                log.leader_epoch,
                self._clock.now().wall,
                from_client=False,
            )
            for each, log in logs.items()
        ]
        for each, result in zip(logs, await self._storage.append(appends), strict=True):
            if isinstance(result, RefusedError):
                has_gap = bool(dropped) and each == min(logs)
                self.dropped += dropped - 1 if has_gap else 0  # its record counts below
                self._lose(each, len(records[each]), str(result))

    def _lose(self, partition: int, count: int, reason: str) -> None:
        """Events of one partition cannot be written; those of the others can."""
        self.dropped += count
        error = RefusedError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{JOURNAL}-{partition}: {reason}")
        report(f"writing {count} events to the journal", error, "; it counts them as lost")

    async def _log(self, partition: int) -> Log | None:
        """The log for the groups of a shard; ``None`` if that shard has moved, or if it does not open."""
        for _ in range(_LOOKS):
            topic = self._topics.get(JOURNAL)
            log = None if topic is None else topic.logs.get(partition)
            if log is not None or self._has_moved(partition):
                return log
            await pause(self._clock, _LOOK_AGAIN_MS)  # it is about to be led here
        return None

    def _has_moved(self, partition: int) -> bool:
        """Whether another node has the groups of a partition, and tells of them from now on.

        Their shard says so: its partition of the journal follows it, but may be a moment behind.
        """
        is_deleted = self._topics.get(JOURNAL) is None
        if is_deleted or self._session is None:
            return is_deleted
        shards = self._topics.get(CONSUMER_OFFSETS)
        if shards is None or partition >= shards.partitions:
            return True
        return shards.placed[partition].leader not in (None, self._session())

    def _topic_name(self, topic_id: TopicId) -> str | None:
        topic = self._topics.by_id(topic_id)
        return None if topic is None else topic.name

    async def _topic(self) -> ServedTopic:
        """The journal's topic, made with the first event.

        One partition, because order is the point of it; where nodes share it, one for each shard, which
        always has the same leader.
        """
        topic = self._topics.get(JOURNAL)
        if topic is None:
            retention = self._configs.text("kohort.journal.retention.ms")
            offsets = self._topics.get(CONSUMER_OFFSETS)
            partitions = 1 if offsets is None or self._session is None else offsets.partitions
            new = TopicToCreate(JOURNAL, partitions, configs={"retention.ms": retention})
            try:
                topic = await self._topics.create(new)
            except RefusedError as error:
                topic = self._topics.get(JOURNAL)
                if topic is None or error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
        return topic
