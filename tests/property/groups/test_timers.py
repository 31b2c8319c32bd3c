"""The timing wheel is a clever heap: no observer can tell them apart."""

from heapq import heappop, heappush

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.coordination.timers import TimerEntry, TimingWheel
from kohort.model.ids import Instant

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 200_000)),
        st.tuples(st.just("cancel"), st.integers(0, 20)),
        st.tuples(st.just("move"), st.integers(0, 200_000)),
        st.tuples(st.just("pass"), st.one_of(st.integers(0, 50), st.integers(0, 50_000))),
    ),
    max_size=60,
)


@pytest.mark.slow
@given(start=st.integers(0, 10**12), steps=STEPS)
def test_every_timer_fires_at_its_deadline_and_nothing_else_does(
    start: int, steps: list[tuple[str, int]]
) -> None:
    wheel, now = TimingWheel(Instant(start)), start
    deadlines: dict[TimerEntry, int] = {}
    for what, number in steps:
        if what == "add":
            entry = TimerEntry()
            wheel.add(entry, Instant(now + number))
            deadlines[entry] = now + number
        elif deadlines and what in ("cancel", "move"):
            entry = list(deadlines)[number % len(deadlines)]
            if what == "cancel":
                wheel.cancel(entry)
                del deadlines[entry]
            else:
                wheel.postpone(entry, Instant(now + number))
                deadlines[entry] = now + number
        elif what == "pass":
            end = now + number
            expected: list[int] = []
            for deadline in deadlines.values():
                if deadline <= end:
                    heappush(expected, deadline)
            while (wake := wheel.next_deadline()) is not None and wake <= end:
                now = max(now, wake)
                for entry in wheel.expired(Instant(now)):
                    deadline = deadlines.pop(entry)
                    assert max(deadline, now) == now
                    assert max(heappop(expected), now) == now  # nothing earlier was left behind
            now = end
            assert not expected
        assert wheel.count == len(deadlines)
        assert set(wheel.waiting()) == set(deadlines)
        first = wheel.next_deadline()
        assert (first is None) == (not deadlines)
        assert first is None or first <= max(min(deadlines.values()), now)
