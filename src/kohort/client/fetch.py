"""Read records of a topic from given offsets on, without a group: what the command line needs."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kohort.client.admin.topics import OffsetSpec, list_offsets
from kohort.client.cluster import Cluster
from kohort.client.errors import BrokerError, UnknownTopicError, check
from kohort.client.metadata import TopicInfo
from kohort.client.pool import Purpose
from kohort.model.ids import NO_TOPIC_ID, NodeId, Offset, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.records.batch import Record, batches, check_crc, read_records
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

_BY_NAME = 12  # Fetch 13 names topics by id only


class StartAt(NamedTuple):
    """Where to begin in a partition: at a named place or time (``spec``), then ``skip`` offsets further on.

    An absolute offset has no spec. A negative ``skip`` goes back, as in "the last ten".
    """

    spec: int | None = OffsetSpec.EARLIEST
    skip: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How much is asked for at once, and how long a broker may wait for more."""

    max_wait_ms: int = 500
    max_bytes: int = 50 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024


class Fetched(NamedTuple):
    """One record and the partition it came from."""

    partition: Partition
    record: Record


class Progress(NamedTuple):
    """The partitions of a reading: where it starts, and where each of them ended when it was planned."""

    positions: dict[Partition, Offset]
    ends: dict[Partition, Offset]


async def plan(cluster: Cluster, topic: str, partitions: Collection[int] | None, start: StartAt) -> Progress:
    """Turn a wish into offsets, for all partitions if none are named; raises UnknownTopicError."""
    info = (await cluster.retry(lambda: cluster.topics([topic]))).topic(topic)
    chosen = [TopicPartition(info.name, number) for number in _choose(info, partitions)]
    earliest = await _offsets(cluster, chosen, OffsetSpec.EARLIEST)
    ends = await _offsets(cluster, chosen, OffsetSpec.LATEST)
    origin: Mapping[Partition, Offset]
    match start.spec:
        case None:
            origin = dict.fromkeys(ends, Offset(0))
        case OffsetSpec.EARLIEST:
            origin = earliest
        case OffsetSpec.LATEST:
            origin = ends
        case timestamp:
            found = await _offsets(cluster, chosen, timestamp)
            origin = {number: offset if offset >= 0 else ends[number] for number, offset in found.items()}
    # Offsets that are gone, or not there yet, are read as the nearest there is.
    positions = {
        number: Offset(min(max(origin[number] + start.skip, earliest[number]), end))
        for number, end in ends.items()
    }
    return Progress(positions, ends)


def _choose(info: TopicInfo, partitions: Collection[int] | None) -> list[Partition]:
    there = [one.partition for one in info.partitions]
    if partitions is None:
        return there
    for number in partitions:
        if number not in there:
            raise UnknownTopicError(
                info.name, f"no partition {number}: it has the partitions 0 to {len(there) - 1}"
            )
    return [Partition(number) for number in partitions]


async def _offsets(
    cluster: Cluster, partitions: Collection[TopicPartition], spec: int
) -> dict[Partition, Offset]:
    found = await list_offsets(cluster, dict.fromkeys(partitions, spec))
    offsets: dict[Partition, Offset] = {}
    for partition in partitions:
        listed = found[partition]
        if isinstance(listed, BrokerError):
            raise listed
        offsets[partition.partition] = listed.offset
    return offsets


async def read(
    cluster: Cluster, topic: str, progress: Progress, *, follow: bool, options: ReadOptions | None = None
) -> AsyncIterator[list[Fetched]]:
    """Rounds of records, oldest first within a partition; ends where the plan did, or never (``follow``).

    ``progress.positions`` moves with what is yielded.
    """
    reader = _Reader(cluster, TopicName(topic), options or ReadOptions())
    positions, ends = progress
    while True:
        asked = {number for number in positions if follow or positions[number] < ends[number]}
        if not asked:
            return
        found = await cluster.retry(partial(reader.fetch_round, {one: positions[one] for one in asked}))
        positions.update((number, position) for number, (_, position) in found.items())
        together = [
            one
            for number in sorted(found)
            for one in found[number][0]
            if follow or one.record.offset < ends[number]
        ]
        if together:
            yield together


class _Reader:
    """Fetches without a session: few partitions, and every request says all there is to say."""

    def __init__(self, cluster: Cluster, topic: TopicName, options: ReadOptions) -> None:
        self._cluster = cluster
        self._topic = topic
        self._options = options

    async def fetch_round(
        self, positions: Mapping[Partition, Offset]
    ) -> dict[Partition, tuple[list[Fetched], Offset]]:
        """What each partition has from its position on, and the position after it. One attempt."""
        metadata = await self._cluster.topics([self._topic])
        wanted = [TopicPartition(self._topic, number) for number in positions]
        led = metadata.by_leader(wanted)
        replies = await asyncio.gather(
            *(
                self._fetch(node, {number: positions[number] for _, number in partitions})
                for node, partitions in led.items()
            )
        )
        return {number: records for reply in replies for number, records in reply.items()}

    async def _fetch(
        self, node: NodeId, positions: Mapping[Partition, Offset]
    ) -> dict[Partition, tuple[list[Fetched], Offset]]:
        info = self._cluster.metadata.topic(self._topic)
        connection = await self._cluster.connection(node, Purpose.FETCH)
        reply = await connection.send(
            self._request(info, positions),
            FetchResponse,
            highest=_BY_NAME if info.topic_id == NO_TOPIC_ID else None,
            timeout_ms=self._cluster.options.request_timeout_ms + self._options.max_wait_ms,
        )
        check(reply.error_code, f"fetch {self._topic}")
        return {
            number: self._records(one, positions[number])
            for topic in reply.responses
            for one in topic.partitions
            for number in [Partition(one.partition_index)]
        }

    def _request(self, info: TopicInfo, positions: Mapping[Partition, Offset]) -> FetchRequest:
        partitions = [
            FetchPartition(
                partition=number,
                fetch_offset=offset,
                partition_max_bytes=self._options.partition_max_bytes,
            )
            for number, offset in positions.items()
        ]
        return FetchRequest(
            max_wait_ms=self._options.max_wait_ms,
            min_bytes=1,
            max_bytes=self._options.max_bytes,
            topics=[FetchTopic(topic=self._topic, topic_id=info.topic_id, partitions=partitions)],
        )

    def _records(self, answered: PartitionData, position: Offset) -> tuple[list[Fetched], Offset]:
        number = Partition(answered.partition_index)
        check(answered.error_code, f"read {self._topic}-{number} from offset {position}")
        blob = answered.records if isinstance(answered.records, bytes | memoryview) else b""
        records: list[Fetched] = []
        for at, header in batches(blob):
            check_crc(blob, at, header)
            if not header.is_control:
                records += (
                    Fetched(number, record)
                    for record in read_records(blob, at, header)
                    if record.offset >= position
                )
            position = max(position, Offset(header.next_offset))
        return records, position
