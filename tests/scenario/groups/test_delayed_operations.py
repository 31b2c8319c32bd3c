"""Delayed operations, where they wait, and the timing wheel (classic-groups 6, 12)."""

from collections.abc import Iterator

import pytest

from kohort.coordination.purgatory import DelayedOperation, Purgatory
from kohort.coordination.timers import TimerEntry, TimingWheel
from kohort.model.ids import Instant

Diary = list[str]


class Table(DelayedOperation[Diary]):
    """Queueing for a table: eating ends the wait, the complaint follows when it took too long."""

    def __init__(self, free: list[bool]) -> None:
        super().__init__()
        self.free = free

    def try_complete(self, context: Diary) -> bool:
        """Sit down if a table is free."""
        return self.free[0] and self.force_complete(context)

    def on_complete(self, context: Diary) -> None:
        """Eat."""
        context.append("eats")

    def on_expiration(self, context: Diary) -> None:
        """Complain."""
        context.append("complains")


def fire(wheel: TimingWheel, now: int, diary: Diary) -> None:
    """Let the operations whose time has come expire."""
    for operation in wheel.expired(Instant(now)):
        assert isinstance(operation, DelayedOperation)
        operation.expire(diary)


def test_a_condition_that_is_met_completes_once_and_never_expires() -> None:
    """Scenario 128. Given tryComplete succeeds, then onComplete runs once and onExpiration never."""
    wheel, diary, free = TimingWheel(Instant(0)), Diary(), [False]
    purgatory = Purgatory[Diary](wheel)
    operation = Table(free)
    assert not purgatory.try_complete_else_watch(operation, ("door",), Instant(30), diary)
    free[0] = True
    assert purgatory.check_and_complete("door", diary) == 1
    assert purgatory.check_and_complete("door", diary) == 0
    fire(wheel, 1_000, diary)
    assert diary == ["eats"]


def test_a_condition_that_is_met_at_once_never_waits() -> None:
    """Scenario 128. The same when the condition is met before anything is watched."""
    wheel, diary = TimingWheel(Instant(0)), Diary()
    purgatory = Purgatory[Diary](wheel)
    assert purgatory.try_complete_else_watch(Table([True]), ("door",), Instant(30), diary)
    assert len(purgatory) == 0
    assert wheel.next_deadline() is None
    assert diary == ["eats"]


def test_a_timeout_completes_and_then_expires() -> None:
    """Scenario 128. Given timeout, both run once, onComplete first."""
    wheel, diary = TimingWheel(Instant(0)), Diary()
    purgatory = Purgatory[Diary](wheel)
    purgatory.try_complete_else_watch(Table([False]), ("door",), Instant(30), diary)
    fire(wheel, 29, diary)
    assert diary == []
    fire(wheel, 30, diary)
    assert diary == ["eats", "complains"]
    fire(wheel, 1_000, diary)
    assert purgatory.check_and_complete("door", diary) == 0
    assert diary == ["eats", "complains"]
    assert len(purgatory) == 0


def test_of_two_who_force_completion_one_wins() -> None:
    """Scenario 129. Given two threads force-complete the same operation, then exactly one gets true. (One
    loop owns all of it here: two callers, one after the other, and one from inside the other.)"""
    diary = Diary()
    operation = Table([False])
    assert [operation.force_complete(diary), operation.force_complete(diary)] == [True, False]
    assert diary == ["eats"]

    class Nested(Table):
        def on_complete(self, context: Diary) -> None:
            """Try to complete again while completing."""
            context.append(f"again: {self.force_complete(context)}")

    nested = Diary()
    assert Nested([False]).force_complete(nested)
    assert nested == ["again: False"]


def test_an_operation_under_two_keys_completes_once() -> None:
    """Scenario 130. Given an operation watched on two keys and completed via one, then checkAndComplete on
    the other returns 0."""
    wheel, diary, free = TimingWheel(Instant(0)), Diary(), [False]
    purgatory = Purgatory[Diary](wheel)
    purgatory.try_complete_else_watch(Table(free), ("door", "window"), Instant(30), diary)
    free[0] = True
    assert purgatory.check_and_complete("door", diary) == 1
    assert purgatory.check_and_complete("window", diary) == 0
    assert diary == ["eats"]
    assert len(purgatory) == 0  # nothing lingers under the other key


class Alarm(TimerEntry):
    """Something that wants to be woken."""


def ring(wheel: TimingWheel, until: int) -> Iterator[tuple[int, TimerEntry]]:
    """Turn the wheel millisecond by millisecond; when each entry came up."""
    for now in range(until + 1):
        for entry in wheel.expired(Instant(now)):
            yield now, entry


@pytest.mark.parametrize("start", [0, 7, 12_345])
def test_timers_of_every_level_ring_once_and_on_time(start: int) -> None:
    """Scenario 131. Given timers at 19, 20, 400 and 8000 ms on a 1 ms x 20 wheel, then each runs once, none
    early, and cancelled ones never."""
    wheel = TimingWheel(Instant(start))
    alarms = {Alarm(): start + delay for delay in (19, 20, 399, 400, 8_000)}
    cancelled = [Alarm() for _ in range(4)]
    for alarm, deadline in alarms.items():
        wheel.add(alarm, Instant(deadline))
    for alarm, delay in zip(cancelled, (19, 20, 400, 8_000), strict=True):
        wheel.add(alarm, Instant(start + delay))
    for alarm in cancelled:
        wheel.cancel(alarm)
    earliest = wheel.next_deadline()
    assert earliest is not None
    assert start <= earliest <= start + 19  # when to look next: perhaps early, never late
    rung = list(ring(wheel, start + 9_000))
    assert {alarm: now for now, alarm in rung} == alarms
    assert len(rung) == len(alarms)


@pytest.mark.parametrize("delay", [19, 20, 400, 8_000])
def test_a_wheel_that_turns_late_rings_everything_that_is_due(delay: int) -> None:
    """Scenario 131. However far the clock jumps: what is due comes up, what is not stays."""
    wheel = TimingWheel(Instant(0))
    due, later = Alarm(), Alarm()
    wheel.add(due, Instant(delay))
    wheel.add(later, Instant(delay + 1))
    assert list(wheel.expired(Instant(delay - 1))) == []
    assert list(wheel.expired(Instant(delay))) == [due]
    assert list(wheel.expired(Instant(100_000))) == [later]
    assert list(wheel.expired(Instant(200_000))) == []


def test_a_timer_that_is_due_can_still_be_cancelled() -> None:
    """Scenario 131. A cancelled timer must never run, even if it already expired and is queued
    (classic-groups 2.4)."""
    wheel = TimingWheel(Instant(0))
    first, second = Alarm(), Alarm()
    wheel.add(first, Instant(20))
    wheel.add(second, Instant(20))
    rung = []
    for alarm in wheel.expired(Instant(20)):
        rung.append(alarm)
        wheel.cancel(second if alarm is first else first)
    assert len(rung) == 1
