"""Placement: from any start, with old views, every partition gets a leader and the nodes end up even."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from kohort.cluster.lease import SessionId
from kohort.cluster.placement import MOVES_AT_A_TIME, plan
from kohort.cluster.view import ClusterSnapshot, PartitionId, PartitionKind, Placed, PlacedNode
from kohort.model.ids import LeaderEpoch, NodeId


class Tables:
    """The database: it carries out takes and hand-overs by compare-and-set."""

    def __init__(self, view: ClusterSnapshot) -> None:
        self.view = view
        self.moves = 0

    def carry_out(
        self, seen: ClusterSnapshot, me: SessionId, waited_ms: int, *, is_settled: bool = True
    ) -> int:
        """Execute a node's plan of what it has seen; how many of its moves took place."""
        moves = plan(seen, me, orphaned_ms=lambda _: waited_ms, is_settled=is_settled)
        partitions = dict(self.view.partitions)
        before = self.moves
        if me not in self.view.nodes:
            return 0
        for partition in moves.take:
            if self.view.leader_of(partitions[partition]) is None:
                self._lead(partitions, partition, me)
        for partition, receiver in moves.give.items():
            if partitions[partition].leader == me and receiver in self.view.nodes:
                self._lead(partitions, partition, receiver)
        self.view = replace(self.view, version=self.view.version + 1, partitions=partitions)
        return self.moves - before

    def _lead(self, partitions: dict[PartitionId, Placed], partition: PartitionId, leader: SessionId) -> None:
        known = partitions[partition]
        epoch = LeaderEpoch(known.leader_epoch + 1)
        partitions[partition] = known._replace(leader=leader, leader_epoch=epoch, served_epoch=epoch)
        self.moves += 1

    def counts(self, kind: PartitionKind) -> Counter[SessionId | None]:
        living: Counter[SessionId | None] = Counter(
            {session: 0 for session, each in self.view.nodes.items() if not each.is_leaving}
        )
        living.update(
            each.leader
            for each in self.view.partitions.values()
            if each.kind is kind and each.moves_with is None
        )
        return living


def node(number: int, *, is_leaving: bool = False) -> PlacedNode:
    return PlacedNode(SessionId(100 + number), NodeId(number), is_leaving)


def cluster(dice: Random) -> ClusterSnapshot:
    """Some nodes, and partitions that anyone leads, or no one, or one that is dead."""
    nodes = [node(number) for number in range(dice.randint(1, 5))]
    leaders = [*(each.session for each in nodes), None, SessionId(1)]
    chosen = dice.sample(leaders, dice.randint(1, len(leaders)))
    partitions: list[Placed] = []
    for _ in range(dice.randint(0, 40)):
        kind = dice.choice(list(PartitionKind))
        leader = dice.choice(chosen)
        number = PartitionId(len(partitions))
        partitions.append(Placed(number, kind, leader))
        if kind is PartitionKind.SHARD:
            partitions.append(Placed(PartitionId(number + 1), kind, leader, moves_with=number))
    return ClusterSnapshot(
        0, {each.session: each for each in nodes}, {each.partition_id: each for each in partitions}
    )


def assert_even(tables: Tables) -> None:
    for kind in PartitionKind:
        counts = tables.counts(kind)
        assert set(counts) <= set(tables.view.nodes)
        assert max(counts.values()) - min(counts.values()) <= 1, counts
    for each in tables.view.partitions.values():
        if each.moves_with is not None:
            assert each.leader == tables.view.partitions[each.moves_with].leader


@pytest.mark.parametrize("seed", range(150))
def test_everything_is_led_and_evenly_whatever_was_before(seed: int) -> None:
    dice = Random(seed)
    tables = Tables(cluster(dice))
    seen = dict.fromkeys(tables.view.nodes, tables.view)
    partitions = len(tables.view.partitions)
    waited = 0
    for round_number in range(60):
        order = list(tables.view.nodes)
        dice.shuffle(order)
        for me in order:
            if round_number > 20 or dice.random() < 0.7:  # else an old view; later all keep up
                seen[me] = tables.view
            tables.carry_out(seen[me], me, waited)
        waited += 250
    assert_even(tables)
    assert tables.moves <= 4 * partitions
    moves = tables.moves
    for me in tables.view.nodes:
        tables.carry_out(tables.view, me, waited)
    assert tables.moves == moves  # what is even is left alone


@pytest.mark.parametrize("seed", range(20))
def test_orphans_of_one_dead_node_are_taken_in_one_round_but_for_a_few(seed: int) -> None:
    """The rank of a partition depends on no other: nodes with different lists agree."""
    nodes = [node(number) for number in range(3)]
    partitions = {
        PartitionId(number): Placed(PartitionId(number), PartitionKind.DATA, nodes[number % 3].session)
        for number in range(seed * 1_000, seed * 1_000 + 99)
    }
    tables = Tables(ClusterSnapshot(0, {each.session: each for each in nodes[:2]}, partitions))
    first, second = (each.session for each in nodes[:2])
    half = replace(tables.view, partitions=dict(list(partitions.items())[:50]))
    taken = tables.carry_out(half, first, 0, is_settled=False)
    taken += tables.carry_out(tables.view, second, 0, is_settled=False)
    taken += tables.carry_out(tables.view, first, 0, is_settled=False)
    assert taken >= 33 - 8
    for waited in (500, 1_000):
        for me in (first, second):
            taken += tables.carry_out(tables.view, me, waited, is_settled=False)
    assert taken == 33


@pytest.mark.parametrize("seed", range(20))
def test_nodes_take_all_orphans_at_once_and_none_more_than_its_part(seed: int) -> None:
    """Also those that a full node ranks first for; after one has taken its part, the rest is as before."""
    nodes = [node(number) for number in range(4)]
    partitions = {
        PartitionId(number): Placed(PartitionId(number), PartitionKind.DATA, nodes[number % 4].session)
        for number in range(seed * 1_000, seed * 1_000 + 100)
    }
    tables = Tables(ClusterSnapshot(0, {each.session: each for each in nodes[:3]}, partitions))
    old = tables.view
    taken = tables.carry_out(old, nodes[0].session, 0, is_settled=False)
    taken += tables.carry_out(tables.view, nodes[1].session, 0, is_settled=False)
    taken += tables.carry_out(old, nodes[2].session, 0, is_settled=False)
    assert taken == 25
    assert max(tables.counts(PartitionKind.DATA).values()) <= 34


def test_orphans_are_taken_at_once_though_one_node_has_all_that_it_should_have_and_more() -> None:
    nodes = [node(0), node(1)]
    mine = [
        Placed(PartitionId(number), PartitionKind.DATA, nodes[0].session, assigned=NodeId(0))
        for number in range(8)
    ]
    orphans = [Placed(PartitionId(number), PartitionKind.DATA, None) for number in range(8, 16)]
    tables = Tables(
        ClusterSnapshot(
            0, {each.session: each for each in nodes}, {each.partition_id: each for each in mine + orphans}
        )
    )
    tables.carry_out(tables.view, nodes[0].session, 0)
    tables.carry_out(tables.view, nodes[1].session, 0)
    assert tables.counts(PartitionKind.DATA)[None] == 0


def test_a_node_that_leaves_gives_everything_away_and_gets_nothing() -> None:
    nodes = [node(0, is_leaving=True), node(1), node(2)]
    partitions = {
        PartitionId(number): Placed(PartitionId(number), PartitionKind.DATA, nodes[number % 2].session)
        for number in range(20)
    }
    tables = Tables(ClusterSnapshot(0, {each.session: each for each in nodes}, partitions))
    assert tables.carry_out(tables.view, nodes[0].session, 0) == 10
    assert tables.counts(PartitionKind.DATA) == {nodes[1].session: 10, nodes[2].session: 10}
    assert tables.carry_out(tables.view, nodes[1].session, 10_000) == 0


def test_at_most_five_moves_are_made_at_a_time_and_none_before_the_last_ones_are_served() -> None:
    nodes = [node(0), node(1)]
    loading = Placed(PartitionId(0), PartitionKind.DATA, nodes[1].session, LeaderEpoch(3), LeaderEpoch(2))
    others = [Placed(PartitionId(number), PartitionKind.DATA, nodes[0].session) for number in range(1, 40)]
    view = ClusterSnapshot(
        0, {each.session: each for each in nodes}, {each.partition_id: each for each in [loading, *others]}
    )
    assert Tables(view).carry_out(view, nodes[0].session, 0) == MOVES_AT_A_TIME - 1
    assert Tables(view).carry_out(view, nodes[0].session, 0, is_settled=False) == 0


def test_a_session_that_is_not_in_its_own_view_does_nothing() -> None:
    orphan = Placed(PartitionId(0), PartitionKind.DATA, None)
    view = ClusterSnapshot(0, {}, {orphan.partition_id: orphan})
    assert plan(view, SessionId(9), orphaned_ms=lambda _: 9_999, is_settled=True).take == []


def assigned(view: ClusterSnapshot, number: int, to: PlacedNode | None) -> ClusterSnapshot:
    placed = view.partitions[PartitionId(number)]._replace(assigned=None if to is None else to.node_id)
    return replace(view, partitions={**view.partitions, placed.partition_id: placed})


def test_what_is_moved_by_hand_goes_to_its_node_and_stays_there() -> None:
    nodes = [node(0), node(1)]
    partitions = {
        PartitionId(number): Placed(PartitionId(number), PartitionKind.DATA, nodes[0].session)
        for number in range(4)
    }
    view = ClusterSnapshot(0, {each.session: each for each in nodes}, partitions)
    for number in range(4):
        view = assigned(view, number, nodes[1])
    tables = Tables(view)
    assert tables.carry_out(tables.view, nodes[0].session, 0, is_settled=False) == 4
    assert tables.counts(PartitionKind.DATA) == {nodes[0].session: 0, nodes[1].session: 4}
    assert tables.carry_out(tables.view, nodes[1].session, 10_000) == 0, "no surplus: it was chosen"
    for number in range(4):
        tables.view = assigned(tables.view, number, None)
    assert tables.carry_out(tables.view, nodes[1].session, 10_000) == 2


def test_an_orphan_that_has_a_node_is_taken_by_that_node_first_and_by_any_other_later() -> None:
    nodes = [node(0), node(1)]
    for chosen, other in (nodes, nodes[::-1]):
        orphan = Placed(PartitionId(5), PartitionKind.DATA, None, assigned=chosen.node_id)
        view = ClusterSnapshot(0, {each.session: each for each in nodes}, {orphan.partition_id: orphan})
        assert Tables(view).carry_out(view, other.session, 0) == 0
        assert Tables(view).carry_out(view, chosen.session, 0) == 1
        assert Tables(view).carry_out(view, other.session, 1_000) == 1


def test_a_node_that_leads_only_what_was_chosen_does_not_keep_others_from_sharing() -> None:
    nodes = [node(0), node(1), node(2)]
    leaders = [nodes[0]] * 6 + [nodes[1]] * 4
    partitions = {
        PartitionId(number): Placed(
            PartitionId(number),
            PartitionKind.DATA,
            leader.session,
            assigned=leader.node_id if leader is nodes[0] else None,
        )
        for number, leader in enumerate(leaders)
    }
    tables = Tables(ClusterSnapshot(0, {each.session: each for each in nodes}, partitions))
    assert tables.carry_out(tables.view, nodes[0].session, 0) == 0
    assert tables.carry_out(tables.view, nodes[1].session, 0) == 2


def test_a_partition_of_the_journal_that_another_node_leads_follows_its_shard() -> None:
    nodes = [node(0), node(1)]
    shard = Placed(PartitionId(0), PartitionKind.SHARD, nodes[0].session)
    journal = Placed(PartitionId(1), PartitionKind.SHARD, nodes[1].session, moves_with=shard.partition_id)
    view = ClusterSnapshot(
        0, {each.session: each for each in nodes}, {each.partition_id: each for each in (shard, journal)}
    )
    assert plan(view, nodes[1].session, orphaned_ms=lambda _: 0, is_settled=False).give == {
        journal.partition_id: nodes[0].session
    }
