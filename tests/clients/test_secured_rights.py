"""Python clients at a secured broker: missing rights are named, and sessions are renewed (security 9)."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer
from tests.broker.security.secured import USERS, RunningServer, serving
from tests.broker.security.test_doors import count_log_ins
from tests.clients.test_secured import make_topic

from kohort import Consumer, Producer
from kohort.security.acls import AclResourceType, Operation

pytestmark = pytest.mark.slow

_Producer, _Consumer = cast(Any, KafkaProducer), cast(Any, KafkaConsumer)
_AioProducer, _AioConsumer = cast(Any, AIOKafkaProducer), cast(Any, AIOKafkaConsumer)

SETTINGS = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "connection.failed.authentication.delay.ms": "0",
    "connections.max.reauth.ms": "1500",
    "group.initial.rebalance.delay.ms": "0",
    "authorizer": "acl",
    "super.users": "User:admin",
}
PATIENCE_S = 30.0
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving("SASL_PLAINTEXT", settings=SETTINGS) as running:
        yield running


def python_settings(server: RunningServer, user: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": server.address("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": user,
        "sasl_plain_password": USERS[user],
    }


def confluent_settings(server: RunningServer, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": server.address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": USERS[user],
    }


# Produce one record; consume in a group until there is a record. Both raise what the client raises.


def own_produce(server: RunningServer, topic: str) -> None:
    with Producer(**python_settings(server, "alice")) as producer:
        producer.send(topic, b"x").result(PATIENCE_S)


def own_consume(server: RunningServer, topic: str, group: str) -> None:
    settings = python_settings(server, "alice")
    with Consumer(**settings, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        while not consumer.poll(timeout_ms=100):
            pass


def kafka_python_produce(server: RunningServer, topic: str) -> None:
    producer = _Producer(**python_settings(server, "alice"), max_block_ms=5_000)
    try:
        producer.send(topic, b"x").get(timeout=PATIENCE_S)
    finally:
        producer.close(timeout=1)


def kafka_python_consume(server: RunningServer, topic: str, group: str) -> None:
    settings = python_settings(server, "alice")
    consumer = _Consumer(topic, **settings, group_id=group, auto_offset_reset="earliest")
    try:
        while not consumer.poll(timeout_ms=5_000):
            pass
    finally:
        consumer.close(autocommit=False)


def aiokafka_produce(server: RunningServer, topic: str) -> None:
    async def work() -> None:
        producer = _AioProducer(**python_settings(server, "alice"), enable_idempotence=True)
        try:  # as a context manager it does not stop what could not start
            await producer.start()
            await producer.send_and_wait(topic, b"x")
        finally:
            await producer.stop()

    asyncio.run(work())


def aiokafka_consume(server: RunningServer, topic: str, group: str) -> None:
    async def work() -> None:
        settings = python_settings(server, "alice")
        consumer = _AioConsumer(topic, **settings, group_id=group, auto_offset_reset="earliest")
        try:
            await consumer.start()
            while not await consumer.getmany(timeout_ms=100):
                pass
        finally:
            await consumer.stop()

    asyncio.run(work())


def confluent_produce(server: RunningServer, topic: str) -> None:
    outcomes: list[Any] = []
    producer = confluent_kafka.Producer(confluent_settings(server, "alice") | {"enable.idempotence": True})
    producer.produce(topic, b"x", on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(PATIENCE_S) == 0
    if outcomes[0] is not None:
        raise confluent_kafka.KafkaException(outcomes[0])


def confluent_consume(server: RunningServer, topic: str, group: str) -> None:
    settings = confluent_settings(server, "alice") | {"group.id": group, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    try:
        consumer.subscribe([topic])
        while (message := consumer.poll(0.1)) is None:
            pass
        if (error := message.error()) is not None:
            raise confluent_kafka.KafkaException(error)
    finally:
        consumer.close()


PRODUCE: dict[str, Callable[[RunningServer, str], None]] = {
    "kohort": own_produce,
    "kafka-python": kafka_python_produce,
    "aiokafka": aiokafka_produce,
    "confluent-kafka": confluent_produce,
}
CONSUME: dict[str, Callable[[RunningServer, str, str], None]] = {
    "kohort": own_consume,
    "kafka-python": kafka_python_consume,
    "aiokafka": aiokafka_consume,
    "confluent-kafka": confluent_consume,
}
NO_TOPIC = r"(?i)topic.?_?authorization.?_?failed|TopicAuthorization|may not"
NO_GROUP = r"(?i)group.?_?authorization.?_?failed|GroupAuthorization|may not"


@pytest.mark.parametrize("client", PRODUCE)
def test_missing_rights_are_named_one_after_another(server: RunningServer, client: str) -> None:
    """Security scenario 53. Given no right on the topic, then none on the group, then all that is needed,
    when a client produces (with idempotence, but without IDEMPOTENT_WRITE) and consumes, then it raises its
    own error of authorization, and in the end none.
    """
    server.allow(TOPIC, "another", Operation.WRITE)  # enough for InitProducerId
    topic = make_topic(server, f"rights-{client}")
    with pytest.raises(Exception, match=NO_TOPIC):
        PRODUCE[client](server, topic)
    server.allow(GROUP, topic, Operation.READ)
    if client != "kafka-python":  # its polls return nothing then, for ever; it only logs why
        with pytest.raises(Exception, match=NO_TOPIC):
            CONSUME[client](server, topic, topic)
    server.allow(TOPIC, topic, Operation.READ)
    with pytest.raises(Exception, match=NO_GROUP):
        CONSUME[client](server, topic, f"{topic}-other")
    server.allow(TOPIC, topic, Operation.WRITE)
    PRODUCE[client](server, topic)
    CONSUME[client](server, topic, topic)


# Sessions of 1.5 s: each client sends and reads until some of them have been renewed.

Enough = Callable[[], bool]


def confluent_traffic(server: RunningServer, topic: str, enough: Enough) -> tuple[int, list[int]]:
    problems: list[Any] = []
    settings = confluent_settings(server, "admin") | {"error_cb": problems.append}
    producer = confluent_kafka.Producer(settings)
    consumer = confluent_kafka.Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    sent = 0
    found: list[int] = []
    try:
        while not enough() or len(found) < sent:
            if not enough():
                producer.produce(topic, str(sent).encode())
                producer.flush(PATIENCE_S)
                sent += 1
            found += [int(one.value() or b"") for one in consumer.consume(100, 0.05) if one.error() is None]
    finally:
        consumer.close()
    assert problems == []
    return sent, found


def kafka_python_traffic(server: RunningServer, topic: str, enough: Enough) -> tuple[int, list[int]]:
    settings = python_settings(server, "admin")
    producer = _Producer(**settings)
    consumer = _Consumer(topic, **settings, group_id=topic, auto_offset_reset="earliest")
    sent = 0
    found: list[int] = []
    try:
        producer.send(topic, b"0").get(timeout=PATIENCE_S)
        sent += 1
        while not enough() or len(found) < sent:
            # kafka-python loses the assignment of a second join that a poll gives up waiting for.
            batches = consumer.poll(timeout_ms=50 if found else 10_000).values()
            found += [int(one.value) for batch in batches for one in batch]
            if not enough():
                producer.send(topic, str(sent).encode()).get(timeout=PATIENCE_S)
                sent += 1
    finally:
        consumer.close()
        producer.close()
    return sent, found


def aiokafka_traffic(server: RunningServer, topic: str, enough: Enough) -> tuple[int, list[int]]:
    async def work() -> tuple[int, list[int]]:
        settings = python_settings(server, "admin")
        sent = 0
        found: list[int] = []
        consumer = _AioConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest")
        async with _AioProducer(**settings) as producer, consumer:
            while not enough() or len(found) < sent:
                if not enough():
                    await producer.send_and_wait(topic, str(sent).encode())
                    sent += 1
                batches = await consumer.getmany(timeout_ms=50)
                found += [int(one.value) for batch in batches.values() for one in batch]
        return sent, found

    return asyncio.run(work())


TRAFFIC: dict[str, Callable[[RunningServer, str, Enough], tuple[int, list[int]]]] = {
    "kafka-python": kafka_python_traffic,
    "aiokafka": aiokafka_traffic,
    "confluent-kafka": confluent_traffic,
}


@pytest.mark.parametrize("client", TRAFFIC)
def test_records_flow_while_sessions_end_and_are_renewed(server: RunningServer, client: str) -> None:
    """Security scenario 42. Given sessions of 1.5 s, when records flow for several of them, then the client
    raises nothing, and each record is read once.
    """
    topic = make_topic(server, f"renewed-{client}")
    log_ins = count_log_ins(server)
    begun = time.monotonic()
    sent, found = TRAFFIC[client](
        server, topic, lambda: len(log_ins) >= 10 or time.monotonic() - begun > PATIENCE_S
    )
    assert len(log_ins) >= 10
    assert found == list(range(sent))
