"""Fetch: one request at a time to each node that leads something, answers into the buffer."""

import asyncio
import logging
from typing import NamedTuple

from kohort.client.cluster import ClusterClient, ConnectionPurpose
from kohort.client.consumer.background import MetadataWatch, Tasks
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.errors import BrokerError
from kohort.client.fetching.buffer import Collected, FetchBuffer, P, Take
from kohort.client.fetching.chunk import Chunk, ConsumerRecord
from kohort.client.fetching.positions import FetchPositions
from kohort.client.fetching.requests import (
    ClientFetchSession,
    FetchLimits,
    Order,
    SessionRequest,
    partitions_in,
    plan_fetches,
    send_fetch,
)
from kohort.client.metadata import LeaderHint, Node, adopt_leaders
from kohort.client.subscription import PartitionState, Position, Subscriptions
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import Instant, LeaderEpoch, NodeId
from kohort.model.topics import TopicPartition
from kohort.wire.messages.fetch import FetchResponse, NodeEndpoint, PartitionData

_log = logging.getLogger(__name__)
_E = ErrorCode
_LEADER_CHANGED = frozenset(
    {
        _E.NOT_LEADER_OR_FOLLOWER, _E.REPLICA_NOT_AVAILABLE, _E.KAFKA_STORAGE_ERROR, _E.FENCED_LEADER_EPOCH,
        _E.OFFSET_NOT_AVAILABLE, _E.UNKNOWN_TOPIC_OR_PARTITION, _E.UNKNOWN_TOPIC_ID, _E.INCONSISTENT_TOPIC_ID,
    }
)  # fmt: skip
_HINTING = frozenset({_E.NOT_LEADER_OR_FOLLOWER, _E.FENCED_LEADER_EPOCH})
_TRY_AGAIN = frozenset({_E.UNKNOWN_LEADER_EPOCH, _E.UNKNOWN_SERVER_ERROR})


class _Lease(NamedTuple):
    """A replica to read from instead of the leader, for a while (KIP-392)."""

    node: NodeId
    until: Instant


class Fetcher:
    """Reads ahead of the application: a chunk for each partition, and the next of the one it is at."""

    def __init__(
        self,
        cluster: ClusterClient,
        settings: ConsumerSettings,
        subscriptions: Subscriptions,
        positions: FetchPositions,
        watch: MetadataWatch,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._subscriptions = subscriptions
        self._positions = positions
        self._watch = watch
        self._reading = settings.reading()
        self._limits = FetchLimits(
            max_wait_ms=settings.fetch_max_wait_ms,
            max_bytes=settings.fetch_max_bytes,
            partition_max_bytes=settings.max_partition_fetch_bytes,
            min_bytes=settings.fetch_min_bytes,
            read_committed=settings.read_committed,
            rack_id=settings.client_rack,
        )
        self._buffer = FetchBuffer(subscriptions, self._refused)
        self._sessions: dict[NodeId, ClientFetchSession] = {}
        self._busy: dict[NodeId, frozenset[TopicPartition]] = {}
        self._not_before: dict[NodeId, Instant] = {}
        self._pause_until: dict[TopicPartition, Instant] = {}
        self._leases: dict[TopicPartition, _Lease] = {}
        self.ends: dict[TopicPartition, int] = {}  # high watermarks, or with read_committed stable offsets

    def collect(self, take: Take[P], limit: int) -> Collected[P]:
        """Records for the application, in its form; raises what it has to hear of."""
        return self._buffer.collect_by(take, limit)

    def collect_more(self, limit: int) -> dict[TopicPartition, list[ConsumerRecord]] | None:
        """So many records of what is being handed out; None if it takes more than that."""
        return self._buffer.collect_more(limit)

    # --- asking -------------------------------------------------------------------------------

    def send(self, tasks: Tasks) -> Instant | None:
        """Ask every node that is not being asked; when a node that failed may be asked again."""
        now = tasks.now()
        self._buffer.drop_stale()
        self._leases = {each: lease for each, lease in self._leases.items() if lease.until > now}
        self._pause_until = {each: until for each, until in self._pause_until.items() if until > now}
        plan = plan_fetches(
            self._subscriptions.assignment,
            self._watch.metadata,
            buffered=_Either(self._buffer, self._pause_until),
            ahead=self._ahead(),
            replicas={each: lease.node for each, lease in self._leases.items()},
        )
        if plan.unknown:
            self._watch.request(plan.unknown)
        times = list(self._pause_until.values())
        asked = {each for partitions in self._busy.values() for each in partitions}
        for node, orders in plan.orders.items():
            if node in self._busy:
                continue
            if self._not_before.get(node, now) > now:
                times.append(self._not_before[node])
            elif wanted := {each: order for each, order in orders.items() if each not in asked}:
                self._busy[node] = frozenset(wanted)
                tasks.spawn(self._fetch(node, wanted, tasks))
        return min(times, default=None)

    def _ahead(self) -> dict[TopicPartition, int]:
        found = self._buffer.ahead(self.ends)
        return {each: offset for each, offset in found.items() if each not in self._pause_until}

    @property
    def is_asking(self) -> bool:
        """Whether an answer is on its way."""
        return bool(self._busy)

    async def _fetch(self, node: NodeId, orders: dict[TopicPartition, Order], tasks: Tasks) -> None:
        session = self._sessions.setdefault(node, ClientFetchSession())
        asked = session.request(orders)
        try:
            connection = await self._cluster.connection(node, ConnectionPurpose.FETCH)
            response = await send_fetch(connection, asked, self._limits, self._settings.request_timeout_ms)
        except KohortError as error:
            _log.debug("fetch from node %s failed: %s", node, error)
            session.failed()
            self._later(node, tasks)
            if not error.retriable:
                raise
        else:
            self._receive(node, session, response, tasks)
        finally:
            self._busy.pop(node, None)

    async def close_sessions(self, seconds: float) -> None:
        """Give the sessions up where that is quickly done; brokers drop others when they need the room.

        On the connections that no long poll blocks: a session does not belong to a connection.
        """
        finals = {node: session.final_request() for node, session in self._sessions.items()}
        closing = [self._close_session(node, final) for node, final in finals.items() if final is not None]
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*closing)
        except TimeoutError:
            _log.debug("not all fetch sessions could be closed in time")

    async def _close_session(self, node: NodeId, final: SessionRequest) -> None:
        limits = self._limits._replace(max_wait_ms=0)
        try:
            connection = await self._cluster.connection(node)
            await send_fetch(connection, final, limits, self._settings.request_timeout_ms)
        except KohortError as error:
            _log.debug("the fetch session with node %s was not closed: %s", node, error)

    def _later(self, node: NodeId, tasks: Tasks) -> None:
        """Not this node again at once; another node may lead its partitions by now."""
        self._not_before[node] = Instant(tasks.now() + self._settings.retry_backoff_ms)
        self._leases = {each: lease for each, lease in self._leases.items() if lease.node != node}
        self._watch.request()

    # --- answers ------------------------------------------------------------------------------

    def _receive(
        self, node: NodeId, session: ClientFetchSession, response: FetchResponse, tasks: Tasks
    ) -> None:
        found = partitions_in(response, session.name_of)
        if not session.answered(response, found):
            if response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR:
                self._later(node, tasks)
            return
        for partition, one in found.items():
            order = session.order_of(partition)
            assert order is not None
            self._keep(partition, order, one, tasks)
        self._follow_hints(found, response.node_endpoints)

    def _follow_hints(self, found: dict[TopicPartition, PartitionData], nodes: list[NodeEndpoint]) -> None:
        """Who does not lead any more may say who does: that saves asking for metadata (KIP-951)."""
        leaders = {
            partition: LeaderHint(NodeId(hint.leader_id), LeaderEpoch(hint.leader_epoch))
            for partition, one in found.items()
            if one.error_code in _HINTING and (hint := one.current_leader) is not None and hint.leader_id >= 0
        }
        if leaders:
            where = [Node(NodeId(each.node_id), each.host, each.port, each.rack) for each in nodes]
            before = self._cluster.metadata
            self._cluster.metadata = after = adopt_leaders(before, leaders, where)
            for partition in leaders:
                if after.topics.get(partition.topic) != before.topics.get(partition.topic):
                    self._pause_until.pop(partition, None)

    def _keep(self, partition: TopicPartition, order: Order, one: PartitionData, tasks: Tasks) -> None:
        if one.error_code == 0:
            self.ends[partition] = (
                one.last_stable_offset if self._settings.read_committed else one.high_watermark
            )
            if one.preferred_read_replica >= 0:
                until = Instant(tasks.now() + self._settings.metadata_max_age_ms)
                self._leases[partition] = _Lease(NodeId(one.preferred_read_replica), until)
        else:
            # An answer that comes at once must not be asked for at once.
            self._pause_until[partition] = Instant(tasks.now() + self._settings.retry_backoff_ms)
        if one.error_code or one.records:
            self._buffer.add(Chunk(partition, order.offset, one, self._reading))

    def _refused(self, chunk: Chunk, state: PartitionState, position: Position) -> None:
        """React to a partition's error code, in the application's poll."""
        code, partition = chunk.error_code, chunk.partition
        lease = self._leases.pop(partition, None)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if lease is None:
                self._positions.out_of_range(partition, state, position)
        elif code in _LEADER_CHANGED:
            self._watch.request()
        elif code in _TRY_AGAIN:
            _log.warning("%s", BrokerError(code, f"read {partition}"))
        else:
            raise BrokerError(code, f"read {partition} from offset {position.offset}")


class _Either:
    """In one of two."""

    def __init__(self, buffer: FetchBuffer, paused: dict[TopicPartition, Instant]) -> None:
        self._buffer = buffer
        self._paused = paused

    def __contains__(self, partition: object) -> bool:
        return partition in self._buffer or partition in self._paused
