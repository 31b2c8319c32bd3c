"""States that will behave alike have equal fingerprints."""

from collections.abc import Callable, Hashable

import pytest

from kohort.groups.commands import Unload
from kohort.model.ids import Instant
from kohort.sim.driver import Scenario


def mark(scenario: Scenario) -> Hashable:
    return scenario.shard.fingerprint(Instant(scenario.now))


def test_it_can_be_hashed_and_forgets_which_request_was_which() -> None:
    def story(extra: int) -> Scenario:
        scenario = Scenario()
        for _ in range(extra):
            scenario.fetch()
        scenario.join("a")
        scenario.commit(None, {("t", 0): 1}, group="h")
        return scenario

    assert hash(mark(story(0))) == hash(mark(story(3)))


def test_a_deadline_counts_from_now() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.shard.state.housekeeping.cancel("sweep")
    before = mark(scenario)
    scenario.sleep(5_000)
    assert mark(scenario) != before
    scenario.heartbeat("a")
    assert mark(scenario) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.join("b"),
        lambda s: s.leave("a"),
        lambda s: s.commit("a", {("t", 0): 9}),
        lambda s: s.order(Unload()),
        lambda s: s.join("a", changed=True),
    ],
)
def test_whatever_changes_the_future_changes_it(change: Callable[[Scenario], object]) -> None:
    scenario = Scenario.stable(a=10_000)
    before = mark(scenario)
    change(scenario)
    assert mark(scenario) != before


def test_what_is_on_its_way_to_the_log_counts() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.hold_appends()
    before = mark(scenario)
    scenario.commit("a", {("t", 0): 9})
    assert mark(scenario) != before
