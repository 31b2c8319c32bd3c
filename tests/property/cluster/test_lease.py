"""Every history of an owner, a watcher and a database: promises are kept, and each rule is needed."""

import pytest
from tests.property.cluster.model import (
    BrokenPromiseError,
    NoWindow,
    Rules,
    Unwatched,
    WindowFromReply,
    explore,
)

WRITES = Rules(appends=2, losses=2, dies_at_any_time=True)


def test_an_old_owner_never_answers_after_the_new_one_has() -> None:
    assert explore(Rules(), ticks=3) > 30_000


@pytest.mark.soak
@pytest.mark.parametrize("rules", [Rules(), Rules(clock_steps=1), Rules(losses=2)], ids=str)
def test_an_old_owner_never_answers_after_the_new_one_has_in_longer_histories(rules: Rules) -> None:
    assert explore(rules, ticks=4) > 200_000


def test_writes_are_safe_whenever_the_owner_is_buried() -> None:
    assert explore(WRITES, ticks=0) > 200


@pytest.mark.parametrize(
    ("rules", "ticks", "promise"),
    [
        (Rules(lease=NoWindow), 3, "answers after"),
        (Rules(lease=WindowFromReply), 4, "answers after"),
        (Rules(lease=Unwatched, clock_steps=1), 3, "answers after"),
        (Rules(compares_renewals=False, clock_steps=1), 3, "answers after"),
        (Rules(appends=2, losses=2, dies_at_any_time=True, checks_leader=False), 0, "behind the new owner"),
        (Rules(appends=2, losses=2, dies_at_any_time=True, checks_chain=False), 0, "stored twice"),
    ],
    ids=[
        "no answer window",
        "window counted from the reply",
        "burial without watching",
        "burial without comparing renewals",
        "append without session and epoch",
        "append without the chain",
    ],
)
def test_no_rule_can_be_left_out(rules: Rules, ticks: int, promise: str) -> None:
    with pytest.raises(BrokenPromiseError, match=promise):
        explore(rules, ticks)
