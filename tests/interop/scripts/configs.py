"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs for topics; brokers only where they must agree."""

from collections.abc import Iterator

from tests.interop.scripts.exchange import Answer, Exchange
from tests.interop.scripts.setting import ADMIN, make_topic, settle, wait_for_config
from tests.interop.scripts.topics import node_id

from kohort.wire.messages import alter_configs, incremental_alter_configs
from kohort.wire.messages.alter_configs import AlterConfigsRequest
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

Steps = Iterator[tuple[str, Answer]]
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]


def describing(
    name: str, kind: int = TOPIC, keys: list[str] | None = None, synonyms: bool = False
) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms)


def changing(
    name: str, *changes: Change, kind: int = TOPIC, check: bool = False
) -> IncrementalAlterConfigsRequest:
    entries = [
        incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=entries
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=check)


def replacing(name: str, kind: int = TOPIC, check: bool = False, **values: str | None) -> AlterConfigsRequest:
    entries = [
        alter_configs.AlterableConfig(name=key.replace("_", "."), value=value)
        for key, value in values.items()
    ]
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=entries)
    return AlterConfigsRequest(resources=[resource], validate_only=check)


def describe_configs(x: Exchange) -> Steps:
    """All keys of a topic, some, none; synonyms; resources that are not there."""
    name = "script.describe-configs"
    make_topic(x, name, retention_ms="1000", cleanup_policy="compact")
    for version in range(1, 5):
        yield f"all v{version}", x.get(describing(name), version)
    yield "with synonyms", x.get(describing(name, synonyms=True), 4)
    yield "two keys", x.get(describing(name, keys=["retention.ms", "segment.bytes"]), 4)
    yield "no keys", x.get(describing(name, keys=[]), 4)
    yield "unknown key", x.get(describing(name, keys=["no.such.config"]), 4)
    yield "unknown topic", x.get(describing("script.none"), 4)
    yield "bad topic name", x.get(describing("no good"), 4)
    yield "empty topic name", x.get(describing(""), 4)
    for kind in (0, 1, 3, 64):
        yield f"resource type {kind}", x.get(describing(name, kind=kind), 4)
    yield "wrong broker", x.get(describing(str(node_id(x) + 77), kind=BROKER), 4)
    yield "broker that is no number", x.get(describing("one", kind=BROKER), 4)
    keys = ["message.max.bytes", "auto.create.topics.enable", "num.partitions"]
    yield "broker keys", x.get(describing(str(node_id(x)), kind=BROKER, keys=keys), 4)
    twice = describing(name, keys=["retention.ms"])
    twice.resources = twice.resources * 2
    yield "the same twice", x.get(twice, 4)
    yield "nothing", x.get(DescribeConfigsRequest(), 4)


def incremental_configs(x: Exchange) -> Steps:
    """Set, delete, append, subtract; refused values; check only."""
    name = "script.incremental"
    make_topic(x, name)
    retention, policy = "retention.ms", "cleanup.policy"
    own = describing(name, keys=[retention, policy])
    for version, value in ((0, "5000"), (1, "6000")):
        yield f"set v{version}", x.get(changing(name, (retention, SET, value)), version)
        wait_for_config(x, name, retention, value)
    yield "append", x.get(changing(name, (policy, APPEND, "compact")), 1)
    wait_for_config(x, name, policy, "delete,compact")
    yield "append what is there", x.get(changing(name, (policy, APPEND, "compact")), 1)
    yield "after appending", x.get(own, 4)
    yield "subtract", x.get(changing(name, (policy, SUBTRACT, "delete")), 1)
    wait_for_config(x, name, policy, "compact")
    yield "delete", x.get(changing(name, (policy, DELETE, None), (retention, DELETE, None)), 1)
    wait_for_config(x, name, policy, "delete")
    yield "after deleting", x.get(own, 4)
    yield "delete what is not set", x.get(changing(name, (retention, DELETE, None)), 1)
    yield "check only", x.get(changing(name, (retention, SET, "77"), check=True), 1)
    yield "check only did nothing", x.get(own, 4)
    wrong: dict[str, tuple[Change, ...]] = {
        "unknown key": (("no.such.config", SET, "1"),),
        "unknown key deleted": (("no.such.config", DELETE, None),),
        "not a number": ((retention, SET, "soon"),),
        "out of range": ((retention, SET, "-2"),),
        "null": ((retention, SET, None),),
        "append to a number": ((retention, APPEND, "1"),),
        "unknown operation": ((retention, 9, "1"),),
        "the same key twice": ((retention, SET, "1"), (retention, SET, "2")),
        "one good, one bad": ((retention, SET, "1"), ("no.such.config", SET, "1")),
        "nothing": (),
    }
    for label, changes in wrong.items():
        yield label, x.get(changing(name, *changes, check=True), 1)
    yield "unknown topic", x.get(changing("script.none", (retention, SET, "1")), 1)
    yield "bad topic name", x.get(changing("no good", (retention, SET, "1")), 1)
    yield "unknown resource type", x.get(changing(name, (retention, SET, "1"), kind=99), 1)
    twice = changing(name, (retention, SET, "1"), check=True)
    twice.resources = twice.resources * 2
    yield "the same resource twice", x.get(twice, 1)


def replaced_configs(x: Exchange) -> Steps:
    """AlterConfigs replaces the whole set."""
    name = "script.replaced"
    make_topic(x, name, retention_ms="1000")
    for version in range(3):
        size = str(2000 + version)
        yield f"v{version}", x.get(replacing(name, max_message_bytes=size), version)
        wait_for_config(x, name, "max.message.bytes", size)
    yield (
        "what was not named is back to default",
        x.get(describing(name, keys=["retention.ms", "max.message.bytes"]), 4),
    )
    yield "check only", x.get(replacing(name, check=True, retention_ms="5"), 2)
    yield "unknown key", x.get(replacing(name, no_such="5"), 2)
    yield "bad value", x.get(replacing(name, retention_ms="soon"), 2)
    yield "null value", x.get(replacing(name, retention_ms=None), 2)
    yield "unknown topic", x.get(replacing("script.none", retention_ms="5"), 2)
    yield "nothing named", x.get(replacing(name), 2)
    wait_for_config(x, name, "max.message.bytes", "1048588")


def broker_configs(x: Exchange) -> Steps:
    """Settings that a broker does not know, and those that it reads at its start."""
    unknown, known = "script.no.such.setting", "log.cleaner.delete.retention.ms"
    for name in ("", str(node_id(x))):
        who = "one broker" if name else "all brokers"
        own = describing(name, kind=BROKER, keys=[unknown, known], synonyms=True)

        def settled(*changes: Change, name: str = name) -> Answer:
            return x.get(changing(name, *changes, kind=BROKER), 1)

        yield f"{who}: check", x.get(changing(name, (unknown, SET, "1"), kind=BROKER, check=True), 1)
        yield f"{who}: set", settled((unknown, SET, "1"), (known, SET, "77"))
        wait_for_setting(x, name, known, "77")
        yield f"{who}: described", x.get(own, 4)
        yield f"{who}: append", settled((unknown, APPEND, "2"))
        yield f"{who}: null", settled((unknown, SET, None))
        yield f"{who}: a setting of the start", settled((unknown, SET, "2"), ("log.dirs", SET, "x"))
        yield f"{who}: a value that is wrong", settled((unknown, SET, "2"), (known, SET, "x"))
        yield f"{who}: deleted", settled((unknown, DELETE, None), (known, DELETE, None))
        wait_for_setting(x, name, known, None if not name else "86400000")
        yield f"{who}: nothing is left", x.get(own, 4)
    one = str(node_id(x))
    yield "one broker: replaced", x.get(replacing(one, BROKER, script_no_such_setting="3"), 2)
    yield "one broker: replaced by nothing", x.get(replacing(one, BROKER), 2)


def wait_for_setting(x: Exchange, name: str, setting: str, value: str | None) -> None:
    """Until a setting of brokers has this value; None: until it is not set."""

    def has_value() -> bool:
        request = describing(name, kind=BROKER, keys=[setting])
        found = x.ask(request, 4, on=ADMIN).results[0].configs
        return bool(found[0].value == value) if found else value is None

    settle(f"{name or 'all brokers'}: {setting}={value}", has_value)
