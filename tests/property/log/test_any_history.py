"""Whatever is done to a log, in whatever order, it says what a simple list would say."""

from dataclasses import replace
from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.log.bench import COMPACTED, Bench, numbered

from kohort.log.log import LogConfig, SyncPolicy
from kohort.model.ids import Offset
from kohort.records.batch import NewRecord, build_batch
from kohort.testing.faults import FakeDisk, Survival

CONFIG: LogConfig = replace(COMPACTED, segment_bytes=400, index_interval_bytes=120)
LONG_AFTER = 10**9

keys = st.sampled_from([b"a", b"b", b"c"])
values = st.binary(min_size=1, max_size=40)
batches = st.lists(st.tuples(keys, values), min_size=1, max_size=3)


class LogHistory(RuleBasedStateMachine):
    """A log beside the list of everything that was ever acknowledged, by offset."""

    policy: ClassVar[SyncPolicy] = SyncPolicy.COMMIT

    def __init__(self) -> None:
        super().__init__()
        self.disk = FakeDisk()
        self.bench = Bench(self.disk, config=CONFIG, policy=self.policy)
        self.history: dict[int, tuple[bytes | None, bytes | None]] = {}
        self.start = self.end = 0
        self.safe_start = self.safe_end = 0  # what a crash cannot take back
        self.cleaned = 0  # below, outdated records may be missing
        self.numbered: list[tuple[int, int]] = []  # sequence and offset of what a producer sent
        self.knows_last_numbered = False

    # -- what is done ----------------------------------------------------------------------------------

    @rule(records=batches)
    def append(self, records: list[tuple[bytes, bytes]]) -> None:
        content = build_batch([NewRecord(1_000, key, value) for key, value in records])
        (done,) = self.bench.append(content)
        assert done.base_offset == self.end
        for number, (key, value) in enumerate(records):
            self.history[self.end + number] = (key, value)
        self._moved_to(done.last_offset + 1)

    @rule()
    def append_numbered(self) -> None:
        sequence = self.numbered[-1][0] + 1 if self.numbered else 0
        (done,) = self.bench.append(numbered(sequence))
        assert (done.base_offset, done.duplicate) == (self.end, False)
        self.history[self.end] = (b"k", b"v")
        self.numbered.append((sequence, self.end))
        self.knows_last_numbered = True
        self._moved_to(self.end + 1)

    @precondition(lambda self: self.knows_last_numbered)
    @rule()
    def repeat_numbered(self) -> None:
        sequence, offset = self.numbered[-1]
        (done,) = self.bench.append(numbered(sequence))
        assert (done.base_offset, done.duplicate) == (offset, True)

    @rule(fraction=st.floats(0, 1))
    def delete_before(self, fraction: float) -> None:
        offset = self.start + int((self.end - self.start) * fraction)
        self.start = self.bench.log.drop_before(Offset(offset))
        assert self.start == offset

    @rule(fraction=st.floats(0, 1))
    def truncate(self, fraction: float) -> None:
        # Like a replica, which never goes back behind what was committed, and so never behind a cleaning.
        lowest = max(self.start, self.cleaned)
        offset = lowest + int((self.end - lowest) * fraction)
        self.bench.log.truncate(Offset(offset))
        self._cut_to(self.bench.log.end_offset)
        assert self.start <= self.end <= max(offset, self.start)
        self.flush()
        self.checkpoint()  # or a crash takes what was cut off for lost, and goes on behind it

    @rule()
    def compact(self) -> None:
        self.bench.compact(LONG_AFTER)
        self.cleaned = max(self.cleaned, self.bench.log.cleaned_up_to)

    @rule()
    def flush(self) -> None:
        self.bench.run(self.bench.storage.flush())
        self.safe_end = self.end

    @rule()
    def checkpoint(self) -> None:
        self.bench.run(self.bench.storage.checkpoint())
        self.safe_start = self.start

    @rule()
    def restart(self) -> None:
        self.bench.restart()
        assert self.bench.directory.was_closed_cleanly
        assert self.bench.storage.reports() == []
        self.safe_start, self.safe_end = self.start, self.end

    @rule()
    def die(self) -> None:
        """The process goes, what it wrote stays; only the start may be forgotten."""
        self.bench.die()
        self.bench.open()
        assert self.bench.log.end_offset == self.end
        self._start_may_have_moved_back()

    @rule(survival=st.sampled_from(Survival), kept=st.integers(0, 200))
    def crash(self, survival: Survival, kept: int) -> None:
        """The power goes, and with it everything that was not synced."""
        self.disk.crash(survival, kept)
        self.bench.open()
        end = self.bench.log.end_offset
        assert self.safe_end <= end <= self.end
        self._cut_to(end)
        self._start_may_have_moved_back()

    # -- what must hold --------------------------------------------------------------------------------

    @invariant()
    def offsets_agree(self) -> None:
        log = self.bench.log
        assert (log.start_offset, log.end_offset, log.high_watermark) == (self.start, self.end, self.end)

    @invariant()
    def records_agree(self) -> None:
        found = {record.offset: (record.key, record.value) for record in self.bench.records()}
        assert list(found) == sorted(found)
        for offset, record in found.items():
            assert self.history[offset] == record
        for offset in range(self.start, self.end):
            if offset not in found:
                assert offset < self.cleaned
                assert self._is_outdated(offset)

    @invariant()
    def the_middle_can_be_read(self) -> None:
        middle = (self.start + self.end) // 2
        assert [record.offset for record in self.bench.records(middle)] == [
            record.offset for record in self.bench.records() if record.offset >= middle
        ]

    # -- the list --------------------------------------------------------------------------------------

    def _moved_to(self, end: int) -> None:
        self.end = end
        if self.policy is SyncPolicy.COMMIT:
            self.safe_end = end

    def _cut_to(self, end: int) -> None:
        self.end = end
        self.start, self.safe_start = min(self.start, end), min(self.safe_start, end)
        self.safe_end = min(self.safe_end, end)
        self.cleaned = min(self.cleaned, end)
        while self.numbered and self.numbered[-1][1] >= end:
            self.numbered.pop()
            # What is the last one now may have lost its batch to a cleaning when it was not the last.
            self.knows_last_numbered = bool(self.numbered) and self.numbered[-1][1] >= self.cleaned
        self._forget_numbered_below_start()

    def _start_may_have_moved_back(self) -> None:
        start = self.bench.log.start_offset
        assert self.safe_start <= start <= max(self.start, self.safe_start)
        self.start = start
        self._forget_numbered_below_start()

    def _forget_numbered_below_start(self) -> None:
        if self.numbered and self.numbered[-1][1] < self.start:
            self.knows_last_numbered = False  # its batch may have gone with its segment

    def _is_outdated(self, offset: int) -> bool:
        key, _ = self.history[offset]
        return any(self.history[later][0] == key for later in range(offset + 1, self.end))


class UnsyncedHistory(LogHistory):
    """The same where nothing is synced unless asked for."""

    policy = SyncPolicy.NEVER


TestCommitted = LogHistory.TestCase
TestCommitted.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestUnsynced = UnsyncedHistory.TestCase
TestUnsynced.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
