"""Asks for what ``FetchPositions`` needs: committed offsets, beginnings, ends, and cut logs."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from kohort.client.admin.results import ListedOffset
from kohort.client.admin.topics import OffsetSpec, list_offsets
from kohort.client.arguments import AnyPartition, PartitionKey, as_partitions, as_times, as_topics, by_topic
from kohort.client.cluster import ClusterClient
from kohort.client.consumer.background import MetadataWatch, Tasks
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.errors import ApiNotServedError, BrokerError
from kohort.client.fetching.positions import FetchPositions, PositionReset, Validation
from kohort.client.subscription import OffsetAndMetadata, PartitionState
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import NodeId, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.apis import ApiKey
from kohort.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


class OffsetAndTimestamp(NamedTuple):
    """A record found by time."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


async def places(
    cluster: ClusterClient, partitions: Iterable[AnyPartition], spec: OffsetSpec, *, read_committed: bool
) -> dict[TopicPartition, int]:
    """The beginning or the end of each."""
    wanted = dict.fromkeys(as_partitions(partitions), int(spec))
    found = await list_offsets(cluster, wanted, read_committed=read_committed)
    return {partition: _listed(listed).offset for partition, listed in found.items()}


async def by_times(
    cluster: ClusterClient, times: Mapping[PartitionKey, int], *, read_committed: bool
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """The first record as new as asked for in each; None if there is none."""
    found = await list_offsets(cluster, as_times(times), read_committed=read_committed)
    results: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    for partition, answer in found.items():
        listed = _listed(answer)
        results[partition] = OffsetAndTimestamp(*listed) if listed.offset >= 0 else None
    return results


async def partitions_of(cluster: ClusterClient, topic: str) -> set[int]:
    (name,) = as_topics([topic])
    metadata = await cluster.retry(lambda: cluster.refresh([name]))
    return {each.partition for each in metadata.topic(name).partitions}


async def public_topics(cluster: ClusterClient) -> set[str]:
    metadata = await cluster.retry(cluster.refresh_all)
    return {name for name, topic in metadata.topics.items() if not topic.is_internal}


def _listed(answer: ListedOffset | BrokerError) -> ListedOffset:
    if isinstance(answer, BrokerError):
        raise answer
    return answer


_CONSUMER = -1
_FIRST_FOR_CONSUMERS = 3  # before, OffsetForLeaderEpoch needed the rights of a broker

Committed = Callable[
    [tuple[TopicPartition, ...]], Awaitable[Mapping[TopicPartition, OffsetAndMetadata | None]]
]


class PositionLookups:
    """Starts what is due, and brings the answers back."""

    def __init__(
        self,
        cluster: ClusterClient,
        settings: ConsumerSettings,
        positions: FetchPositions,
        watch: MetadataWatch,
        committed: Committed | None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._positions = positions
        self._watch = watch
        self._committed = committed

    def start(self, tasks: Tasks) -> None:
        """Ask whatever is due; raises what earlier answers left to be raised."""
        due = self._positions.due(self._watch.metadata, tasks.now(), has_group=self._committed is not None)
        if due.committed:
            tasks.spawn(self._fetch_committed(due.committed, tasks))
        if due.resets:
            tasks.spawn(self._reset(due.resets, tasks))
        by_leader: dict[NodeId, dict[TopicPartition, Validation]] = {}
        for partition, validation in due.validations.items():
            by_leader.setdefault(NodeId(validation.position.leader), {})[partition] = validation
        for node, validations in by_leader.items():
            tasks.spawn(self._validate(node, validations, tasks))
        if due.unknown:
            self._watch.request(due.unknown)
        self._positions.raise_pending()  # last: what is due counts as being asked from here on

    async def _fetch_committed(self, asked: dict[TopicPartition, PartitionState], tasks: Tasks) -> None:
        assert self._committed is not None
        try:
            found = await self._committed(tuple(asked))
        except KohortError as error:
            self._positions.failed(asked, error, tasks.now())
        else:
            self._positions.committed_found(asked, found)

    async def _reset(self, asked: dict[TopicPartition, PositionReset], tasks: Tasks) -> None:
        wanted = {partition: reset.to for partition, reset in asked.items()}
        try:
            found = await list_offsets(self._cluster, wanted, read_committed=self._settings.read_committed)
        except KohortError as error:
            self._failed({each: reset.state for each, reset in asked.items()}, error, tasks)
            return
        for partition, reset in asked.items():
            listed = found[partition]
            if isinstance(listed, BrokerError):
                self._failed({partition: reset.state}, listed, tasks)
            else:
                self._positions.reset_found(partition, reset, listed.offset)

    async def _validate(self, node: NodeId, asked: dict[TopicPartition, Validation], tasks: Tasks) -> None:
        try:
            connection = await self._cluster.connection(node)
            if connection.version_of(ApiKey.OFFSET_FOR_LEADER_EPOCH) < _FIRST_FOR_CONSUMERS:
                self._accept(asked)
                return
            response = await connection.send(_request(asked), OffsetForLeaderEpochResponse)
        except ApiNotServedError:
            self._accept(asked)
            return
        except KohortError as error:
            self._failed({each: one.state for each, one in asked.items()}, error, tasks)
            return
        for topic in response.topics:
            for row in topic.partitions:
                partition = TopicPartition(TopicName(topic.topic), Partition(row.partition))
                validation = asked.pop(partition, None)
                if validation is None:
                    continue
                if row.error_code:
                    refused = BrokerError(row.error_code, f"validate the position of {partition}")
                    self._failed({partition: validation.state}, refused, tasks)
                else:
                    self._positions.validated(partition, validation, row.leader_epoch, row.end_offset)
        if asked:
            silent = BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH, "validate positions", "no answer")
            self._failed({each: one.state for each, one in asked.items()}, silent, tasks)

    def _accept(self, asked: Mapping[TopicPartition, Validation]) -> None:
        for partition, validation in asked.items():
            self._positions.accepted(partition, validation)

    def _failed(
        self, asked: Mapping[TopicPartition, PartitionState], error: KohortError, tasks: Tasks
    ) -> None:
        """Ask again later, with newer metadata; a topic that is missing may yet come."""
        if isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            error.retriable = True
        self._positions.failed(asked, error, tasks.now())
        self._watch.request()


def _request(asked: Mapping[TopicPartition, Validation]) -> OffsetForLeaderEpochRequest:
    topics = [
        OffsetForLeaderTopic(
            topic=name,
            partitions=[
                OffsetForLeaderPartition(
                    partition=number,
                    current_leader_epoch=position.leader_epoch,
                    leader_epoch=position.offset_epoch,
                )
                for number in numbers
                for position in [asked[TopicPartition(name, number)].position]
            ],
        )
        for name, numbers in by_topic(asked).items()
    ]
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=topics)
