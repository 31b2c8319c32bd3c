"""Who leads a partition: the one door to its log, and the answers to clients where another node leads it.

A request for a partition that is led elsewhere is NOT_LEADER_OR_FOLLOWER, with the leader if that is known
(KIP-951): the client then asks there without another Metadata.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from kohort.broker.context import Context
from kohort.broker.topics import ServedTopic
from kohort.cluster.view import PlacedNode
from kohort.log.log import Log
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

NO_EPOCH = -1
NO_NODE = -1
_NO_LEADER = int(ErrorCode.LEADER_NOT_AVAILABLE)
_METADATA, _FIRST_WITH_LISTENER_ERROR = 3, 6


class Leader(NamedTuple):
    """The node that leads a partition, and since which epoch."""

    node: PlacedNode
    epoch: LeaderEpoch


class NotLedError(RefusedError):
    """Another node leads the partition, or none does; ``leader`` is known if a client should go there."""

    def __init__(self, text: str, leader: Leader | None) -> None:
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
        self.leader = leader


def led(
    broker: "BrokerState", topic: ServedTopic | None, partition: int, claimed_epoch: int = NO_EPOCH
) -> Log:
    """The log of a partition this broker leads, or RefusedError. -1 claims no epoch."""
    if topic is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    log = topic.logs.get(partition)
    if log is None:
        raise _not_led(broker, topic, partition, claimed_epoch)
    if log.failure is not None:
        raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.partition} has failed: {log.failure}")
    if claimed_epoch != NO_EPOCH and claimed_epoch != log.leader_epoch:
        is_older = claimed_epoch < log.leader_epoch
        raise RefusedError(ErrorCode.FENCED_LEADER_EPOCH if is_older else ErrorCode.UNKNOWN_LEADER_EPOCH)
    return log


def _not_led(broker: "BrokerState", topic: ServedTopic, partition: int, claimed_epoch: int) -> RefusedError:
    if not 0 <= partition < topic.partitions:
        return RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    text = f"node {broker.node_id} does not lead {topic.name}-{partition}"
    return NotLedError(text, leader_elsewhere(broker, topic, partition, claimed_epoch))


def leader_elsewhere(
    broker: "BrokerState", topic: ServedTopic, partition: int, claimed_epoch: int = NO_EPOCH
) -> Leader | None:
    """Another node that leads a partition, if that is news to the client and was not before our own time."""
    placed = topic.placed[partition]
    node = broker.catalog.view.leader_of(placed)
    is_old = placed.leader_epoch <= topic.lost.get(partition, NO_EPOCH) or placed.leader_epoch < claimed_epoch
    if node is None or is_old or placed.leader == broker.catalog.session:
        return None
    return Leader(node, placed.leader_epoch)


# Answers to clients


class LeaderEndpoint(Protocol):
    """``NodeEndpoint`` of Produce and of Fetch."""

    node_id: int


E = TypeVar("E", bound=LeaderEndpoint)


def add_endpoint(endpoints: list[E], make: Callable[..., E], leader: PlacedNode, listener: str) -> None:
    """Say where a leader is that the reply names, for clients of the same listener; once for each."""
    node = leader.at(listener)
    if node is not None and all(each.node_id != node.node_id for each in endpoints):
        endpoints.append(make(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack))


def leaders(
    broker: "BrokerState", topic: ServedTopic, context: Context, partitions: Iterable[int] | None = None
) -> Iterator[tuple[int, int, list[int], int]]:
    """For each partition an error code, the id of its leader, the same in a list, and the epoch.

    A leader that has no listener like the one of this request cannot be reached by the client.
    """
    view, placed, logs = broker.catalog.view, topic.placed, topic.logs
    session, error, leader, here = None, _NO_LEADER, NO_NODE, list[int]()
    for index in range(len(placed)) if partitions is None else partitions:
        each = placed[index]
        if each.leader != session:
            session, node = each.leader, view.leader_of(each)
            if node is None:
                error, leader, here = _NO_LEADER, NO_NODE, []
            elif reachable(broker, node, context) is None:
                error, leader, here = _no_listener(context), NO_NODE, [node.node_id]
            else:
                error, leader, here = 0, node.node_id, [node.node_id]
        log = logs.get(index)
        yield error, leader, here, each.leader_epoch if log is None else log.leader_epoch


def _no_listener(context: Context) -> int:
    """Clients that ask for Metadata in old versions do not know the right code."""
    is_old = context.api_key == _METADATA and context.version < _FIRST_WITH_LISTENER_ERROR
    return _NO_LEADER if is_old else int(ErrorCode.LISTENER_NOT_FOUND)


def nodes(broker: "BrokerState", context: Context) -> list[PlacedNode]:
    """The nodes that clients of this listener reach, in the order of their ids."""
    found = (reachable(broker, node, context) for node in broker.catalog.view.nodes.values())
    return sorted((node for node in found if node is not None), key=lambda node: node.node_id)


def reachable(broker: "BrokerState", node: PlacedNode, context: Context) -> PlacedNode | None:
    """A node with the address of its listener of the same name; ``None`` if it has none such."""
    if node.session != broker.catalog.session:
        return node.at(context.listener)
    host, port = context.advertised
    return node._replace(host=host, port=port)


def controller_id(broker: "BrokerState") -> int:
    """For show: every node can do what clients ask of a controller. The one with the lowest id."""
    return min((node.node_id for node in broker.catalog.view.nodes.values()), default=NO_NODE)
