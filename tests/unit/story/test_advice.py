"""What to do about a rebalance."""

from typing import Any

import pytest
from tests.unit.story.journal import tp

from kohort.story.advice import advice
from kohort.story.rebalance import End, Move, Rebalance, Removal


def cause(kind: str, **numbers: Any) -> dict[str, Any]:  # noqa: ANN401 - any field of any cause
    return {"kind": kind, "sentence": "", **numbers}


ARRIVED = cause("MemberArrived")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (cause("SessionExpired", timeout_ms=10_000), "session.timeout.ms (10.0 s)"),
        (cause("JoinTimedOut", timeout_ms=300_000), "max.poll.interval.ms (5 min)"),
        (cause("SyncTimedOut"), "look at its log"),
        (cause("NewMemberExpired"), "network"),
        (cause("PendingIdExpired"), "network"),
        (cause("CapacityReached"), "group.max.size"),
        (cause("AppendRefused"), "disk"),
        (cause("MemberLeft", reason="consumer poll timeout has expired."), "poll more often"),
    ],
)
def test_what_can_be_mended_is_told(found: dict[str, Any], words: str) -> None:
    assert words in (advice(Rebalance(0, found)) or "")
    assert words in (advice(Rebalance(0, ARRIVED, prepared_by=found)) or "")
    assert words in (advice(Rebalance(0, ARRIVED, removals=[Removal("a", 0, found)])) or "")


@pytest.mark.parametrize(
    "found", [ARRIVED, cause("MemberLeft", reason=None), cause("MemberLeft", reason="closed")]
)
def test_members_that_come_and_go_need_no_advice(found: dict[str, Any]) -> None:
    assert advice(Rebalance(0, found, end=End.STABLE)) is None


def test_a_rebalance_that_waits_may_wait_for_the_dead() -> None:
    assert "until its session expires" in (advice(Rebalance(0, ARRIVED, awaited=("a",))) or "")


def test_half_a_cooperative_rebalance_is_called_so() -> None:
    told = Rebalance(0, ARRIVED, end=End.STABLE, is_cooperative=True, moves=[Move(tp(0), "a", None)])
    assert "first half" in (advice(told) or "")
    told.moves = [Move(tp(0), "a", "b")]
    assert advice(told) is None
