"""Retention and compaction remove exactly what Kafka's rules name, for any mix of times, sizes and settings.

The model beside the log is Kafka's rules written down a second time, over plain lists: when a segment closes
(``LogSegment.shouldRoll``), which segments go (``UnifiedLog.deleteOldSegments``), what is cleaned and when
(``LogCleanerManager.cleanableOffsets``, ``Cleaner``). ``tests/interop/test_policy.py`` asks Kafka.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.log.bench import Bench

from kohort.log.log import FOREVER_MS, UNLIMITED, Cleanup, LogConfig
from kohort.model.ids import Offset, WallTime
from kohort.records.batch import NewRecord, Record, build_batch, read_records
from kohort.testing.faults import FakeDisk

START = 1_000_000
NONE = -1


@dataclass
class Batch:
    """A stored batch: what is left of its records."""

    base: int
    last: int
    size: int
    newest: int  # the largest timestamp its header has
    records: list[Record]
    horizon: int | None = None


@dataclass
class ModelSegment:
    """A segment."""

    base: int
    modified: int
    created: int | None
    batches: list[Batch] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(batch.size for batch in self.batches)

    @property
    def first_timestamp(self) -> int:
        return self.batches[0].newest if self.batches else NONE

    @property
    def largest_timestamp(self) -> int:
        newest = max((batch.newest for batch in self.batches), default=NONE)
        return newest if newest >= 0 else self.modified


Condition = Callable[[ModelSegment, ModelSegment | None], bool]


class Model:
    """A log by Kafka's rules."""

    def __init__(self, config: LogConfig) -> None:
        self.config = config
        self.parts: list[ModelSegment] = []
        self.start = self.end = self.cleaned = 0

    def append(self, batch: Batch, now: int) -> None:
        if not self.parts or self._must_roll(self.parts[-1], batch, now):
            self.parts.append(ModelSegment(self.end, now, now))
        part = self.parts[-1]
        part.batches.append(batch)
        part.modified = now
        self.end = batch.last + 1

    def _must_roll(self, part: ModelSegment, batch: Batch, now: int) -> bool:
        if not part.batches:
            return False
        if part.size > self.config.segment_bytes - batch.size:
            return True
        longest = self.config.segment_ms
        if Cleanup.COMPACT in self.config.cleanup:
            longest = min(longest, self.config.max_compaction_lag_ms)
        if part.created is None:
            part.created = now
        first = part.first_timestamp
        waited = batch.newest - first if first >= 0 else now - part.created
        return waited > longest

    def retain(self, now: int) -> None:
        self._drop(lambda part, following: following is not None and following.base <= self.start)
        if Cleanup.DELETE not in self.config.cleanup:
            return
        if self.config.retention_bytes >= 0:
            surplus = sum(part.size for part in self.parts) - self.config.retention_bytes

            def is_surplus(part: ModelSegment, _: ModelSegment | None) -> bool:
                nonlocal surplus
                surplus -= part.size
                return surplus >= 0

            self._drop(is_surplus, now)
        if self.config.retention_ms >= 0:
            self._drop(lambda part, _: now - part.largest_timestamp > self.config.retention_ms, now)

    def _drop(self, condition: Condition, now: int | None = None) -> None:
        gone = 0
        for part, following in zip_longest(self.parts, self.parts[1:]):
            if (following is None and not part.size) or not condition(part, following):
                break
            gone += 1
        if gone and gone == len(self.parts):
            self.parts.append(ModelSegment(self.end, 0, now))
        del self.parts[:gone]
        if gone:
            self.start = max(self.start, self.parts[0].base)

    def delete_before(self, offset: int) -> None:
        self.start = max(self.start, offset)
        self._drop(lambda part, following: following is not None and following.base <= self.start)

    # -- compaction ------------------------------------------------------------------------------------

    @property
    def first_dirty(self) -> int:
        return max(self.cleaned, self.start)

    def uncleanable(self, now: int) -> int:
        """The first offset that this round must not touch."""
        lag = self.config.min_compaction_lag_ms
        young = [part.base for part in self._dirty() if lag > 0 and part.largest_timestamp > now - lag]
        return min([*young, self.parts[-1].base])

    def _dirty(self) -> list[ModelSegment]:
        return [part for part, following in pairwise(self.parts) if following.base > self.first_dirty]

    def is_due(self, now: int) -> bool:
        if Cleanup.COMPACT not in self.config.cleanup or not self.parts:
            return False
        dirty = self._dirty()
        end = self.uncleanable(now)
        cleanable = sum(part.size for part in dirty if part.base < end)
        if not cleanable:
            return False
        firsts = [part.first_timestamp for part in dirty if part.first_timestamp > 0]
        if firsts and min(firsts) < now - self.config.max_compaction_lag_ms:
            return True
        clean = sum(part.size for part in self.parts if part.base < self.first_dirty)
        return cleanable / (clean + cleanable) > self.config.min_cleanable_dirty_ratio

    def compact(self, now: int) -> None:
        end = self.uncleanable(now)
        newest = {
            record.key: record.offset
            for part in self._dirty()
            if part.base < end
            for batch in part.batches
            for record in batch.records
        }
        cleaned: list[ModelSegment] = []
        for group in self._groups([part for part in self.parts if part.base < end]):
            made = ModelSegment(group[0].base, group[-1].modified, None)
            for batch in (batch for part in group for batch in part.batches):
                made.batches += self._cleaned(batch, newest, end, now)
            cleaned.append(made)
        self.parts = [*cleaned, *(part for part in self.parts if part.base >= end)]
        self.cleaned = end

    def _groups(self, parts: list[ModelSegment]) -> list[list[ModelSegment]]:
        groups: list[list[ModelSegment]] = []
        for part in parts:
            if groups and sum(each.size for each in groups[-1]) + part.size <= self.config.segment_bytes:
                groups[-1].append(part)
            else:
                groups.append([part])
        return groups

    def _cleaned(self, batch: Batch, newest: dict[bytes | None, int], end: int, now: int) -> list[Batch]:
        expired = batch.horizon is not None and now >= batch.horizon
        kept = [
            record
            for record in batch.records
            if newest.get(record.key, NONE) <= record.offset and not (record.value is None and expired)
        ]
        if not kept:
            is_last = batch.last + 1 == end
            return [replace(batch, records=[], horizon=None)] if is_last else []
        if batch.horizon is None and any(record.value is None for record in kept):
            batch.horizon = now + self.config.delete_retention_ms
        return [replace(batch, records=kept, newest=max(record.timestamp for record in kept))]


configs = st.builds(
    LogConfig,
    segment_bytes=st.sampled_from([250, 400, 700]),
    segment_ms=st.sampled_from([1, 1_000, 10**9]),
    retention_ms=st.sampled_from([UNLIMITED, 0, 500, 5_000]),
    retention_bytes=st.sampled_from([UNLIMITED, 0, 300, 1_000]),
    cleanup=st.sampled_from([Cleanup.DELETE, Cleanup.COMPACT, Cleanup.DELETE | Cleanup.COMPACT]),
    delete_retention_ms=st.sampled_from([0, 1_000]),
    min_cleanable_dirty_ratio=st.sampled_from([0.0, 0.5, 0.9]),
    min_compaction_lag_ms=st.sampled_from([0, 700]),
    max_compaction_lag_ms=st.sampled_from([1_000, FOREVER_MS]),
    index_interval_bytes=st.just(120),
)
times = st.one_of(
    st.just(("at", NONE)),
    st.just(("at", 0)),
    st.tuples(st.just("now"), st.sampled_from([-10_000, -600, 0, 900])),
)
contents = st.lists(
    st.tuples(times, st.sampled_from([b"a", b"b", b"c"]), st.sampled_from([None, b"v", b"long" * 10])),
    min_size=1,
    max_size=3,
)


class Policies(RuleBasedStateMachine):
    """A log, its model, and a clock that both are handed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.disk = FakeDisk()
        self.disk.clock = lambda: self.now

    @initialize(config=configs, timeless=st.booleans())
    def begin(self, config: LogConfig, timeless: bool) -> None:
        self.timeless = timeless  # no record has a timestamp
        self.bench = Bench(self.disk, config=config)
        self.model = Model(config)

    @rule(content=contents)
    def append(self, content: list[tuple[tuple[str, int], bytes, bytes | None]]) -> None:
        records = [
            NewRecord(NONE if self.timeless else time if kind == "at" else self.now + time, key, value)
            for (kind, time), key, value in content
        ]
        written = build_batch(records)
        (done,) = self.bench.append(written, now=self.now)
        assert done.base_offset == self.model.end
        stored = [
            record._replace(offset=done.base_offset + record.offset) for record in read_records(written)
        ]
        newest = max(record.timestamp for record in records)
        batch = Batch(done.base_offset, done.last_offset, len(written), newest, stored)
        self.model.append(batch, self.now)

    @rule(milliseconds=st.sampled_from([1, 500, 1_001, 6_000]))
    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds

    @rule()
    def retain(self) -> None:
        self.bench.log.apply_retention(WallTime(self.now))
        self.model.retain(self.now)

    @rule()
    def compact_if_due(self) -> None:
        due = self.model.is_due(self.now)
        assert self.bench.log.is_cleanable(WallTime(self.now)) is due
        if due:
            self.bench.compact(self.now)
            self.model.compact(self.now)
            self._learn_sizes()

    @rule(config=configs)
    def reconfigure(self, config: LogConfig) -> None:
        # Settings of a segment that is open already stay with it: only what policy reads changes.
        self.bench.log.reconfigure(config)
        self.bench.config = self.model.config = config

    @rule(fraction=st.floats(0, 1))
    def delete_before(self, fraction: float) -> None:
        offset = self.model.start + int((self.model.end - self.model.start) * fraction)
        self.bench.log.drop_before(Offset(offset))
        self.model.delete_before(offset)

    @rule()
    def restart(self) -> None:
        self.bench.restart()
        self._forget_creation()

    @rule()
    def die(self) -> None:
        self.bench.run(self.bench.storage.checkpoint())
        self.bench.die()
        self.bench.open()
        self._forget_creation()

    @invariant()
    def the_same_segments_are_there(self) -> None:
        segments = self.bench.log._segments
        assert [segment.base_offset for segment in segments] == [part.base for part in self.model.parts]
        assert [segment.size for segment in segments] == [part.size for part in self.model.parts]

    @invariant()
    def the_same_records_are_there(self) -> None:
        log, model = self.bench.log, self.model
        assert (log.start_offset, log.end_offset) == (model.start, model.end)
        kept = [record for part in model.parts for batch in part.batches for record in batch.records]
        assert self.bench.records() == [record for record in kept if record.offset >= model.start]

    def _learn_sizes(self) -> None:
        """How many bytes a batch with fewer records takes is no policy: the log says it."""
        for segment, part in zip(self.bench.log._segments, self.model.parts, strict=True):
            headers = [header for _, header in segment.headers()]
            assert [header.base_offset for header in headers] == [batch.base for batch in part.batches]
            for header, batch in zip(headers, part.batches, strict=True):
                assert header.delete_horizon == batch.horizon
                batch.size = header.size

    def _forget_creation(self) -> None:
        for part in self.model.parts:
            part.created = None


TestPolicies = Policies.TestCase
TestPolicies.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
