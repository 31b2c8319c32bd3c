"""Our consumer while rights come and go: each lack is named by a poll, and reading goes on by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kohort import Consumer, Producer
from kohort.client.errors import AuthorizationError, GroupAuthorizationError, TopicAuthorizationError
from kohort.security.acls import Acl, AclResourceType, Operation, PatternType, Permission
from kohort.testing import Broker

pytestmark = pytest.mark.slow

USERS = {"admin": "admin-secret", "alice": "alice-secret"}
CONFIGS: dict[str, str | int | bool] = {
    "authorizer": "acl",
    "super.users": "User:admin",
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.consumer.min.session.timeout.ms": 100,
    "group.consumer.session.timeout.ms": 400,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 50,
}
QUICK: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 50, "auto_offset_reset": "earliest"}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"session_timeout_ms": 400, "heartbeat_interval_ms": 50},
    "consumer": {"group_protocol": "consumer"},
}


def allowing_read(kind: AclResourceType, name: str) -> Acl:
    return Acl(kind, name, PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW)


ON_TOPIC, ON_GROUP = allowing_read(AclResourceType.TOPIC, "t"), allowing_read(AclResourceType.GROUP, "g")


def change(broker: Broker, removed: list[Acl], added: list[Acl]) -> None:
    inside = broker.server.broker

    async def store() -> None:
        await inside.catalog.change_acls(removed, added)
        assert inside.authorizer is not None
        inside.authorizer.changed(inside.catalog.acls)

    broker.run(store())


def values_until(consumer: Consumer, wanted: bytes) -> list[bytes | None]:
    """What polls give up to this record; a refusal in between is what a client with a loop passes over."""
    values: list[bytes | None] = []
    while wanted not in values:
        try:
            values += [one.value for batch in consumer.poll(timeout_ms=50).values() for one in batch]
        except AuthorizationError:
            continue
    return values


def raised_by_polls(consumer: Consumer, error: type[AuthorizationError]) -> AuthorizationError:
    while True:
        try:
            consumer.poll(timeout_ms=50)
        except error as raised:
            return raised


@contextmanager
def readers(protocol: str, *rules: Acl) -> Iterator[tuple[Broker, Producer, Consumer]]:
    with Broker(security=USERS, configs=CONFIGS) as broker:
        broker.create_topic("t")
        change(broker, [], list(rules))
        address: dict[str, Any] = {"bootstrap_servers": broker.bootstrap}
        alice = {**address, **broker.client_security("alice"), **QUICK, **PROTOCOLS[protocol]}
        with (
            Producer(**address, **broker.client_security("admin")) as producer,
            Consumer(group_id="g", **alice) as consumer,
        ):
            consumer.subscribe(["t"])
            yield broker, producer, consumer


each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
each_right = pytest.mark.parametrize(
    ("rule", "error"),
    [(ON_TOPIC, TopicAuthorizationError), (ON_GROUP, GroupAuthorizationError)],
    ids=["topic", "group"],
)


@each_protocol
@each_right
def test_a_consumer_reads_on_when_a_right_is_given_back(
    protocol: str, rule: Acl, error: type[AuthorizationError]
) -> None:
    with readers(protocol, ON_TOPIC, ON_GROUP) as (broker, producer, consumer):
        producer.send("t", b"before").result(30)
        assert values_until(consumer, b"before") == [b"before"]
        change(broker, [rule], [])
        for _ in range(3):
            assert repr(rule.name) in str(raised_by_polls(consumer, error)).replace("t-0", "'t'")
        change(broker, [], [rule])
        producer.send("t", b"after").result(30)
        assert values_until(consumer, b"after")[-1] == b"after"


@each_protocol
@each_right
def test_a_consumer_that_starts_without_a_right_reads_once_it_has_it(
    protocol: str, rule: Acl, error: type[AuthorizationError]
) -> None:
    with readers(protocol, ON_GROUP if rule is ON_TOPIC else ON_TOPIC) as (broker, producer, consumer):
        producer.send("t", b"first").result(30)
        for _ in range(3):
            raised_by_polls(consumer, error)
        change(broker, [], [rule])
        assert values_until(consumer, b"first") == [b"first"]
