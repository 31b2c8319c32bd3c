"""Which partitions are fetched next, and from whom."""

from collections.abc import Container, Mapping
from typing import NamedTuple

from kohort.client.fetching.session import Order
from kohort.client.metadata import NOBODY, Metadata
from kohort.client.subscription import Assignment
from kohort.model.ids import NodeId, TopicName
from kohort.model.topics import TopicPartition


class FetchPlan(NamedTuple):
    """Orders by node, and the topics whose metadata must be asked for first."""

    orders: dict[NodeId, dict[TopicPartition, Order]]
    unknown: frozenset[TopicName]


def plan_fetches(
    assignment: Assignment,
    metadata: Metadata,
    *,
    buffered: Container[TopicPartition],
    ahead: Mapping[TopicPartition, int],
    replicas: Mapping[TopicPartition, NodeId],
) -> FetchPlan:
    """Every fetchable partition that has nothing buffered, at its preferred replica or else its leader.

    Those that are read ahead are asked for from there on, although they have something.
    """
    orders: dict[NodeId, dict[TopicPartition, Order]] = {}
    unknown: set[TopicName] = set()
    for partition, state in assignment.items():
        if not state.is_fetchable or state.position is None:
            continue
        if partition in buffered and partition not in ahead:
            continue
        topic = metadata.topics.get(partition.topic)
        found = topic.partition(partition.partition) if topic is not None else None
        if topic is None or found is None or found.leader == NOBODY:
            unknown.add(partition.topic)
            continue
        node = replicas.get(partition, found.leader)
        if node not in metadata.nodes:
            node = found.leader
        offset = ahead.get(partition, state.position.offset)
        order = Order(offset, state.position.leader_epoch, topic.topic_id)
        orders.setdefault(node, {})[partition] = order
    return FetchPlan(orders, frozenset(unknown))
