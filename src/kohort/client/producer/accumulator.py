"""Records gathered into batches, and what may be sent when. No I/O; time is handed in, in milliseconds.

Each partition has a lane. Batches leave it in order; while one that failed waits for those sent after it, the
lane stands still, and once all are home they leave again in the same order. So the order of records survives
any retry as long as batches are numbered, and whether a number was wrong by itself or only because a batch
before it failed needs no guessing: it was, if the first of those that came home says so.

A broker that was restarted remembers only the last batch of a producer: one before it, if stored but never
acknowledged, looks misnumbered, and under new numbers it would be stored twice. So it is set aside until all
behind it that may be stored have their answers. If one is stored under the old numbers, so are all before it;
if none is, neither are they, and all go on under new numbers. Only if one behind was given up without an
answer is it unknown: then the records fail, because sent again they might be there twice.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import NamedTuple

from kohort.client.producer.batch import Batch, Block, BlockBatch, Delivery, Receipt, Sequences
from kohort.model.ids import NodeId
from kohort.model.topics import TopicPartition
from kohort.records.record import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """What bounds a batch and a lane; ``pause`` is the backoff after a number of attempts."""

    batch_size: int
    linger_ms: int
    delivery_timeout_ms: int
    max_in_flight: int
    pause: Callable[[int], float]


class Added(Enum):
    """What a record did to its batch: started it, filled it, or only joined it."""

    STARTED = "a batch was started"
    FILLED = "a batch is full"
    JOINED = "the batch has room for more"


@dataclass(slots=True)
class _Lane:
    waiting: deque[Batch] = field(default_factory=deque)
    flying: list[Batch] = field(default_factory=list)
    returned: list[Batch] = field(default_factory=list)
    aside: list[Batch] = field(default_factory=list)  # perhaps stored; what is behind them will tell
    last_stored: tuple[int, ...] = ()  # its order
    last_lost: tuple[int, ...] = ()  # the order of one that was given up although it may be stored
    retry_at: float = 0.0
    # A broker that knows nothing of a producer takes any number from it: were the first batch lost and the
    # second not, they would change places. So the first goes alone.
    is_known: bool = False

    def batches(self) -> Iterator[Batch]:
        return chain(self.aside, self.flying, self.returned, self.waiting)

    def give_up(self, batch: Batch) -> None:
        if batch.may_be_stored:
            self.last_lost = max(self.last_lost, batch.order)

    def take_back(self) -> None:
        """Put those set aside in front again."""
        self.waiting.extendleft(reversed(self.aside))
        self.aside.clear()


class Concluded(NamedTuple):
    """Batches whose fate came out by what became of others: stored, or doubtful for good."""

    stored: list[Batch]
    doubtful: list[Batch]


class Accumulator:
    """All batches of one producer. ``sequences`` is None if they are not numbered."""

    def __init__(
        self, limits: BatchLimits, clock: Callable[[], int], sequences: Sequences | None = None
    ) -> None:
        self.clock = clock  # asked when a batch is started, not for each record
        self.sequences = sequences
        self.buffered = 0  # bytes, of everything not settled yet
        self.in_a_hurry = False  # no batch lingers: a call waits for all to be sent, or for room
        self._limits = limits
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._last_order = 0
        self._concluded = Concluded([], [])

    # Filling

    def add(self, partition: TopicPartition, record: Fields, size: int, delivery: Delivery) -> Added:
        """Put a record behind the others of its partition; ``delivery`` hears of it."""
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = _Lane()
        batch = lane.waiting[-1] if lane.waiting else None
        added, full = Added.JOINED, self._limits.batch_size
        if batch is None or batch.attempts or batch.is_closed or batch.size + size > full:
            added = Added.STARTED if batch is None else Added.FILLED
            batch = Batch(partition, *self._next_order())
            lane.waiting.append(batch)
            self.buffered += batch.size
        batch.records.append(record)
        batch.deliveries.append(delivery)
        batch.size += size
        self.buffered += size
        return Added.FILLED if batch.size >= full else added

    def put(self, block: Block, receipt: Receipt) -> None:
        """Put an encoded batch behind all records of its partition; ``receipt`` hears of it."""
        batch = BlockBatch(block, receipt, *self._next_order())
        self._lanes.setdefault(block.partition, _Lane()).waiting.append(batch)
        self.buffered += batch.size

    def _next_order(self) -> tuple[tuple[int, ...], int, int]:
        """Order, birth and deadline of a new batch."""
        self._last_order += 1
        now = self.clock()
        return (self._last_order,), now, now + self._limits.delivery_timeout_ms

    # Sending

    def ready(self, now: float) -> list[TopicPartition]:
        """The partitions that have something to send now."""
        return [partition for partition, lane in self._lanes.items() if self._is_ready(lane, now)]

    def take(self, partition: TopicPartition, node: NodeId, room: int) -> Batch | None:
        """The next batch of a partition that is ready, numbered, to be sent to ``node``.

        None if it is larger than ``room``, or if another node still has batches of this partition: their
        order would be unknown then.
        """
        lane = self._lanes[partition]
        batch = lane.waiting[0]
        if batch.size > room or any(other.node != node for other in lane.flying):
            return None
        if self.sequences is not None and batch.numbering is None:
            batch.renumber(self.sequences.assign(partition, batch.count))
        lane.waiting.popleft()
        lane.flying.append(batch)
        batch.node = node
        batch.attempts += 1
        return batch

    def next_due(self, now: float) -> float | None:
        """When time alone makes a difference: a batch has lingered or paused long enough, or expires."""
        moments = chain.from_iterable(map(self._moments, self._lanes.values()))
        return min((moment for moment in moments if moment > now), default=None)

    def _is_ready(self, lane: _Lane, now: float) -> bool:
        if not lane.waiting or lane.returned or lane.retry_at > now:
            return False
        alone = self.sequences is not None and not lane.is_known
        if len(lane.flying) >= (1 if alone else self._limits.max_in_flight):
            return False
        first = lane.waiting[0]
        return (
            len(lane.waiting) > 1
            or first.attempts > 0
            or first.is_closed
            or first.size >= self._limits.batch_size
            or self.in_a_hurry
            or now >= first.created + self._limits.linger_ms
        )

    def _moments(self, lane: _Lane) -> Iterator[float]:
        if lane.waiting:
            yield lane.retry_at
            yield lane.waiting[0].created + self._limits.linger_ms
            yield lane.waiting[0].deadline
        for batch in chain(lane.returned, lane.aside):
            yield batch.deadline

    # Settling

    def settle(self, batch: Batch, *, stored: bool) -> None:
        """Forget a batch in flight: it was stored, or refused for good."""
        lane = self._land(batch)
        lane.is_known |= stored
        if stored:
            lane.last_stored = max(lane.last_stored, batch.order)
            self._conclude(lane.aside, self._concluded.stored)
            lane.aside.clear()
        else:
            lane.give_up(batch)
        self.buffered -= batch.size
        self._regroup(batch.partition, lane)

    def come_back(self, batch: Batch, now: float) -> None:
        """Send a batch in flight again, after a pause and with those behind it."""
        lane = self._land(batch)
        lane.returned.append(batch)
        lane.retry_at = now + self._limits.pause(batch.attempts - 1)
        self._regroup(batch.partition, lane)

    def split(self, batch: Batch) -> None:
        """Send a batch in flight again in two halves."""
        lane = self._land(batch)
        halves = batch.halves()
        self.buffered += sum(half.size for half in halves) - batch.size
        lane.returned.extend(halves)
        self._regroup(batch.partition, lane)

    def expire(self, now: float) -> list[Batch]:
        """Take out what is past its deadline and not in flight; the caller tells those who wait."""
        late = []
        for partition, lane in self._lanes.items():
            while lane.aside and lane.aside[0].deadline <= now:
                late.append(lane.aside.pop(0))
            while lane.waiting and lane.waiting[0].deadline <= now:
                lane.give_up(lane.waiting[0])
                late.append(lane.waiting.popleft())
            if lane.returned and any(batch.deadline <= now for batch in lane.returned):
                for batch in lane.returned:
                    if batch.deadline <= now:
                        lane.give_up(batch)
                        late.append(batch)
                lane.returned = [batch for batch in lane.returned if batch.deadline > now]
            self._regroup(partition, lane)
        self.buffered -= sum(batch.size for batch in late)
        return late

    def clear(self, *, in_flight: bool = False) -> list[Batch]:
        """Take out everything, and also what is in flight if asked; the caller tells those who wait."""
        left: list[Batch] = []
        for lane in self._lanes.values():
            left += chain(lane.aside, lane.returned, lane.waiting, lane.flying if in_flight else ())
            lane.aside.clear()
            lane.returned.clear()
            lane.waiting.clear()
            if in_flight:
                lane.flying.clear()
        self.buffered -= sum(batch.size for batch in left)
        return left

    def _land(self, batch: Batch) -> _Lane:
        lane = self._lanes[batch.partition]
        lane.flying.remove(batch)
        batch.node = None
        return lane

    def _regroup(self, partition: TopicPartition, lane: _Lane) -> None:
        """Once all are home, line them up again; under new numbers if the first had a wrong one."""
        if lane.flying or not (lane.returned or lane.aside):
            return
        lane.returned.sort(key=lambda batch: batch.order)
        lane.waiting.extendleft(reversed(lane.returned))
        lane.returned.clear()
        self._set_aside(lane)
        wrong = bool(lane.waiting) and lane.waiting[0].is_misnumbered
        if wrong and self.sequences is not None:
            self.sequences.start_over(partition)
            lane.is_known = False
            for batch in lane.waiting:
                batch.renumber(None)
        for batch in lane.waiting:
            batch.is_misnumbered = False

    def _set_aside(self, lane: _Lane) -> None:
        """Take misnumbered ones that may be stored from the head, or put them back once that is ruled out."""
        while lane.waiting and lane.waiting[0].is_misnumbered and lane.waiting[0].may_be_stored:
            lane.aside.append(lane.waiting.popleft())
        self._conclude([b for b in lane.aside if b.order < lane.last_stored], self._concluded.stored)
        lane.aside = [b for b in lane.aside if b.order > lane.last_stored]
        # A first one that cannot be stored and is refused: then nothing behind it is stored.
        is_refused = bool(lane.waiting) and lane.waiting[0].is_misnumbered
        if is_refused or not any(batch.may_be_stored and not batch.is_misnumbered for batch in lane.waiting):
            self._conclude([b for b in lane.aside if b.order < lane.last_lost], self._concluded.doubtful)
            lane.aside = [b for b in lane.aside if b.order > lane.last_lost]
            lane.take_back()

    def _conclude(self, batches: list[Batch], found: list[Batch]) -> None:
        found += batches
        self.buffered -= sum(batch.size for batch in batches)

    def take_concluded(self) -> Concluded:
        """What was concluded since the last time; the caller tells those who wait."""
        concluded, self._concluded = self._concluded, Concluded([], [])
        return concluded

    def renounce(self, partition: TopicPartition) -> None:
        """Let what was not sent yet be numbered under another producer id."""
        if self.sequences is not None:
            lane = self._lanes[partition]
            lane.is_known = False
            lane.take_back()
            self.sequences.renounce(partition)
            for batch in chain(lane.returned, lane.waiting):
                batch.renumber(None)

    # Watching

    @property
    def last_order(self) -> int:
        """The place of the newest batch among all."""
        return self._last_order

    def is_settled(self, up_to: int) -> bool:
        """Whether nothing is left of the batches up to a place."""
        lanes = self._lanes.values()
        return all(batch.order[0] > up_to for lane in lanes for batch in lane.batches())
