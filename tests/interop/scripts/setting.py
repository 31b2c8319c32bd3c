"""What scripts set up before they ask: topics, batches, groups that are ready.

A real broker makes topics and loads groups a moment after it said so; the functions here ask again, for a
bounded time, until it has caught up, so that the steps of a script see a settled broker.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from tests.interop.scripts.exchange import Exchange
from tools.peers import probe

from kohort.model.errors import ErrorCode
from kohort.records.batch import BatchFields, build_batch
from kohort.records.record import NewRecord
from kohort.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ADMIN: Final = "admin"
SETTLE_SECONDS: Final = 60.0
T0: Final = 1_700_000_000_000
PLAIN: Final = BatchFields()


def settle(what: str, done: Callable[[], bool]) -> None:
    """Ask until ``done``; AssertionError when it never is."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not done():
        assert time.monotonic() < deadline, f"{what}: not settled in {SETTLE_SECONDS:.0f} s"
        probe.pause()


def make_topic(x: Exchange, name: str, partitions: int = 1, **configs: str) -> bytes:
    """A new topic whose partitions answer; configs are spelled with ``_`` for ``.``. Returns its id."""
    entries = [
        CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
    ]
    wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=entries)
    made = x.ask(CreateTopicsRequest(topics=[wanted]), 7, on=ADMIN).topics[0]
    assert made.error_code == ErrorCode.NONE, f"{name}: {made}"
    wait_for_topic(x, name, partitions)
    topic_id: bytes = made.topic_id
    return topic_id


def wait_for_topic(x: Exchange, name: str, partitions: int) -> None:
    """Until every partition of a topic can be asked for its end."""
    asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=asked)])

    def answers() -> bool:
        found = x.ask(request, 5, on=ADMIN).topics[0].partitions
        return all(each.error_code == ErrorCode.NONE for each in found)

    settle(f"topic {name}", answers)


def wait_for_leader(x: Exchange, name: str) -> None:
    """Until every partition of a topic has a leader, on this node or another."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)

    def is_led() -> bool:
        topic = x.ask(request, 9, on=ADMIN).topics[0]
        codes = [topic.error_code, *(each.error_code for each in topic.partitions)]
        return all(code == ErrorCode.NONE for code in codes)

    settle(f"topic {name}", is_led)


def wait_until_gone(x: Exchange, name: str) -> None:
    """Until Metadata no longer knows a topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    settle(f"deletion of {name}", lambda: x.ask(request, 9, on=ADMIN).topics[0].error_code != ErrorCode.NONE)


def wait_for_config(x: Exchange, topic: str, name: str, value: str) -> None:
    """Until a topic's config has this value."""
    resource = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=[name])

    def has_value() -> bool:
        found: Any = x.ask(DescribeConfigsRequest(resources=[resource]), 4, on=ADMIN).results[0].configs
        return bool(found) and found[0].value == value

    settle(f"{topic}: {name}={value}", has_value)


def wait_until_listed(x: Exchange, group: str) -> None:
    """Until others see a group: Kafka hands out a member id before that."""

    def is_listed() -> bool:
        return any(each.group_id == group for each in x.ask(ListGroupsRequest(), 4, on=ADMIN).groups)

    settle(f"{group} is listed", is_listed)


def ready_group(x: Exchange, group: str) -> str:
    """Until the coordinator of a group exists and has loaded; returns the group's id."""
    find = FindCoordinatorRequest(coordinator_keys=[group], key_type=0)
    settle(
        f"coordinator of {group}",
        lambda: x.ask(find, 4, on=ADMIN).coordinators[0].error_code == ErrorCode.NONE,
    )
    describe = DescribeGroupsRequest(groups=[group])
    settle(f"group {group}", lambda: x.ask(describe, 5, on=ADMIN).groups[0].error_code == ErrorCode.NONE)
    return group


def records(*values: str | None, key: str | None = "k", at: int = T0) -> list[NewRecord]:
    """Records with these values, a millisecond apart."""
    return [
        NewRecord(
            at + i, None if key is None else key.encode(), None if value is None else value.encode(), ()
        )
        for i, value in enumerate(values)
    ]


def batch(*values: str | None, key: str | None = "k", at: int = T0, fields: BatchFields = PLAIN) -> bytes:
    """A batch of records with these values."""
    return build_batch(records(*values, key=key, at=at), fields)


def produce_request(
    topic: str | bytes, blob: bytes | None, *, partition: int = 0, acks: int = -1
) -> ProduceRequest:
    """One blob to one partition of a topic, given by name or by id."""
    where = TopicProduceData(partition_data=[PartitionProduceData(index=partition, records=blob)])
    if isinstance(topic, bytes):
        where.topic_id = topic
    else:
        where.name = topic
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[where])


def append(x: Exchange, topic: str, blob: bytes, partition: int = 0) -> int:
    """Produce a batch and return its base offset; it must be accepted."""
    response = x.ask(produce_request(topic, blob, partition=partition), 9, on=ADMIN)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NONE, f"{topic}-{partition}: {answer}"
    base: int = answer.base_offset
    return base


def new_producer(x: Exchange) -> int:
    """A fresh producer id; a broker that has just started may have none yet."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    settle("producer ids", lambda: x.ask(request, 4, on=ADMIN).error_code == ErrorCode.NONE)
    producer: int = x.ask(request, 4, on=ADMIN).producer_id
    return producer
