"""Who is asked for what."""

from kohort.client.fetching.requests import plan_fetches
from kohort.client.metadata import Metadata, Node, PartitionInfo, TopicInfo
from kohort.client.subscription import Position, Subscriptions
from kohort.model.ids import LeaderEpoch, NodeId, Partition, TopicId, TopicName
from kohort.model.topics import TopicPartition

ID = TopicId(b"\1" * 16)
ONE, TWO = NodeId(1), NodeId(2)


def partition(number: int) -> TopicPartition:
    return TopicPartition(TopicName("t"), Partition(number))


def cluster(*leaders: int) -> Metadata:
    found = tuple(
        PartitionInfo(Partition(at), NodeId(leader), LeaderEpoch(4), (1, 2), (1, 2), (), 0)
        for at, leader in enumerate(leaders)
    )
    topic = TopicInfo(TopicName("t"), ID, False, found)
    return Metadata(nodes={each: Node(each, "h", 9) for each in (ONE, TWO)}, topics={topic.name: topic})


def assigned(*numbers: int) -> Subscriptions:
    subscriptions = Subscriptions()
    subscriptions.assign([partition(number) for number in numbers])
    for number in numbers:
        subscriptions.state(partition(number)).seek(Position(number * 10, -1, 1, 4))
    return subscriptions


def test_partitions_are_asked_of_their_leaders() -> None:
    plan = plan_fetches(assigned(0, 1, 2).assignment, cluster(1, 2, 1), buffered=(), ahead={}, replicas={})
    assert {node: list(orders) for node, orders in plan.orders.items()} == {
        ONE: [partition(0), partition(2)],
        TWO: [partition(1)],
    }
    assert plan.orders[TWO][partition(1)] == (10, 4, ID)


def test_buffered_paused_and_unpositioned_partitions_are_left_out() -> None:
    subscriptions = assigned(0, 1, 2)
    subscriptions.state(partition(1)).is_paused = True
    subscriptions.state(partition(2)).reset(-1)
    plan = plan_fetches(
        subscriptions.assignment, cluster(1, 1, 1), buffered=[partition(0)], ahead={}, replicas={}
    )
    assert plan.orders == {}


def test_a_preferred_replica_is_asked_as_long_as_it_is_there() -> None:
    replicas = {partition(0): TWO, partition(1): NodeId(9)}
    plan = plan_fetches(assigned(0, 1).assignment, cluster(1, 1), buffered=(), ahead={}, replicas=replicas)
    assert list(plan.orders) == [TWO, ONE]


def test_topics_without_a_known_leader_need_metadata() -> None:
    subscriptions = assigned(0, 5)
    plan = plan_fetches(subscriptions.assignment, cluster(-1), buffered=(), ahead={}, replicas={})
    assert plan.orders == {}
    assert plan.unknown == {"t"}


def test_what_is_read_ahead_is_asked_for_behind_what_is_buffered() -> None:
    here = [partition(0), partition(1)]
    plan = plan_fetches(
        assigned(0, 1).assignment, cluster(1, 1), buffered=here, ahead={partition(1): 77}, replicas={}
    )
    assert {
        node: {each: order.offset for each, order in orders.items()} for node, orders in plan.orders.items()
    } == {1: {partition(1): 77}}
