"""A hierarchical timing wheel on a clock that is handed in (classic-groups 6.3).

The wheel of level k has 20 buckets of 20^k ms. An entry is put into the finest wheel that reaches
its time; when its bucket comes up it drops to a finer wheel, and from the finest it runs. Adding
costs one step for each level, cancelling one dictionary removal.

An entry's ``deadline`` may be moved *later* by simply writing it: when the entry comes up too early
it goes back to sleep. That is what makes a heartbeat cost one number.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush

from kohort.model.ids import Instant

TICK_MS = 1
BUCKETS = 20


class TimerEntry:
    """Something that wants to be woken. ``deadline`` is when; ``slot`` is the wheel's own note."""

    __slots__ = ("deadline", "scheduled", "slot")

    def __init__(self) -> None:
        self.deadline = Instant(0)
        self.scheduled = Instant(0)  # where it sits in the wheel: never later than the deadline
        self.slot: _Bucket | None = None


class _Bucket:
    """Entries whose time falls into one tick of one wheel, in the order they came."""

    __slots__ = ("entries", "expiration", "queued")

    def __init__(self) -> None:
        self.entries: dict[TimerEntry, None] = {}
        self.expiration = -1
        self.queued = False  # whether the queue of buckets holds it


class _Level:
    """One wheel: 20 buckets of ``tick`` ms each."""

    __slots__ = ("buckets", "clock", "span", "tick")  # buckets are made when first used

    def __init__(self, tick: int, clock: int) -> None:
        self.tick = tick
        self.span = tick * BUCKETS
        self.clock = clock - clock % tick
        self.buckets: dict[int, _Bucket] = {}

    def bucket(self, tick: int) -> _Bucket:
        """The bucket of the ``tick``-th tick; ticks a whole turn apart share one."""
        index = tick % BUCKETS
        found = self.buckets.get(index)
        if found is None:
            found = self.buckets[index] = _Bucket()
        return found


class TimingWheel:
    """All timers of a shard, or of any owner that has many and cancels most of them."""

    __slots__ = ("_due", "_due_mark", "_levels", "_queue", "_sequence", "count")

    def __init__(self, start: Instant) -> None:
        self._levels = [_Level(TICK_MS, start)]
        self._queue: list[tuple[int, int, _Bucket]] = []  # buckets by expiration: the delay queue
        self._due: deque[TimerEntry] = deque()  # expired, not yet handed out, perhaps cancelled since
        self._due_mark = _Bucket()  # the slot of an entry that is due
        self._sequence = 0  # keeps the queue's order total
        self.count = 0  # entries waiting or due

    def add(self, entry: TimerEntry, deadline: Instant) -> None:
        """Wake ``entry`` at ``deadline``; at the next ``expired`` if that is already past."""
        entry.deadline = deadline
        self.count += 1
        self._place(entry)

    def postpone(self, entry: TimerEntry, deadline: Instant) -> None:
        """Move the deadline of an entry that waits; to a later time this is one write."""
        entry.deadline = deadline
        if deadline < entry.scheduled:
            self._take_out(entry)
            self._place(entry)

    def cancel(self, entry: TimerEntry) -> None:
        """Forget an entry; harmless when it is not there."""
        if self._take_out(entry):
            self.count -= 1

    def next_deadline(self) -> Instant | None:
        """When ``expired`` should be called next: never later than the first deadline."""
        self._skip_cancelled()
        if self._due:
            return Instant(self._levels[0].clock)
        queue = self._queue
        while queue and not queue[0][2].entries:
            heappop(queue)[2].queued = False
        return Instant(queue[0][0]) if queue else None

    def expired(self, now: Instant) -> Iterator[TimerEntry]:
        """Advance to ``now`` and hand out what is due, one by one, in the order of deadlines.

        What the caller does between two of them counts: an entry cancelled then does not come, one
        added then with a deadline already past does.
        """
        while True:
            entry = self._next_due(now)
            if entry is None:
                return
            if entry.deadline > now:
                self._place(entry)  # it was moved: back to sleep
                continue
            self.count -= 1
            yield entry

    def waiting(self) -> Iterator[TimerEntry]:
        """Every entry, in no particular order; for copies and checks."""
        yield from (entry for entry in self._due if entry.slot is self._due_mark)
        for level in self._levels:
            for bucket in level.buckets.values():
                yield from bucket.entries

    def _skip_cancelled(self) -> None:
        while self._due and self._due[0].slot is not self._due_mark:
            self._due.popleft()

    def _next_due(self, now: Instant) -> TimerEntry | None:
        self._skip_cancelled()
        while not self._due:
            if not self._turn_to(now):
                return None
        entry = self._due.popleft()
        entry.slot = None
        return entry

    def _turn_to(self, now: Instant) -> bool:
        """Empty the earliest bucket that is up by ``now`` into finer wheels; False if there is none."""
        queue = self._queue
        if not queue or queue[0][0] > now:
            self._set_clock(now)
            return False
        expiration, _, bucket = heappop(queue)
        bucket.queued = False
        self._set_clock(expiration)
        entries, bucket.entries = bucket.entries, {}
        for entry in entries:
            self._place(entry)
        return True

    def _set_clock(self, now: int) -> None:
        for level in self._levels:
            if now < level.clock + level.tick:
                return
            level.clock = now - now % level.tick

    def _place(self, entry: TimerEntry) -> None:
        deadline = entry.scheduled = entry.deadline
        finest = self._levels[0]
        if deadline < finest.clock + finest.tick:
            entry.slot = self._due_mark
            self._due.append(entry)
            return
        level = self._level_reaching(deadline)
        tick = deadline // level.tick
        bucket = level.bucket(tick)
        entry.slot = bucket
        bucket.entries[entry] = None
        bucket.expiration = tick * level.tick
        if not bucket.queued:
            bucket.queued = True
            self._sequence += 1
            heappush(self._queue, (bucket.expiration, self._sequence, bucket))

    def _level_reaching(self, deadline: int) -> _Level:
        for level in self._levels:
            if deadline < level.clock + level.span:
                return level
        while True:
            coarsest = self._levels[-1]
            level = _Level(coarsest.span, coarsest.clock)
            self._levels.append(level)
            if deadline < level.clock + level.span:
                return level

    def _take_out(self, entry: TimerEntry) -> bool:
        bucket = entry.slot
        if bucket is None:
            return False
        entry.slot = None
        if bucket is not self._due_mark:
            del bucket.entries[entry]
        return True
