"""The phases of a classic group and every way from one to another, as data.

``apply`` asserts against this table, tests walk it, documentation is drawn from it (``as_mermaid``).
"""

from enum import Enum
from typing import NamedTuple


class Phase(Enum):
    """Where a group stands. The value is Kafka's name for it on the wire.

    EMPTY: no members (perhaps offsets). Join starts a rebalance after the initial delay; commits from
    outside the membership are taken; the group can be deleted, or expires.
    PREPARING_REBALANCE: members have to join again. Joins are parked until all have joined or the
    rebalance timeout passes; heartbeats and syncs get
    REBALANCE_IN_PROGRESS, commits of the old generation are taken.
    COMPLETING_REBALANCE: a generation has begun and waits for the leader's assignment. Syncs are
    parked, heartbeats are answered, commits get REBALANCE_IN_PROGRESS.
    STABLE: everyone can have its assignment. Heartbeats and commits are answered.
    DEAD: not served here any more; everything gets COORDINATOR_NOT_AVAILABLE.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Transition(NamedTuple):
    """One way from a phase to another, and what sends a group along it."""

    source: Phase
    target: Phase
    triggers: tuple[str, ...]


_MEMBERSHIP_CHANGES = (
    "a member is added",
    "a known member changes its protocols",
    "a static member is replaced and that changes the vote",
    "a member leaves or expires",
    "a sync is missing for the rebalance timeout",
)
_UNLOADED = ("the partition is unloaded",)

TRANSITIONS: tuple[Transition, ...] = (
    Transition(Phase.EMPTY, Phase.PREPARING_REBALANCE, ("a member is added",)),
    Transition(
        Phase.PREPARING_REBALANCE,
        Phase.COMPLETING_REBALANCE,
        ("the join phase ends with at least one member",),
    ),
    Transition(Phase.PREPARING_REBALANCE, Phase.EMPTY, ("the join phase ends with no members",)),
    Transition(Phase.COMPLETING_REBALANCE, Phase.STABLE, ("the leader brings the assignment",)),
    Transition(
        Phase.COMPLETING_REBALANCE,
        Phase.PREPARING_REBALANCE,
        (*_MEMBERSHIP_CHANGES, "a static member is replaced", "the assignment is too large for the log"),
    ),
    Transition(
        Phase.STABLE,
        Phase.PREPARING_REBALANCE,
        (
            *_MEMBERSHIP_CHANGES,
            "the leader joins again",
            "it was loaded with more than group.max.size members",
        ),
    ),
    Transition(Phase.EMPTY, Phase.DEAD, _UNLOADED),
    Transition(Phase.PREPARING_REBALANCE, Phase.DEAD, _UNLOADED),
    Transition(Phase.COMPLETING_REBALANCE, Phase.DEAD, _UNLOADED),
    Transition(Phase.STABLE, Phase.DEAD, _UNLOADED),
    Transition(Phase.DEAD, Phase.DEAD, _UNLOADED),
)

_LEGAL = frozenset((each.source, each.target) for each in TRANSITIONS)

CAN_REBALANCE = (Phase.EMPTY, Phase.COMPLETING_REBALANCE, Phase.STABLE)


def is_legal(source: Phase, target: Phase) -> bool:
    """Whether a group may go from ``source`` to ``target``."""
    return (source, target) in _LEGAL


def as_mermaid() -> str:
    """The table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", "    [*] --> Empty"]
    for each in TRANSITIONS:
        if each.source is not each.target:
            what = "; ".join(each.triggers)
            lines.append(f"    {each.source.value} --> {each.target.value}: {what}")
    lines.append("    Dead --> [*]")
    return "\n".join(lines) + "\n"
