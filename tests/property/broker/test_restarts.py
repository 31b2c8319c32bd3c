"""Whatever clients do and however often the broker is started again: the same cluster, the same data."""

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.broker.asking import (
    TOPIC,
    alter,
    batch,
    create,
    fetch_request,
    metadata,
    offset_at,
    part,
    produce,
    records_of,
)
from tests.broker.grouping import commit_request, find
from tests.broker.raw import Raw
from tests.rounds import ROUNDS

from kohort.testing.broker import Broker
from kohort.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

pytestmark = pytest.mark.slow

NAMES = st.sampled_from(["a", "b", "c"])
CONFIGS = {"offsets.topic.num.partitions": 2}


@dataclass
class Expected:
    """What a topic must be."""

    topic_id: bytes
    partitions: int
    values: list[str] = field(default_factory=list)  # of partition 0, deleted ones too
    start: int = 0
    retention: str | None = None
    committed: int = -1


class Restarts(RuleBasedStateMachine):
    """A broker on a disk, beside a model of what it must remember."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[str, Expected] = {}
        self.epochs: dict[bytes, int] = {}
        self.producer_ids: set[int] = set()
        self.gone: set[bytes] = set()
        self.stack = ExitStack()
        self.running = ExitStack()
        self.data = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))

    @initialize()
    def begin(self) -> None:
        self.start()
        find(self.raw)
        self.cluster_id = metadata(self.raw).cluster_id

    def start(self) -> None:
        broker = self.running.enter_context(Broker(data=self.data, configs=CONFIGS, virtual_time=True))

        async def ready() -> None:
            await broker.server.broker.coordinator.ready()

        broker.run(ready())
        self.raw = self.running.enter_context(Raw(broker.bootstrap))

    def teardown(self) -> None:
        self.running.close()
        self.stack.close()

    # What happens

    @rule()
    def restart(self) -> None:
        self.running.close()
        self.start()

    @rule(name=NAMES, partitions=st.integers(1, 3))
    def make(self, name: str, partitions: int) -> None:
        if name not in self.topics:
            topic_id = create(self.raw, name, partitions)
            assert topic_id not in self.gone
            self.topics[name] = Expected(topic_id, partitions)

    @precondition(lambda self: self.topics)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.topics)))
        reply = self.raw.send(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)]), 6)
        assert reply.responses[0].error_code == 0
        self.gone.add(self.topics.pop(name).topic_id)

    @precondition(lambda self: self.topics)
    @rule(data=st.data(), more=st.integers(1, 2))
    def grow(self, data: st.DataObject, more: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.topics)))
        self.topics[name].partitions += more
        wanted = CreatePartitionsTopic(name=name, count=self.topics[name].partitions, assignments=None)
        assert self.raw.send(CreatePartitionsRequest(topics=[wanted]), 3).results[0].error_code == 0

    @precondition(lambda self: self.topics)
    @rule(data=st.data(), count=st.integers(1, 3))
    def write(self, data: st.DataObject, count: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.topics)))
        known = self.topics[name]
        fresh = [f"{name}{len(known.values) + number}" for number in range(count)]
        assert produce(self.raw, name, batch(*fresh)).base_offset == len(known.values)
        known.values += fresh

    @precondition(lambda self: self.topics)
    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.topics)))
        known = self.topics[name]
        known.start = data.draw(st.integers(known.start, len(known.values)))
        wanted = DeleteRecordsPartition(partition_index=0, offset=known.start)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[wanted])])
        assert self.raw.send(request, 2).topics[0].partitions[0].low_watermark == known.start

    @precondition(lambda self: self.topics)
    @rule(data=st.data(), value=st.integers(1, 9))
    def configure(self, data: st.DataObject, value: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.topics)))
        alter(self.raw, TOPIC, name, retention_ms=f"{value}00000000")
        self.topics[name].retention = f"{value}00000000"

    @precondition(lambda self: self.topics)
    @rule(data=st.data(), offset=st.integers(0, 100))
    def commit(self, data: st.DataObject, offset: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.topics)))
        reply = self.raw.send(commit_request((0, offset), topic=name), 8)
        assert reply.topics[0].partitions[0].error_code == 0
        self.topics[name].committed = offset

    @rule()
    def number_a_producer(self) -> None:
        producer_id = self.raw.send(InitProducerIdRequest(transactional_id=None), 4).producer_id
        assert producer_id not in self.producer_ids
        self.producer_ids.add(producer_id)

    # What must be true

    @invariant()
    def the_cluster_and_its_topics_are_the_same(self) -> None:
        reply = self.raw.send(MetadataRequest(topics=None), 13)
        assert reply.cluster_id == self.cluster_id
        found = {topic.name: topic for topic in reply.topics if not topic.name.startswith("__")}
        assert set(found) == set(self.topics)
        for name, known in self.topics.items():
            topic = found[name]
            assert (topic.topic_id, len(topic.partitions)) == (known.topic_id, known.partitions)
            epochs = {partition.leader_epoch for partition in topic.partitions}
            assert min(epochs) >= self.epochs.get(known.topic_id, 0)
            self.epochs[known.topic_id] = max(epochs)

    @invariant()
    def records_and_offsets_are_the_same(self) -> None:
        for name, known in self.topics.items():
            assert offset_at(self.raw, name, -2).offset == known.start
            assert offset_at(self.raw, name, -1).offset == len(known.values)
            request = fetch_request({name: [part(offset=known.start)]})
            result = self.raw.send(request, 12).responses[0].partitions[0]
            found = {record.offset: (record.value or b"").decode() for record in records_of(result.records)}
            kept = range(known.start, len(known.values))
            assert {offset: found.get(offset) for offset in kept} == {
                offset: known.values[offset] for offset in kept
            }

    @invariant()
    def configs_and_commits_are_the_same(self) -> None:
        for name, known in self.topics.items():
            resource = DescribeConfigsResource(
                resource_type=TOPIC, resource_name=name, configuration_keys=["retention.ms"]
            )
            (result,) = self.raw.send(DescribeConfigsRequest(resources=[resource]), 4).results
            (config,) = result.configs
            assert (config.value if config.config_source == 1 else None) == known.retention
            asked = OffsetFetchRequestTopics(name=name, partition_indexes=[0])
            group = OffsetFetchRequestGroup(group_id="g", topics=[asked])
            (answered,) = self.raw.send(OffsetFetchRequest(groups=[group]), 8).groups
            assert answered.topics[0].partitions[0].committed_offset == known.committed


TestRestarts = Restarts.TestCase
TestRestarts.settings = settings(
    max_examples=20 * ROUNDS,
    stateful_step_count=20,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
