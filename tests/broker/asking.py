"""Requests and batches in few words, for the tests of this folder."""

import time
from collections.abc import Callable, Mapping, Sequence

from tests.broker.raw import DEADLINE_S, Raw, Reply

from kohort.records.batch import BatchFields, NewRecord, build_batch, read_records
from kohort.records.batch import Record as StoredRecord
from kohort.records.header import batches
from kohort.testing.broker import Broker
from kohort.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

T0 = 1_700_000_000_000  # where the virtual clock of a broker starts
TOPIC, BROKER = 2, 4  # types of config resources
LARGE = 1 << 20
PLAIN = BatchFields()


def batch(*values: str, key: str | None = "k", at: int = T0, fields: BatchFields = PLAIN) -> bytes:
    """A batch with one record for each value, all at one time."""
    raw_key = None if key is None else key.encode()
    return build_batch([NewRecord(at, raw_key, value.encode()) for value in values], fields)


# Topics


def create(raw: Raw, name: str, partitions: int = 1, **configs: object) -> bytes:
    """Make a topic (configs with underscores for dots) and return its id."""
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=str(value))
            for key, value in configs.items()
        ],
    )
    (result,) = raw.send(CreateTopicsRequest(topics=[wanted]), 7).topics
    assert result.error_code == 0, result
    topic_id: bytes = result.topic_id
    return topic_id


def metadata_request(*names: str, create: bool = False) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def metadata(raw: Raw, *names: str, version: int = 13, create: bool = False) -> Reply:
    return raw.send(metadata_request(*names, create=create), version)


# Configs


def alter(raw: Raw, kind: int, name: str, **configs: object) -> None:
    """Set configs (underscores for dots) of a topic or broker; they must be accepted."""
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(name=key.replace("_", "."), config_operation=0, value=str(value))
            for key, value in configs.items()
        ],
    )
    (result,) = raw.send(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert result.error_code == 0, result


# Records


def produce_request(
    topic: str | bytes, *blobs: bytes | None, acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    """One blob for each partition, from 0 on."""
    parts = [PartitionProduceData(index=index, records=blob) for index, blob in enumerate(blobs)]
    where = TopicProduceData(partition_data=parts)
    if isinstance(topic, bytes):
        where.topic_id = topic
    else:
        where.name = topic
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1_000, topic_data=[where])


def produce(raw: Raw, topic: str | bytes, *blobs: bytes | None, version: int = 12) -> Reply:
    """Append and return the first partition's result, whatever it is."""
    version = 13 if isinstance(topic, bytes) else version
    reply = raw.send(produce_request(topic, *blobs), version)
    return reply.responses[0].partition_responses[0]


def append(raw: Raw, topic: str, *blobs: bytes) -> int:
    """Append to partition 0, blob after blob; returns the first offset of the last."""
    offset = -1
    for blob in blobs:
        result = produce(raw, topic, blob)
        assert result.error_code == 0, result
        offset = result.base_offset
    return offset


def part(index: int = 0, offset: int = 0, limit: int = LARGE, epoch: int = -1) -> FetchPartition:
    """One partition to read from an offset."""
    return FetchPartition(
        partition=index, fetch_offset=offset, partition_max_bytes=limit, current_leader_epoch=epoch
    )


def fetch_request(
    topics: Mapping[str | bytes, Sequence[FetchPartition]],
    *,
    wait: int = 0,
    min_bytes: int = 1,
    max_bytes: int = LARGE,
    isolation: int = 0,
    session: tuple[int, int] = (0, -1),
) -> FetchRequest:
    wanted = [
        FetchTopic(topic_id=topic, partitions=list(parts))
        if isinstance(topic, bytes)
        else FetchTopic(topic=topic, partitions=list(parts))
        for topic, parts in topics.items()
    ]
    return FetchRequest(
        max_wait_ms=wait,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=wanted,
    )


def fetch(
    raw: Raw, topic: str | bytes, *parts: FetchPartition, version: int | None = None, max_bytes: int = LARGE
) -> Reply:
    """Read without waiting; returns the first partition's result."""
    version = version or (18 if isinstance(topic, bytes) else 12)
    request = fetch_request({topic: parts or (part(),)}, max_bytes=max_bytes)
    return raw.send(request, version).responses[0].partitions[0]


def records_of(blob: bytes | memoryview) -> list[StoredRecord]:
    """Every record of some batches."""
    content = bytes(blob)
    found: list[StoredRecord] = []
    for position, header in batches(content):
        found += read_records(content[position : position + header.size])
    return found


def stored(raw: Raw, topic: str, offset: int = 0) -> list[StoredRecord]:
    """Every record of partition 0 from an offset on; one fetch reads one segment."""
    found: list[StoredRecord] = []
    while True:
        result = fetch(raw, topic, part(offset=offset))
        assert result.error_code == 0, result
        records = records_of(result.records)
        if not records:
            return found
        found += [record for record in records if record.offset >= offset]
        offset = records[-1].offset + 1


def values(raw: Raw, topic: str, offset: int = 0) -> list[str]:
    """The same, only their values."""
    return [(record.value or b"").decode() for record in stored(raw, topic, offset)]


def offset_at(raw: Raw, topic: str, timestamp: int, *, version: int = 11, isolation: int = 0) -> Reply:
    """ListOffsets for partition 0."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
    )
    return raw.send(request, version).topics[0].partitions[0]


def eventually(is_true: Callable[[], bool]) -> None:
    """Ask again until it is true: for what a broker does in the background. Gives up in the end."""
    give_up_at = time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < give_up_at, "it did not become true"


def let_idle_time_pass(broker: Broker) -> None:
    """As if nobody had sent anything for longer than a connection may be idle; those are closed then."""

    async def pass_by() -> None:
        server = broker.server
        for connection in server._connections:
            connection.last_active -= server._max_idle_s + 1
        server._close_idle()

    broker.run(pass_by())


def waiting_fetches(broker: Broker) -> int:
    """How many Fetches are in their long poll; asked on the broker's own loop."""

    async def count() -> int:
        return len(broker.server.broker.fetch_waiters)

    return broker.run(count())
