"""DescribeConfigs: every key with its value, its source and its synonyms.

What Kafka answers in every version is recorded: ``tests/interop/scripts/configs.py``.
"""

import pytest
from tests.broker.asking import BROKER, TOPIC, alter, create
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

FROM_TOPIC, FROM_BROKER, FROM_CLUSTER, FROM_START, DEFAULT = 1, 2, 3, 4, 5


def ask(
    raw: Raw,
    kind: int,
    name: str,
    *keys: str,
    version: int = 4,
    synonyms: bool = False,
    documentation: bool = False,
) -> Reply:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) if keys else None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=documentation
    )
    (result,) = raw.send(request, version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def configs(raw: Raw, kind: int, name: str, *keys: str) -> dict[str, tuple[str, int]]:
    result = ask(raw, kind, name, *keys)
    assert (result.error_code, result.error_message) == (0, None)
    return {config.name: (config.value, config.config_source) for config in result.configs}


# Where values come from


def test_the_order_is_topic_then_broker_then_cluster_then_start_then_default() -> None:
    with (
        Broker(configs={"log.retention.ms": 5}) as broker,
        Raw(broker.bootstrap) as raw,
    ):
        create(raw, "t")
        assert configs(raw, TOPIC, "t", "retention.ms") == {"retention.ms": ("5", FROM_START)}
        alter(raw, BROKER, "", log_retention_ms=6)
        assert configs(raw, TOPIC, "t", "retention.ms") == {"retention.ms": ("6", FROM_CLUSTER)}
        alter(raw, BROKER, "1", log_retention_ms=7)
        assert configs(raw, TOPIC, "t", "retention.ms") == {"retention.ms": ("7", FROM_BROKER)}
        alter(raw, TOPIC, "t", retention_ms=8)
        assert configs(raw, TOPIC, "t", "retention.ms") == {"retention.ms": ("8", FROM_TOPIC)}
        result = ask(raw, TOPIC, "t", "retention.ms", synonyms=True)
        assert [(each.name, each.value, each.source) for each in result.configs[0].synonyms] == [
            ("retention.ms", "8", FROM_TOPIC),
            ("log.retention.ms", "7", FROM_BROKER),
            ("log.retention.ms", "6", FROM_CLUSTER),
            ("log.retention.ms", "5", FROM_START),
            ("log.retention.ms", "604800000", DEFAULT),
        ]


def test_documentation_is_null_unless_asked_for(raw: Raw) -> None:
    create(raw, "t")
    assert all(config.documentation is None for config in ask(raw, TOPIC, "t").configs)
    (told,) = ask(raw, TOPIC, "t", "min.insync.replicas", documentation=True).configs
    assert told.documentation


# Brokers


def test_a_broker_tells_its_own_values(raw: Raw, broker: Broker) -> None:
    found = configs(raw, BROKER, "1")
    assert found["num.partitions"] == ("1", DEFAULT)
    assert found["auto.create.topics.enable"] == ("true", DEFAULT)
    assert found["default.replication.factor"] == ("1", DEFAULT)
    assert found["message.max.bytes"] == ("1048588", DEFAULT)
    assert found["group.initial.rebalance.delay.ms"] == ("0", FROM_START)
    assert found["node.id"][0] == "1"
    assert broker.bootstrap in found["advertised.listeners"][0]
    assert found["log.dirs"][0].startswith("/")


def test_what_a_broker_is_cannot_be_altered_and_says_so(raw: Raw) -> None:
    read_only = {config.name for config in ask(raw, BROKER, "1").configs if config.read_only}
    assert {"node.id", "log.dirs", "listeners", "offsets.topic.num.partitions"} <= read_only
    assert "num.partitions" not in read_only


def test_the_cluster_tells_what_was_set_for_it_alone(raw: Raw) -> None:
    assert configs(raw, BROKER, "") == {}
    alter(raw, BROKER, "", num_partitions=3)
    assert configs(raw, BROKER, "") == {"num.partitions": ("3", FROM_CLUSTER)}
    assert configs(raw, BROKER, "1", "num.partitions") == {"num.partitions": ("3", FROM_CLUSTER)}


# Refusals


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (0, "t", ErrorCode.INVALID_REQUEST),
        (1, "t", ErrorCode.INVALID_REQUEST),
        (3, "t", ErrorCode.INVALID_REQUEST),
        (8, "1", ErrorCode.INVALID_REQUEST),  # loggers
        (16, "t", ErrorCode.INVALID_REQUEST),  # client metrics
        (32, "", ErrorCode.INVALID_REQUEST),  # groups
        (127, "t", ErrorCode.INVALID_REQUEST),
        (-128, "t", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_that_are_not_there_are_refused_in_their_place(
    raw: Raw, kind: int, name: str, code: int
) -> None:
    create(raw, "t")
    result = ask(raw, kind, name)
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message


def test_topics_asked_for_together_keep_their_own_values_and_keys(raw: Raw) -> None:
    for name in ("a", "b"):
        create(raw, name)
    create(raw, "own", retention_ms=5)
    retention, segments = ["retention.ms"], ["segment.ms"]
    asked = [("a", None), ("own", None), ("b", retention), ("own", retention), ("a", segments)]
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=keys)
        for name, keys in asked
    ]
    results = raw.send(DescribeConfigsRequest(resources=resources), 4).results
    values = [{config.name: config.value for config in each.configs} for each in results]
    assert values[0] == {**values[1], "retention.ms": "604800000"}
    assert values[1]["retention.ms"] == "5"
    assert values[2:] == [{"retention.ms": "604800000"}, {"retention.ms": "5"}, {"segment.ms": "604800000"}]
