"""What is asked of each node: which partitions, in which fetch session, and the Fetch that says so."""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple

from kohort.client.arguments import by_topic
from kohort.client.connection import ClientConnection
from kohort.client.metadata import NO_NODE, Metadata
from kohort.client.subscription import PartitionAssignment
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID, NodeId, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

NO_SESSION = 0
FULL = 0  # as an epoch: the request names everything
FINAL = -1
_LAST_EPOCH = 0x7FFFFFFF


class Order(NamedTuple):
    """What is asked of one partition."""

    offset: int
    leader_epoch: int
    topic_id: bytes


class SessionRequest(NamedTuple):
    """The part of a Fetch that depends on the session."""

    session_id: int
    epoch: int
    orders: dict[TopicPartition, Order]
    forgotten: dict[TopicPartition, bytes]  # with the topic id they were asked for by


class ClientFetchSession:
    """The session with one node. Requests and answers alternate: one Fetch is outstanding at a time."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FULL
        self._orders: dict[TopicPartition, Order] = {}

    def __repr__(self) -> str:
        return f"<ClientFetchSession {self._id}, epoch {self._epoch}, {len(self._orders)} partitions>"

    @property
    def session_id(self) -> int:
        return self._id

    def request(self, wanted: Mapping[TopicPartition, Order]) -> SessionRequest:
        """How to ask for exactly ``wanted``, in its order."""
        known = self._orders
        self._orders = dict(wanted)
        if self._epoch == FULL:
            return SessionRequest(self._id, FULL, dict(wanted), {})
        changed = {each: order for each, order in wanted.items() if known.get(each) != order}
        forgotten = {
            each: order.topic_id
            for each, order in known.items()
            if each not in wanted or wanted[each].topic_id != order.topic_id
        }
        return SessionRequest(self._id, self._epoch, changed, forgotten)

    def final_request(self) -> SessionRequest | None:
        """How to end the session; None if there is none, or none that is known."""
        if self._epoch == FULL:
            return None
        return SessionRequest(self._id, FINAL, {}, {})

    def name_of(self, topic_id: bytes) -> TopicName | None:
        """The topic behind an id of the last request."""
        return next((tp.topic for tp, order in self._orders.items() if order.topic_id == topic_id), None)

    def order_of(self, partition: TopicPartition) -> Order | None:
        return self._orders.get(partition)

    def answered(self, response: FetchResponse, partitions: Iterable[TopicPartition]) -> bool:
        """Learn from an answer about ``partitions``; whether what it holds can be used."""
        if response.error_code:
            is_gone = response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            self._restart(NO_SESSION if is_gone else self._id)
            return False
        listed = set(partitions)
        if self._epoch == FULL and listed != set(self._orders):
            # Nothing but a throttle time is a notice; any other set of partitions is not what was asked.
            self._restart(NO_SESSION)
            return False
        if not listed <= set(self._orders):
            self._restart(self._id)
            return False
        if response.session_id == NO_SESSION:
            self._restart(NO_SESSION)
        else:
            self._id = response.session_id
            self._epoch = 1 if self._epoch in (FULL, _LAST_EPOCH) else self._epoch + 1
        return True

    def failed(self) -> None:
        """No answer: what the broker knows is uncertain, so the next request closes it and opens another."""
        self._restart(self._id)

    def _restart(self, session_id: int) -> None:
        self._id = session_id
        self._epoch = FULL


class FetchPlan(NamedTuple):
    """Orders by node, and the topics whose metadata must be asked for first."""

    orders: dict[NodeId, dict[TopicPartition, Order]]
    unknown: frozenset[TopicName]


def plan_fetches(
    assignment: PartitionAssignment,
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
        if topic is None or found is None or found.leader == NO_NODE:
            unknown.add(partition.topic)
            continue
        node = replicas.get(partition, found.leader)
        if node not in metadata.nodes:
            node = found.leader
        offset = ahead.get(partition, state.position.offset)
        order = Order(offset, state.position.leader_epoch, topic.topic_id)
        orders.setdefault(node, {})[partition] = order
    return FetchPlan(orders, frozenset(unknown))


_BY_NAME = 12  # Fetch 13 names topics by id only


class FetchLimits(NamedTuple):
    """How much one Fetch may bring, how long the broker may wait for it, and what may be read."""

    max_wait_ms: int
    max_bytes: int
    partition_max_bytes: int
    min_bytes: int = 1
    read_committed: bool = False
    rack_id: str = ""


def without_session(orders: Mapping[TopicPartition, Order]) -> SessionRequest:
    """A request that says all there is to say, and opens no session."""
    return SessionRequest(NO_SESSION, FINAL, dict(orders), {})


def fetch_request(asked: SessionRequest, limits: FetchLimits) -> FetchRequest:
    topics = [
        FetchTopic(
            topic=name,
            topic_id=asked.orders[TopicPartition(name, numbers[0])].topic_id,
            partitions=[
                FetchPartition(
                    partition=number,
                    current_leader_epoch=order.leader_epoch,
                    fetch_offset=order.offset,
                    partition_max_bytes=limits.partition_max_bytes,
                )
                for number in numbers
                for order in [asked.orders[TopicPartition(name, number)]]
            ],
        )
        for name, numbers in by_topic(asked.orders).items()
    ]
    forgotten = [
        ForgottenTopic(
            topic=name,
            topic_id=asked.forgotten[TopicPartition(name, numbers[0])],
            partitions=[int(number) for number in numbers],
        )
        for name, numbers in by_topic(asked.forgotten).items()
    ]
    return FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=int(limits.read_committed),
        session_id=asked.session_id,
        session_epoch=asked.epoch,
        topics=topics,
        forgotten_topics_data=forgotten,
        rack_id=limits.rack_id,
    )


async def send_fetch(
    connection: ClientConnection, asked: SessionRequest, limits: FetchLimits, request_timeout_ms: int
) -> FetchResponse:
    """One exchange; the time that the broker may wait for records comes on top of the usual timeout."""
    by_name = any(order.topic_id == NO_TOPIC_ID for order in asked.orders.values())
    return await connection.send(
        fetch_request(asked, limits),
        FetchResponse,
        highest=_BY_NAME if by_name else None,
        timeout_ms=request_timeout_ms + limits.max_wait_ms,
    )


def partitions_in(
    response: FetchResponse, name_of: Callable[[bytes], TopicName | None]
) -> dict[TopicPartition, PartitionData]:
    """The answer for each partition; ``name_of`` knows the topic ids that were asked for."""
    found: dict[TopicPartition, PartitionData] = {}
    for topic in response.responses:
        name = name_of(topic.topic_id) if topic.topic_id != NO_TOPIC_ID else topic.topic
        for one in topic.partitions:
            found[TopicPartition(TopicName(name or ""), Partition(one.partition_index))] = one
    return found
