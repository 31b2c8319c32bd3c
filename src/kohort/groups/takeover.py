"""A node coordinates groups that another one coordinated before: why, and what it cost them."""

from typing import NamedTuple

from kohort.cluster.view import LeaderChange
from kohort.model.ids import Instant, NodeId

_WHY = {
    "death": "its lease ended",
    "forgotten": "it was declared dead by hand",
    "handover": "it handed over, to stop or because it was drained",
    "move": "it was moved by hand",
    "balance": "nodes share their work evenly",
}
_WHY_AGAIN = {"death": "is back after its lease had ended", "handover": "was started again"}


class Takeover(NamedTuple):
    """A node has become the coordinator of a shard, in the place of another one."""

    node: NodeId
    change: LeaderChange
    begun: Instant  # when the node began to load


def takeover_sentence(node: int | None, from_node: int | None, reason: str, silent_ms: int) -> str:
    """Who took over from whom and why, and for how long there was no coordinator, at most."""
    who = (
        f"node {node} {_WHY_AGAIN.get(reason, 'leads again')}"
        if node == from_node
        else f"node {node} took over from node {from_node}: {_WHY.get(reason, reason)}"
    )
    cost = f"{silent_ms} ms" if silent_ms < 1_000 else f"{silent_ms / 1_000:.1f} s"
    return f"{who}; no coordinator for {cost}"
