"""Real and virtual time."""

import asyncio

from kohort.broker.clock import RealClock, VirtualClock
from kohort.model.ids import Instant


def test_virtual_time_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock(wall=1_000)
    assert clock.now() == (0, 1_000)
    clock.advance(250)
    assert clock.now() == (250, 1_250)


def test_alarms_run_in_the_order_they_are_due_each_at_its_own_instant() -> None:
    clock = VirtualClock()
    rung: list[tuple[str, int]] = []
    clock.call_at(Instant(30), lambda: rung.append(("late", clock.now().instant)))
    clock.call_at(Instant(10), lambda: rung.append(("early", clock.now().instant)))
    clock.advance(29)
    assert rung == [("early", 10)]
    clock.advance(1)
    assert rung == [("early", 10), ("late", 30)]


def test_a_cancelled_alarm_never_runs() -> None:
    clock = VirtualClock()
    rung: list[int] = []
    clock.call_at(Instant(5), lambda: rung.append(5)).cancel()
    clock.advance(100)
    assert rung == []


def test_an_alarm_set_by_an_alarm_runs_in_the_same_advance_if_it_is_due() -> None:
    clock = VirtualClock()
    rung: list[int] = []

    def ring() -> None:
        clock.call_at(Instant(7), lambda: rung.append(clock.now().instant))

    clock.call_at(Instant(5), ring)
    clock.advance(10)
    assert rung == [7]


def test_an_alarm_for_the_past_runs_at_the_next_advance() -> None:
    clock = VirtualClock()
    clock.advance(100)
    rung: list[int] = []
    clock.call_at(Instant(5), lambda: rung.append(clock.now().instant))
    clock.advance(0)
    assert rung == [100]


def test_a_real_alarm_is_never_early() -> None:
    async def ring() -> bool:
        clock = RealClock()
        due = Instant(clock.now().instant + 3)
        rung = asyncio.Event()
        clock.call_at(due, rung.set)
        await rung.wait()
        return clock.now().instant >= due

    assert asyncio.run(ring())
