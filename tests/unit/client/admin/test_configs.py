"""Configs through ``AsyncAdmin``."""

from tests.unit.client.scripted import ScriptedCluster, on_loop

from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import Config, Resource, ResourceType, Source
from kohort.model.errors import ErrorCode
from kohort.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kohort.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TOPIC = Resource(ResourceType.TOPIC, "t")
BROKER_2 = Resource(ResourceType.BROKER, "2")
ALL_BROKERS = Resource(ResourceType.BROKER, "")


def described(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    value = DescribeConfigsResourceResult(name="retention.ms", value="5", config_source=Source.TOPIC)
    secret = DescribeConfigsResourceResult(name="key", value=None, is_sensitive=True, config_source=77)
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                resource_type=one.resource_type, resource_name=one.resource_name, configs=[value, secret]
            )
            for one in request.resources
        ]
    )


def altered(request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                resource_type=one.resource_type,
                resource_name=one.resource_name,
                error_code=ErrorCode.INVALID_CONFIG if one.resource_name == "t" else 0,
                error_message="Unknown topic config name: x",
            )
            for one in request.resources
        ]
    )


@on_loop
async def test_configs_are_described_where_they_are_known() -> None:
    brokers = ScriptedCluster(nodes=2)
    brokers.on(DescribeConfigsRequest, described)
    async with AsyncAdmin(brokers.client()) as admin:
        found = await admin.describe_configs([TOPIC, BROKER_2, ALL_BROKERS])
    assert set(found) == {TOPIC, BROKER_2, ALL_BROKERS}
    configs = found[TOPIC]
    assert isinstance(configs, dict)
    retention = Config(name="retention.ms", value="5", source=Source.TOPIC, read_only=False, sensitive=False)
    assert configs["retention.ms"] == retention
    assert not retention.is_default
    assert (configs["key"].value, configs["key"].source) == (None, Source.UNKNOWN)
    asked = {
        one.node_id: len(one.request.resources)
        for one in brokers.asked(DescribeConfigsRequest)
        if isinstance(one.request, DescribeConfigsRequest)
    }
    assert asked == {1: 2, 2: 1}  # the configs of broker 2 only broker 2 knows


@on_loop
async def test_a_resource_that_is_not_there_has_its_own_error() -> None:
    brokers = ScriptedCluster()
    missing = DescribeConfigsResult(
        resource_type=2, resource_name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    brokers.on(DescribeConfigsRequest, lambda _: DescribeConfigsResponse(results=[missing]))
    async with AsyncAdmin(brokers.client()) as admin:
        found = await admin.describe_configs([TOPIC])
    assert "describe the configs of topic 't': UNKNOWN_TOPIC_OR_PARTITION" in str(found[TOPIC])


@on_loop
async def test_configs_are_set_and_removed_one_by_one() -> None:
    brokers = ScriptedCluster()
    brokers.on(IncrementalAlterConfigsRequest, altered)
    async with AsyncAdmin(brokers.client()) as admin:
        results = await admin.alter_configs(
            {TOPIC: {"retention.ms": "9", "segment.ms": None}, ALL_BROKERS: {"num.partitions": "3"}},
            validate_only=True,
        )
    assert results[ALL_BROKERS] is None
    assert "cannot alter the configs of topic 't': Unknown topic config name: x" in str(results[TOPIC])
    request = brokers.asked(IncrementalAlterConfigsRequest)[0].request
    assert isinstance(request, IncrementalAlterConfigsRequest)
    assert request.validate_only
    changes = [(one.name, one.config_operation, one.value) for one in request.resources[0].configs]
    assert changes == [("retention.ms", 0, "9"), ("segment.ms", 1, None)]
