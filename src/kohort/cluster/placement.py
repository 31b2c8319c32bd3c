"""Who should lead which partition: a function of a view, computed by every node for itself (cluster 2.2).

A node carries out its own lines only: it takes what no living session leads, and gives away what it leads.
The database settles the rest by compare-and-set, so an old view costs a round and never safety.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import heappop, heappush

from kohort.cluster.lease import SessionId
from kohort.cluster.view import ClusterSnapshot, PartitionId, PartitionKind, Placed, PlacedNode

MOVES_AT_A_TIME = 5
NEXT_RANK_AFTER_MS = 500  # an orphan that is not taken: after this by the node that ranks second, and so on
_CHOSEN = 1 << 64  # above every hash


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
    for kind in PartitionKind:
        units = [each for each in view.partitions.values() if each.kind is kind and each.moves_with is None]
        if not units:
            continue
        load = _Load(view, units, staying)
        if my_node.is_leaving:
            _give_everything(load, my_node, moves)
        else:
            _take_orphans(load, my_node, orphaned_ms, moves)
            _give_assigned(load, my_node, moves)
            if is_settled:
                _give_surplus(load, my_node, moves)
    _add_companions(view, me, moves)
    return moves


class _Load:
    """How many partitions of one kind each node leads that stays; counts moves as if they were done."""

    def __init__(self, view: ClusterSnapshot, units: list[Placed], staying: list[PlacedNode]) -> None:
        self.view = view
        self.units = sorted(units)
        self.staying = staying
        self.of: Counter[SessionId | None] = Counter({node.session: 0 for node in staying})
        self.of.update(each.leader for each in units if each.leader in self.of)
        self.cap = -(-len(units) // len(staying)) if staying else 0

    def make_room_for(self, orphans: list[Placed]) -> None:
        """Where some nodes have more than their part, as by hand, the others must have more room."""
        while self.staying and sum(map(self.room, self.staying)) < len(orphans):
            self.cap += 1

    def room(self, node: PlacedNode) -> int:
        return max(0, self.cap - self.of[node.session])

    def led_by(self, node: PlacedNode) -> list[Placed]:
        return [each for each in self.units if each.leader == node.session]

    def ranking(self, each: Placed) -> list[PlacedNode]:
        """The nodes in the order in which they should lead a partition; no other partition matters here."""

        return sorted(self.staying, key=lambda node: _claim(each, node), reverse=True)

    def movable(self, node: PlacedNode) -> list[Placed]:
        """What a node leads and was not chosen for by hand."""
        return [each for each in self.led_by(node) if each.assigned != node.node_id]


def _take_orphans(
    load: _Load, me: PlacedNode, orphaned_ms: Callable[[PartitionId], int], moves: Moves
) -> None:
    """At once what is this node's part, later also what others should have taken and have not."""
    orphans = [each for each in load.units if load.view.leader_of(each) is None]
    load.make_room_for(orphans)
    mine = _part_of(load, me, orphans)
    for each in sorted(orphans, key=lambda each: _claim(each, me), reverse=True):
        if each.partition_id not in mine:
            waited = orphaned_ms(each.partition_id)
            is_abandoned = waited >= len(load.staying) * NEXT_RANK_AFTER_MS  # all others are full, or stuck
            has_room = load.room(me) > 0 or each.assigned == me.node_id
            if not is_abandoned and not (has_room and waited >= _patience(load, each, me)):
                continue
        moves.take.append(each.partition_id)
        load.of[me.session] += 1


def _patience(load: _Load, each: Placed, me: PlacedNode) -> int:
    return NEXT_RANK_AFTER_MS * max(1, load.ranking(each).index(me))


def _part_of(load: _Load, me: PlacedNode, orphans: list[Placed]) -> set[PartitionId]:
    """The orphans that this node takes: each goes to the node with the best claim that has room for it.

    A node that gets too many passes on the one that it has the least claim to. Which comes first does not
    matter, and what others have taken already changes nothing for the rest.
    """
    chosen = Counter(each.assigned for each in orphans)
    room = {node.session: max(load.room(node), chosen[node.node_id]) for node in load.staying}
    parts: dict[SessionId, list[tuple[int, PartitionId]]] = {session: [] for session in room}
    claims = {
        each.partition_id: sorted((_claim(each, node), node.session) for node in load.staying)
        for each in orphans
    }
    for partition_id in list(claims):
        passed_on = partition_id
        while claims[passed_on]:
            claim, session = claims[passed_on].pop()
            heappush(parts[session], (claim, passed_on))
            if len(parts[session]) <= room[session]:
                break
            _, passed_on = heappop(parts[session])
    return {partition_id for _, partition_id in parts[me.session]}


def _give_assigned(load: _Load, me: PlacedNode, moves: Moves) -> None:
    """What was moved by hand goes to its node, if that lives."""
    chosen = {node.node_id: node.session for node in load.staying if node.session != me.session}
    for each in load.led_by(me):
        if each.assigned in chosen:
            receiver = moves.give[each.partition_id] = chosen[each.assigned]
            load.of[me.session] -= 1
            load.of[receiver] += 1


def _give_surplus(load: _Load, me: PlacedNode, moves: Moves) -> None:
    """The node that has the most gives to the one that has the fewest, as long as that has two less.

    Only the one that has the most gives: if all did that have more than the average, all would give to the
    same node. What was moved by hand stays.
    """
    givers = [node for node in load.staying if load.movable(node)]
    if not givers:
        return
    if me.session != max(givers, key=lambda node: (load.of[node.session], -node.node_id)).session:
        return
    under_way = sum(each.is_loading for each in load.units if load.view.leader_of(each) is not None)
    mine = [each for each in load.movable(me) if not each.is_loading and each.partition_id not in moves.give]
    for _ in range(MOVES_AT_A_TIME - under_way):
        receiver = min(load.staying, key=lambda node: (load.of[node.session], node.node_id))
        if not mine or load.of[me.session] - load.of[receiver.session] < 2:
            return
        chosen = max(mine, key=lambda each: _preference(each, receiver, me))
        mine.remove(chosen)
        moves.give[chosen.partition_id] = receiver.session
        load.of[me.session] -= 1
        load.of[receiver.session] += 1


def _give_everything(load: _Load, me: PlacedNode, moves: Moves) -> None:
    if not load.staying:
        return
    for each in load.led_by(me):
        ranking = load.ranking(each)
        receiver = next((node for node in ranking if load.of[node.session] < load.cap), ranking[0])
        moves.give[each.partition_id] = receiver.session
        load.of[receiver.session] += 1


def _add_companions(view: ClusterSnapshot, me: SessionId, moves: Moves) -> None:
    """A shard's partition of the journal goes where the shard goes, or follows it."""
    for each in view.partitions.values():
        if each.moves_with is None:
            continue
        shard = view.partitions[each.moves_with]
        leader = view.leader_of(shard)
        is_left_behind = shard.leader == me and view.leader_of(each) is None
        if each.leader == me and leader is not None and leader.session != me and not leader.is_leaving:
            moves.give[each.partition_id] = leader.session  # an old view made us take it
            continue
        if each.moves_with in moves.give:
            moves.give[each.partition_id] = moves.give[each.moves_with]
        elif each.moves_with in moves.take or is_left_behind:
            moves.take.append(each.partition_id)


def _claim(each: Placed, node: PlacedNode) -> int:
    """How much a node should lead a partition; no other partition matters here."""
    return _rendezvous(each.partition_id, node) + (_CHOSEN if node.node_id == each.assigned else 0)


def _preference(each: Placed, receiver: PlacedNode, giver: PlacedNode) -> int:
    return _rendezvous(each.partition_id, receiver) - _rendezvous(each.partition_id, giver)


def _rendezvous(partition: PartitionId, node: PlacedNode) -> int:
    """The same number on every node and in every release."""
    return int.from_bytes(blake2b(b"%d %d" % (partition, node.node_id), digest_size=8).digest(), "big")
