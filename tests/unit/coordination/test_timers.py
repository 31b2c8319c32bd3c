"""The timing wheel: on time, once, in order, and never what was cancelled."""

from kohort.coordination.timers import TimerEntry, TimingWheel
from kohort.model.ids import Instant


class Alarm(TimerEntry):
    """An entry one can tell from others."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


def add(wheel: TimingWheel, deadline: int, name: str = "") -> Alarm:
    alarm = Alarm(name or str(deadline))
    wheel.add(alarm, Instant(deadline))
    return alarm


def fired(wheel: TimingWheel, now: int) -> list[str]:
    names = []
    for entry in wheel.expired(Instant(now)):
        assert isinstance(entry, Alarm)
        names.append(entry.name)
    return names


def run_until(wheel: TimingWheel, end: int) -> dict[str, int]:
    """Wake up whenever the wheel asks for it; when each alarm fired."""
    times: dict[str, int] = {}
    while (deadline := wheel.next_deadline()) is not None and deadline <= end:
        for name in fired(wheel, deadline):
            assert name not in times
            times[name] = deadline
    return times


def test_cancelling_twice_is_harmless() -> None:
    wheel = TimingWheel(Instant(0))
    alarm = add(wheel, 5)
    wheel.cancel(alarm)
    wheel.cancel(alarm)
    assert wheel.count == 0
    assert wheel.next_deadline() is None


def test_a_deadline_in_the_past_fires_at_the_next_look() -> None:
    wheel = TimingWheel(Instant(100))
    add(wheel, 40, "late")
    assert wheel.next_deadline() == 100
    assert fired(wheel, 100) == ["late"]


def test_what_becomes_due_while_others_fire_fires_too() -> None:
    wheel = TimingWheel(Instant(0))
    add(wheel, 10, "first")
    names = []
    for entry in wheel.expired(Instant(10)):
        assert isinstance(entry, Alarm)
        names.append(entry.name)
        if entry.name == "first":
            add(wheel, 10, "second")
    assert names == ["first", "second"]


def test_one_jump_fires_in_the_order_of_deadlines() -> None:
    wheel = TimingWheel(Instant(0))
    for deadline in (5_000, 3, 700, 21, 20):
        add(wheel, deadline)
    assert fired(wheel, 10_000) == ["3", "20", "21", "700", "5000"]


def test_a_deadline_moved_later_costs_nothing_and_fires_at_its_new_time() -> None:
    wheel = TimingWheel(Instant(0))
    alarm = add(wheel, 50, "moved")
    wheel.postpone(alarm, Instant(90))
    assert alarm.scheduled == 50  # it is only looked at when it comes up
    assert fired(wheel, 50) == []
    assert run_until(wheel, 200) == {"moved": 90}


def test_a_deadline_moved_earlier_fires_earlier() -> None:
    wheel = TimingWheel(Instant(0))
    alarm = add(wheel, 300_000, "moved")
    wheel.postpone(alarm, Instant(10))
    assert run_until(wheel, 400_000) == {"moved": 10}


def test_a_due_timer_moved_later_goes_back_to_sleep() -> None:
    wheel = TimingWheel(Instant(0))
    add(wheel, 10, "first")
    second = add(wheel, 10, "second")
    for entry in wheel.expired(Instant(10)):
        assert isinstance(entry, Alarm)
        if entry.name == "first":
            wheel.postpone(second, Instant(30))
    assert run_until(wheel, 100) == {"second": 30}


def test_a_due_timer_that_is_cancelled_can_be_added_again() -> None:
    wheel = TimingWheel(Instant(0))
    alarm = add(wheel, 0, "again")
    wheel.cancel(alarm)
    wheel.add(alarm, Instant(0))
    assert fired(wheel, 0) == ["again"]
    assert wheel.next_deadline() is None


def test_the_next_deadline_is_never_after_the_first_timer() -> None:
    wheel = TimingWheel(Instant(0))
    add(wheel, 12_345)
    deadline = wheel.next_deadline()
    assert deadline is not None
    assert deadline <= 12_345


def test_an_emptied_bucket_wakes_nobody() -> None:
    wheel = TimingWheel(Instant(0))
    alarm = add(wheel, 15)
    add(wheel, 5_000)
    wheel.cancel(alarm)
    deadline = wheel.next_deadline()
    assert deadline is not None
    assert deadline > 15


def test_waiting_lists_everything_that_has_not_fired() -> None:
    wheel = TimingWheel(Instant(10))
    due, cancelled, later = add(wheel, 5), add(wheel, 6), add(wheel, 900)
    wheel.cancel(cancelled)
    assert set(wheel.waiting()) == {due, later}
    assert wheel.count == 2


def test_a_bucket_is_used_again_in_the_next_turn_of_its_wheel() -> None:
    wheel = TimingWheel(Instant(0))
    early = add(wheel, 3, "early")
    wheel.cancel(early)  # its bucket stays in the queue
    assert fired(wheel, 2) == []
    add(wheel, 3, "now")
    assert run_until(wheel, 10) == {"now": 3}
    add(wheel, 23, "a turn later")
    assert run_until(wheel, 30) == {"a turn later": 23}
