"""IncrementalAlterConfigs and AlterConfigs: changing single keys, or all of them.

What Kafka answers in every version is recorded: ``tests/interop/scripts/configs.py``.
"""

import pytest
from tests.broker.asking import BROKER, TOPIC, alter, create
from tests.broker.conftest import Restart
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.wire.messages.alter_configs import AlterableConfig as Replaced
from kohort.wire.messages.alter_configs import (
    AlterConfigsRequest,
)
from kohort.wire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

SET, DELETE = 0, 1
Change = tuple[str, int, str | None]


def resource(kind: int, name: str, *changes: Change) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )


def change(
    raw: Raw, *changes: Change, kind: int = TOPIC, name: str = "t", version: int = 1, validate: bool = False
) -> int:
    request = IncrementalAlterConfigsRequest(
        resources=[resource(kind, name, *changes)], validate_only=validate
    )
    (result,) = raw.send(request, version).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    assert (result.error_code == 0) == (result.error_message is None)
    code: int = result.error_code
    return code


def replace(
    raw: Raw,
    configs: dict[str, str | None],
    *,
    kind: int = TOPIC,
    name: str = "t",
    version: int = 2,
    validate: bool = False,
) -> int:
    wanted = ReplacedResource(
        resource_type=kind,
        resource_name=name,
        configs=[Replaced(name=key, value=value) for key, value in configs.items()],
    )
    (result,) = raw.send(AlterConfigsRequest(resources=[wanted], validate_only=validate), version).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    code: int = result.error_code
    return code


def own(raw: Raw, kind: int = TOPIC, name: str = "t") -> dict[str, str]:
    """What was set for a resource itself."""
    wanted = DescribeConfigsResource(resource_type=kind, resource_name=name)
    (result,) = raw.send(DescribeConfigsRequest(resources=[wanted]), 4).results
    sources = {TOPIC: (1,), BROKER: (2, 3)}[kind]
    return {config.name: config.value for config in result.configs if config.config_source in sources}


@pytest.fixture
def raw(raw: Raw) -> Raw:
    create(raw, "t")
    return raw


# Incremental


@pytest.mark.parametrize("name", ["", "1"])
def test_brokers_can_be_altered_alone_or_all_together(raw: Raw, name: str) -> None:
    assert change(raw, ("num.partitions", SET, "3"), kind=BROKER, name=name) == 0
    assert own(raw, BROKER, "1") == {"num.partitions": "3"}
    assert change(raw, ("num.partitions", DELETE, None), kind=BROKER, name=name) == 0
    assert own(raw, BROKER, "1") == {}


@pytest.mark.parametrize(
    "key",
    [
        "node.id",
        "log.dirs",
        "offsets.topic.num.partitions",
        "group.initial.rebalance.delay.ms",
        "group.max.size",
        "max.incremental.fetch.session.cache.slots",
    ],
)
def test_what_a_broker_reads_at_start_alone_cannot_be_altered(raw: Raw, key: str) -> None:
    assert change(raw, (key, SET, "1"), kind=BROKER, name="1") == ErrorCode.INVALID_REQUEST


def test_a_setting_that_is_not_known_is_stored_without_an_effect_and_logged(
    restart: Restart, caplog: pytest.LogCaptureFixture
) -> None:
    raw = restart()
    for name in ("", "1"):
        assert change(raw, ("some.plugin.key", SET, "secret"), kind=BROKER, name=name) == 0
        assert own(raw, BROKER, name) == {"some.plugin.key": None}
    (line, *_) = [record.getMessage() for record in caplog.records if record.name == "kohort.configs"]
    assert line == "altered broker settings that are not known and have no effect: some.plugin.key"
    raw = restart()
    assert own(raw, BROKER, "1") == {"some.plugin.key": None}
    for name in ("", "1"):
        assert change(raw, ("some.plugin.key", DELETE, None), kind=BROKER, name=name) == 0
        assert own(raw, BROKER, name) == {}


@pytest.mark.parametrize(("key", "value"), [("num.partitions", "0"), ("log.retention.ms", "x")])
def test_values_of_a_broker_are_checked(raw: Raw, key: str, value: str) -> None:
    assert change(raw, (key, SET, value), kind=BROKER, name="") == ErrorCode.INVALID_REQUEST


# All at once


def test_the_configs_of_brokers_can_be_replaced(raw: Raw) -> None:
    alter(raw, BROKER, "", num_partitions=5, log_retention_ms=6)
    assert replace(raw, {"num.partitions": "7"}, kind=BROKER, name="") == 0
    assert own(raw, BROKER, "") == {"num.partitions": "7"}


def test_a_resource_replaced_twice_in_one_request_is_an_invalid_request_for_both(raw: Raw) -> None:
    def wanted(value: str) -> ReplacedResource:
        configs = [Replaced(name="retention.ms", value=value)]
        return ReplacedResource(resource_type=TOPIC, resource_name="t", configs=configs)

    reply: Reply = raw.send(AlterConfigsRequest(resources=[wanted("5"), wanted("6")]), 2)
    assert [each.error_code for each in reply.responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert own(raw) == {}


def test_altered_configs_survive_a_restart(restart: Restart) -> None:
    raw = restart()
    create(raw, "t", retention_ms=5)
    alter(raw, TOPIC, "t", segment_ms=6)
    alter(raw, BROKER, "", num_partitions=7)
    raw = restart()
    assert own(raw) == {"retention.ms": "5", "segment.ms": "6"}
    assert own(raw, BROKER, "") == {"num.partitions": "7"}
