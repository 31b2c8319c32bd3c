"""Delayed operations complete once; the purgatory finds them by key."""

import pytest

from kohort.coordination.purgatory import DelayedOperation, Purgatory
from kohort.coordination.timers import TimingWheel
from kohort.model.ids import Instant


class Meal(DelayedOperation[list[str]]):
    """Queueing for a table: the context is what is heard in the restaurant."""

    __slots__ = ("is_ready", "name")

    def __init__(self, name: str = "meal", is_ready: bool = False) -> None:
        super().__init__()
        self.name = name
        self.is_ready = is_ready

    def try_complete(self, context: list[str]) -> bool:
        return self.is_ready and self.force_complete(context)

    def on_complete(self, context: list[str]) -> None:
        context.append(f"{self.name} eaten")

    def on_expiration(self, context: list[str]) -> None:
        context.append(f"{self.name} complaint")


class Restaurant:
    """A purgatory with its clock and what was heard."""

    def __init__(self) -> None:
        self.wheel = TimingWheel(Instant(0))
        self.purgatory: Purgatory[list[str]] = Purgatory(self.wheel)
        self.heard: list[str] = []

    def queue(self, meal: Meal, *keys: str, until: int = 30) -> bool:
        return self.purgatory.try_complete_else_watch(meal, keys, Instant(until), self.heard)

    def wait_until(self, now: int) -> None:
        for operation in self.wheel.expired(Instant(now)):
            assert isinstance(operation, Meal)
            operation.expire(self.heard)


def test_several_operations_wait_under_one_key_in_the_order_they_came() -> None:
    place = Restaurant()
    meals = [Meal(name) for name in ("soup", "fish", "cake")]
    for meal in meals:
        place.queue(meal, "table")
    assert place.purgatory.watched("table") == tuple(meals)
    assert place.purgatory.find("table") is meals[0]
    meals[1].is_ready = True
    assert place.purgatory.check_and_complete("table", place.heard) == 1
    assert place.purgatory.watched("table") == (meals[0], meals[2])
    meals[0].cancel()
    meals[2].cancel()
    assert place.purgatory.watched("table") == ()
    assert place.purgatory.find("table") is None


def test_one_completing_another_is_not_counted_for_it() -> None:
    class Round(Meal):
        __slots__ = ("other",)

        def __init__(self, other: Meal) -> None:
            super().__init__("round", is_ready=False)
            self.other = other

        def on_complete(self, context: list[str]) -> None:
            self.other.force_complete(context)

    place = Restaurant()
    other = Meal("other")
    round_ = Round(other)
    place.queue(round_, "table")
    place.queue(other, "table")
    round_.is_ready = other.is_ready = True
    assert place.purgatory.check_and_complete("table", place.heard) == 1
    assert place.heard == ["other eaten"]


def test_a_replaced_operation_never_runs_even_if_it_is_due() -> None:
    place = Restaurant()
    place.queue(Meal("old"), "table", until=10)
    assert not place.purgatory.replace(Meal("new"), "table", Instant(20), place.heard)
    place.wait_until(50)
    assert place.heard == ["new eaten", "new complaint"]


def test_what_is_due_at_the_same_moment_can_still_be_cancelled() -> None:
    place = Restaurant()
    place.queue(Meal("first"), "one", until=10)
    place.queue(Meal("second"), "two", until=10)
    for operation in place.wheel.expired(Instant(10)):
        assert isinstance(operation, Meal)
        operation.expire(place.heard)
        assert place.purgatory.cancel("two") == 1
        assert place.purgatory.cancel("two") == 0
    assert place.heard == ["first eaten", "first complaint"]


def test_a_postponed_operation_expires_later() -> None:
    place = Restaurant()
    meal = Meal()
    place.queue(meal, "table", until=10)
    place.purgatory.postpone(meal, Instant(40))
    place.wait_until(39)
    assert place.heard == []
    place.wait_until(40)
    assert place.heard == ["meal eaten", "meal complaint"]


def test_an_operation_needs_a_key() -> None:
    with pytest.raises(AssertionError, match="could only time out"):
        Restaurant().queue(Meal())


def test_an_operation_that_was_completed_before_is_not_watched() -> None:
    place = Restaurant()
    meal = Meal()
    meal.force_complete(place.heard)
    assert not place.queue(meal, "table")
    assert len(place.purgatory) == 0


def test_an_operation_by_itself_waits_for_nothing_and_does_nothing() -> None:
    operation: DelayedOperation[list[str]] = DelayedOperation()
    heard: list[str] = []
    assert not operation.try_complete(heard)
    operation.expire(heard)
    assert operation.completed
    assert heard == []


def test_iterating_gives_an_operation_once_for_each_key() -> None:
    place = Restaurant()
    soup, fish = Meal("soup"), Meal("fish")
    place.queue(soup, "one", "two")
    place.queue(fish, "two")
    assert list(place.purgatory) == [soup, soup, fish]


def test_its_text_names_what_it_keeps() -> None:
    assert repr(Meal("soup")) == "Meal(is_ready=False, name='soup')"
