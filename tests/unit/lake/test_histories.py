"""Causes that are inferred from what a coordinator stored, against what really happened."""

import pytest

from kohort.broker.journal_format import event_document
from kohort.lake.histories import History, inferred, make_history, score
from kohort.lake.rebalances import journaled_rebalances
from kohort.model.ids import WallTime


@pytest.fixture(scope="module")
def history() -> History:
    return make_history(seed=7, steps=60)


def test_a_history_is_the_same_for_the_same_seed() -> None:
    assert make_history(3, 5) == make_history(3, 5)


def test_inferred_causes_of_a_generated_history_are_right(history: History) -> None:
    right, all_of_them = score(inferred(history), history.truth)
    assert all_of_them == 61
    assert right == all_of_them


def test_causes_of_the_journal_are_the_real_ones(history: History) -> None:
    documents = [event_document(event, WallTime(0), lambda _: None) for event in history.events]
    found = [one for one in journaled_rebalances("billing", documents) if one["result"] == "stable"]
    assert [(one["gen_to"], one["trigger"]) for one in found] == [
        (one.generation, one.journaled) for one in history.truth
    ]
    assert [one["gen_to"] for one in inferred(history)] == [one.generation for one in history.truth]
