"""Who should lead which partition: a function of a view, computed by every node for itself (cluster 2.2).

A node carries out its own lines only: it takes what no living session leads, and gives away what it leads.
The database settles the rest by compare-and-set, so an old view costs a round and never safety.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

from kohort.cluster.lease import SessionId
from kohort.cluster.view import ClusterSnapshot, Kind, Node, PartitionId, Placed

MOVES_AT_A_TIME = 5
NEXT_RANK_AFTER_MS = 500  # the node that ranks second takes an orphan after this, the third after twice this


@dataclass(frozen=True, slots=True)
class Moves:
    """What one node is to do now."""

    take: list[PartitionId] = field(default_factory=list)
    give: dict[PartitionId, SessionId] = field(default_factory=dict)


def plan(
    view: ClusterSnapshot, me: SessionId, *, orphaned_ms: Callable[[PartitionId], int], is_settled: bool
) -> Moves:
    """The moves of the node ``me``.

    ``orphaned_ms``: for how long this node has seen a partition without a living leader. ``is_settled``: no
    node has come or gone lately, so that it is worth while to spread partitions evenly.
    """
    my_node = view.nodes.get(me)
    if my_node is None:
        return Moves()
    staying = [node for node in view.nodes.values() if not node.is_leaving]
    moves = Moves()
    for kind in Kind:
        units = [each for each in view.partitions.values() if each.kind is kind and each.moves_with is None]
        if not units:
            continue
        load = _Load(view, units, staying)
        if my_node.is_leaving:
            _give_everything(load, my_node, moves)
        else:
            _take_orphans(load, my_node, orphaned_ms, moves)
            if is_settled:
                _give_surplus(load, my_node, moves)
    _add_companions(view, me, moves)
    return moves


class _Load:
    """How many partitions of one kind each node leads that stays; counts moves as if they were done."""

    def __init__(self, view: ClusterSnapshot, units: list[Placed], staying: list[Node]) -> None:
        self.view = view
        self.units = sorted(units)
        self.staying = staying
        self.of: Counter[SessionId | None] = Counter({node.session: 0 for node in staying})
        self.of.update(each.leader for each in units if each.leader in self.of)
        self.cap = -(-len(units) // len(staying)) if staying else 0

    def led_by(self, node: Node) -> list[Placed]:
        return [each for each in self.units if each.leader == node.session]

    def ranking(self, partition: PartitionId) -> list[Node]:
        """The nodes in the order in which they should lead a partition; no other partition matters here."""
        return sorted(self.staying, key=lambda node: _rendezvous(partition, node), reverse=True)


def _take_orphans(load: _Load, me: Node, orphaned_ms: Callable[[PartitionId], int], moves: Moves) -> None:
    orphans = (each for each in load.units if load.view.leader_of(each) is None)
    for each in sorted(orphans, key=lambda each: _rendezvous(each.partition_id, me), reverse=True):
        rank = load.ranking(each.partition_id).index(me)
        waited = orphaned_ms(each.partition_id)
        is_abandoned = waited >= len(load.staying) * NEXT_RANK_AFTER_MS  # all others are full, or stuck
        if waited >= rank * NEXT_RANK_AFTER_MS and (load.of[me.session] < load.cap or is_abandoned):
            moves.take.append(each.partition_id)
            load.of[me.session] += 1


def _give_surplus(load: _Load, me: Node, moves: Moves) -> None:
    """The node that has the most gives to the one that has the fewest, as long as that has two less.

    Only the one that has the most gives: if all did that have more than the average, all would give to the
    same node.
    """
    if me.session != max(load.staying, key=lambda node: (load.of[node.session], -node.node_id)).session:
        return
    under_way = sum(each.is_loading for each in load.units if load.view.leader_of(each) is not None)
    mine = [each for each in load.led_by(me) if not each.is_loading]
    for _ in range(MOVES_AT_A_TIME - under_way):
        receiver = min(load.staying, key=lambda node: (load.of[node.session], node.node_id))
        if not mine or load.of[me.session] - load.of[receiver.session] < 2:
            return
        chosen = max(mine, key=lambda each: _preference(each, receiver, me))
        mine.remove(chosen)
        moves.give[chosen.partition_id] = receiver.session
        load.of[me.session] -= 1
        load.of[receiver.session] += 1


def _give_everything(load: _Load, me: Node, moves: Moves) -> None:
    if not load.staying:
        return
    for each in load.led_by(me):
        ranking = load.ranking(each.partition_id)
        receiver = next((node for node in ranking if load.of[node.session] < load.cap), ranking[0])
        moves.give[each.partition_id] = receiver.session
        load.of[receiver.session] += 1


def _add_companions(view: ClusterSnapshot, me: SessionId, moves: Moves) -> None:
    """A shard's partition of the journal goes where the shard goes."""
    for each in view.partitions.values():
        if each.moves_with is None:
            continue
        is_left_behind = view.partitions[each.moves_with].leader == me and view.leader_of(each) is None
        if each.moves_with in moves.give:
            moves.give[each.partition_id] = moves.give[each.moves_with]
        elif each.moves_with in moves.take or is_left_behind:
            moves.take.append(each.partition_id)


def _preference(each: Placed, receiver: Node, giver: Node) -> int:
    return _rendezvous(each.partition_id, receiver) - _rendezvous(each.partition_id, giver)


def _rendezvous(partition: PartitionId, node: Node) -> int:
    """The same number on every node and in every release."""
    return int.from_bytes(blake2b(b"%d %d" % (partition, node.node_id), digest_size=8).digest(), "big")
