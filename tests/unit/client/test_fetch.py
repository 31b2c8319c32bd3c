"""Reading records without a group."""

import pytest
from tests.unit.client.scripted import Answer, Hangup, ScriptedCluster, in_turn, on_loop

from kohort.client.admin.topics import OffsetSpec
from kohort.client.cluster import Cluster
from kohort.client.errors import BrokerError, UnknownTopicError
from kohort.client.fetch import Fetched, Progress, StartAt, plan, read
from kohort.codec.schema import Versions
from kohort.model.errors import ErrorCode
from kohort.model.ids import Offset, Partition
from kohort.records.batch import BatchFields, CorruptBatchError, NewRecord, build_batch
from kohort.wire.apis import ApiKey
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)


class Logs:
    """What the partitions of topic ``t`` hold: batches, first offset, end; record n has timestamp 10 n."""

    def __init__(self, brokers: ScriptedCluster) -> None:
        self.batches: dict[int, list[bytes]] = {}
        self.start: dict[int, int] = {}
        self.end: dict[int, int] = {}
        brokers.on(FetchRequest, self.fetch)
        brokers.on(ListOffsetsRequest, self.list_offsets)

    def append(self, number: int, *values: str, codec: int = 0, control: bool = False) -> None:
        end = self.end.get(number, 0)
        records = [NewRecord(10 * (end + at), None, value.encode()) for at, value in enumerate(values)]
        fields = BatchFields(base_offset=end, control=control, transactional=control)
        self.batches.setdefault(number, []).append(build_batch(records, fields))
        self.end[number] = end + len(values)

    def fetch(self, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        answered = [
            PartitionData(
                partition_index=one.partition,
                high_watermark=self.end.get(one.partition, 0),
                records=self._from(one.partition, one.fetch_offset),
            )
            for one in topic.partitions
        ]
        name = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answered)
        return FetchResponse(responses=[name])

    def _from(self, number: int, offset: int) -> bytes:
        found = b""
        end = 0
        for batch in self.batches.get(number, []):
            end += int.from_bytes(batch[57:61], "big")
            if end > offset:
                found += batch
        return found

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        (topic,) = request.topics
        answered = [
            ListOffsetsPartitionResponse(
                partition_index=one.partition_index, offset=self._find(one.partition_index, one.timestamp)
            )
            for one in topic.partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=answered)])

    def _find(self, number: int, timestamp: int) -> int:
        end = self.end.get(number, 0)
        if timestamp == OffsetSpec.LATEST:
            return end
        if timestamp == OffsetSpec.EARLIEST:
            return self.start.get(number, 0)
        found = -(-timestamp // 10)
        return found if found < end else -1


async def values_of(cluster: Cluster, progress: Progress, *, follow: bool = False) -> list[str]:
    found: list[str] = []
    async for records in read(cluster, "t", progress, follow=follow):
        found += [
            f"{one.partition}:{one.record.offset}:{(one.record.value or b'').decode()}" for one in records
        ]
    return found


def positions(**offsets: int) -> dict[Partition, Offset]:
    return {Partition(int(name[1:])): Offset(offset) for name, offset in offsets.items()}


@on_loop
async def test_reading_ends_where_the_partitions_ended_when_it_was_planned() -> None:
    brokers = ScriptedCluster(nodes=2, topics={"t": [1, 2]})
    logs = Logs(brokers)
    logs.append(0, "a", "b")
    logs.append(1, "c")
    async with brokers.client() as cluster:
        progress = await plan(cluster, "t", None, StartAt())
        logs.append(0, "later")
        assert await values_of(cluster, progress) == ["0:0:a", "0:1:b", "1:0:c"]
    assert {one.node_id for one in brokers.asked(FetchRequest)} == {1, 2}


@on_loop
async def test_an_empty_topic_is_read_without_a_single_fetch() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    Logs(brokers)
    async with brokers.client() as cluster:
        assert await values_of(cluster, await plan(cluster, "t", None, StartAt())) == []
    assert not brokers.asked(FetchRequest)


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (StartAt(), 2),
        (StartAt(OffsetSpec.LATEST), 8),
        (StartAt(OffsetSpec.LATEST, -3), 5),
        (StartAt(OffsetSpec.LATEST, -300), 2),
        (StartAt(None, 4), 4),
        (StartAt(None, 0), 2),
        (StartAt(None, 100), 8),
        (StartAt(45), 5),
        (StartAt(1_000_000), 8),
    ],
)
@on_loop
async def test_a_start_is_a_place_a_time_or_an_offset_and_at_least_near(start: StartAt, first: int) -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    logs = Logs(brokers)
    logs.append(0, *"abcdefgh")
    logs.start[0] = 2
    async with brokers.client() as cluster:
        assert (await plan(cluster, "t", None, start)).positions == {0: first}


@on_loop
async def test_records_before_the_start_are_left_out_though_their_batch_is_sent() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    Logs(brokers).append(0, "a", "b", "c")
    async with brokers.client() as cluster:
        progress = Progress(positions(p0=2), positions(p0=3))
        assert await values_of(cluster, progress) == ["0:2:c"]


@on_loop
async def test_control_records_are_passed_over_but_move_the_position() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    logs = Logs(brokers)
    logs.append(0, "a")
    logs.append(0, "marker", control=True)
    async with brokers.client() as cluster:
        progress = await plan(cluster, "t", [0], StartAt())
        assert await values_of(cluster, progress) == ["0:0:a"]
        assert progress.positions == {0: 2}


@on_loop
async def test_following_goes_on_with_what_comes_later() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    logs = Logs(brokers)
    logs.append(0, "a")
    seen: list[Fetched] = []
    async with brokers.client() as cluster:
        progress = await plan(cluster, "t", None, StartAt(OffsetSpec.LATEST))
        logs.append(0, "b")
        async for records in read(cluster, "t", progress, follow=True):
            seen += records
            if len(seen) == 2:
                break
            logs.append(0, "c")
    assert [one.record.value for one in seen] == [b"b", b"c"]


@on_loop
async def test_a_cut_last_batch_is_read_when_it_comes_whole() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    logs = Logs(brokers)
    logs.append(0, "a")
    logs.append(0, "b")

    def cut(request: FetchRequest) -> Answer:
        answer = logs.fetch(request)
        partition = answer.responses[0].partitions[0]
        assert isinstance(partition.records, bytes)
        partition.records = partition.records[:-10]
        return answer

    brokers.on(FetchRequest, in_turn(cut, logs.fetch))
    async with brokers.client() as cluster:
        assert await values_of(cluster, await plan(cluster, "t", None, StartAt())) == ["0:0:a", "0:1:b"]


@on_loop
async def test_damaged_bytes_are_not_shown_as_records() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    logs = Logs(brokers)
    logs.append(0, "a")
    logs.batches[0][0] = logs.batches[0][0][:-2] + b"!!"
    async with brokers.client() as cluster:
        with pytest.raises(CorruptBatchError, match="checksum"):
            await values_of(cluster, Progress(positions(p0=0), positions(p0=1)))


@on_loop
async def test_a_lost_connection_is_survived() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    logs = Logs(brokers)
    logs.append(0, "a")
    brokers.on(FetchRequest, in_turn(Hangup(), logs.fetch))
    async with brokers.client() as cluster:
        assert await values_of(cluster, await plan(cluster, "t", None, StartAt())) == ["0:0:a"]


@on_loop
async def test_an_offset_that_is_gone_is_an_error() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    gone = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    topic = FetchableTopicResponse(topic="t", partitions=[gone])
    brokers.on(FetchRequest, lambda _: FetchResponse(responses=[topic]))
    async with brokers.client() as cluster:
        with pytest.raises(BrokerError, match="read t-0 from offset 3: OFFSET_OUT_OF_RANGE"):
            await values_of(cluster, Progress(positions(p0=3), positions(p0=9)))


@on_loop
async def test_partitions_and_topics_that_do_not_exist_are_named() -> None:
    brokers = ScriptedCluster(topics={"t": [1, 1]})
    Logs(brokers)
    async with brokers.client() as cluster:
        with pytest.raises(UnknownTopicError, match="no partition 2: it has the partitions 0 to 1"):
            await plan(cluster, "t", [0, 2], StartAt())
        with pytest.raises(UnknownTopicError, match="'u'"):
            await plan(cluster, "u", None, StartAt())


@on_loop
async def test_offsets_that_may_not_be_listed_are_an_error() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    denied = ListOffsetsPartitionResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = ListOffsetsTopicResponse(name="t", partitions=[denied])
    brokers.on(ListOffsetsRequest, lambda _: ListOffsetsResponse(topics=[topic]))
    async with brokers.client() as cluster:
        with pytest.raises(BrokerError, match="list the offsets of t-0: TOPIC_AUTHORIZATION_FAILED"):
            await plan(cluster, "t", None, StartAt())


@on_loop
async def test_a_topic_without_an_id_is_fetched_by_name() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    Logs(brokers).append(0, "a")
    brokers.peers[1].served[ApiKey.METADATA] = Versions(0, 9)
    async with brokers.client() as cluster:
        assert await values_of(cluster, await plan(cluster, "t", None, StartAt())) == ["0:0:a"]
    assert brokers.asked(FetchRequest)[0].header.api_version == 12
