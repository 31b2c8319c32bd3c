"""Administrators who all change the same topics at once: each is answered, and the broker stays whole."""

import logging
import tempfile
from contextlib import ExitStack
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.broker.asking import TOPIC, batch, metadata_request, produce_request
from tests.broker.grouping import commit_request, find
from tests.broker.raw import Raw, Reply
from tests.rounds import ROUNDS

from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.wire.messages.metadata import MetadataRequest

pytestmark = pytest.mark.slow

ADMINS, REQUESTS = 5, 12
NAMES = ("a", "b", "a.b", "a_b")  # the last two collide
CONFIGS = {"offsets.topic.num.partitions": 2}


def any_request(random: Random) -> tuple[Message, int]:
    """Something about one of the topics, and the version to say it in."""
    name = random.choice(NAMES)
    match random.randrange(8):
        case 0 | 1:
            topic = CreatableTopic(name=name, num_partitions=random.randint(1, 3), replication_factor=1)
            return CreateTopicsRequest(topics=[topic]), 7
        case 2:
            return DeleteTopicsRequest(topics=[DeleteTopicState(name=name)]), 6
        case 3:
            grown = CreatePartitionsTopic(name=name, count=random.randint(2, 5), assignments=None)
            return CreatePartitionsRequest(topics=[grown]), 3
        case 4:
            config = AlterableConfig(name="retention.ms", config_operation=0, value=str(random.randint(1, 9)))
            resource = AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[config])
            return IncrementalAlterConfigsRequest(resources=[resource]), 1
        case 5:
            return produce_request(name, batch("x")), 12
        case 6:
            part = DeleteRecordsPartition(partition_index=0, offset=-1)
            return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[part])]), 2
        case _:
            return random.choice(
                ((metadata_request(name, create=True), 13), (commit_request((0, 1), topic=name), 8))
            )


def codes_in(reply: Reply) -> set[int]:
    """Every error code anywhere in a reply."""
    found = {reply.error_code} if hasattr(reply, "error_code") else set()
    for field in reply.fields:
        value = getattr(reply, field.name)
        for item in value if isinstance(value, list) else []:
            if hasattr(item, "fields"):
                found |= codes_in(item)
    return found


def topics(raw: Raw) -> dict[str, tuple[bytes, int]]:
    found = raw.send(MetadataRequest(topics=None), 13).topics
    return {
        topic.name: (topic.topic_id, len(topic.partitions))
        for topic in found
        if not topic.name.startswith("__")
    }


def race(broker: Broker, random: Random) -> None:
    with ExitStack() as stack:
        admins = [stack.enter_context(Raw(broker.bootstrap)) for _ in range(ADMINS)]
        find(admins[0])
        for admin in admins:
            admin.send_bytes(b"".join(admin.frame(*any_request(random)) for _ in range(REQUESTS)))
        for admin in admins:
            for _ in range(REQUESTS):
                assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes_in(admin.take())
        known = topics(admins[0])
        assert not {"a.b", "a_b"} <= set(known)
        for name, (_, partitions) in known.items():
            results = admins[0].send(produce_request(name, *[batch("y")] * partitions), 12).responses[0]
            assert {result.error_code for result in results.partition_responses} == {0}


def test_racing_administrators_leave_a_broker_that_works_and_remembers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    @given(st.integers(0, 2**32))
    @settings(
        max_examples=15 * ROUNDS,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(seed: int) -> None:
        with tempfile.TemporaryDirectory() as data:
            with Broker(data=data, configs=CONFIGS, virtual_time=True) as broker:
                race(broker, Random(seed))
                with Raw(broker.bootstrap) as raw:
                    before = topics(raw)
            with (
                Broker(data=data, configs=CONFIGS, virtual_time=True) as broker,
                Raw(broker.bootstrap) as raw,
            ):
                assert topics(raw) == before

    check()
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
