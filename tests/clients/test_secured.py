"""Each Python client over TLS with each way to log in: records go through a group, wrong passwords do not."""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokens
from aiokafka.errors import KafkaConnectionError as AioConnectionError
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaTimeoutError
from kafka.net.sasl.oauth import AbstractTokenProvider
from tests.broker.security.issuer import claims, key_set, signed
from tests.broker.security.secured import USERS, Certificates, RunningServer, serving

from kohort import Consumer, Producer
from kohort.security.secret import Secret

pytestmark = pytest.mark.slow

# These two have no types of their own.
_Producer, _Consumer = cast(Any, KafkaProducer), cast(Any, KafkaConsumer)
_AioProducer, _AioConsumer = cast(Any, AIOKafkaProducer), cast(Any, AIOKafkaConsumer)

LISTENERS = {"TLS": "OPEN", "mutual TLS": "SSL"}  # of the ways without a log-in
RECORDS = 1_000
WAYS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER", *LISTENERS)


class ClientLogin(NamedTuple):
    """Where a client goes, and with what."""

    server: RunningServer
    certificates: Certificates
    way: str
    password: str = USERS["alice"]

    @property
    def bootstrap(self) -> str:
        return self.server.address(LISTENERS.get(self.way, "SASL_SSL"))

    @property
    def protocol(self) -> str:
        return "SSL" if self.way in LISTENERS else "SASL_SSL"

    @property
    def certificate(self) -> str | None:
        return f"{self.certificates.directory}/alice.pem" if self.way == "mutual TLS" else None

    def token(self) -> str:
        return signed(claims(time.time()), "ES256")

    def python_settings(self, provider: object) -> dict[str, Any]:
        """With the names that kafka-python has given, and others took over."""
        found: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "security_protocol": self.protocol}
        if self.protocol == "SASL_SSL":
            found["sasl_mechanism"] = self.way
        if self.way == "OAUTHBEARER":
            found["sasl_oauth_token_provider"] = provider
        elif self.protocol == "SASL_SSL":
            found |= {"sasl_plain_username": "alice", "sasl_plain_password": self.password}
        return found

    def context(self) -> ssl.SSLContext:
        return self.certificates.client_context(self.certificate)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, Certificates]]:
    certificates = Certificates(tmp_path_factory.mktemp("secured"))
    certificates.issue("alice")
    keys = Path(certificates.write("keys.json", key_set()))
    settings = certificates.settings(
        sasl_enabled_mechanisms="SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        sasl_oauthbearer_expected_issuer="https://issuer",
        sasl_oauthbearer_jwks_endpoint_url=keys.as_uri(),
        listener_security_protocol_map="SASL_SSL:SASL_SSL,SSL:SSL,OPEN:SSL",
        listener_name_ssl_ssl_client_auth="required",
        ssl_principal_mapping_rules="RULE:^CN=(.*)$/$1/",
        group_initial_rebalance_delay_ms="0",
        connection_failed_authentication_delay_ms="0",
        connections_max_reauth_ms="3000",
    )
    with serving("SASL_SSL", *LISTENERS.values(), settings=settings) as server:
        yield server, certificates


class Tokens(AbstractTokenProvider):
    """For kafka-python."""

    def __init__(self, place: ClientLogin) -> None:
        self._place = place

    def token(self) -> str:
        return self._place.token()


class AsyncTokens(AioTokens):
    """For aiokafka."""

    def __init__(self, place: ClientLogin) -> None:
        self._place = place

    async def token(self) -> str:
        return self._place.token()


def values() -> list[bytes]:
    return [b"%d" % number for number in range(RECORDS)]


def with_own(place: ClientLogin, topic: str) -> list[bytes]:
    settings = place.python_settings(Tokens(place))
    if "sasl_plain_password" in settings:
        settings["sasl_plain_password"] = Secret(settings["sasl_plain_password"])
    settings |= {"ssl_cafile": place.certificates.ca, "ssl_certfile": place.certificate}
    with Producer(**settings) as producer:
        for value in values():
            producer.send(topic, value)
    found: list[bytes] = []
    with Consumer(**settings, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        while len(found) < RECORDS:
            found += [one.value or b"" for batch in consumer.poll(timeout_ms=100).values() for one in batch]
    return found


def with_kafka_python(place: ClientLogin, topic: str) -> list[bytes]:
    settings = place.python_settings(Tokens(place)) | {"ssl_context": place.context()}
    producer = _Producer(**settings)
    try:
        for value in values():
            producer.send(topic, value)
        producer.flush()
    finally:
        producer.close()
    consumer = _Consumer(topic, **settings, group_id=topic, auto_offset_reset="earliest")
    try:
        found: list[bytes] = []
        while len(found) < RECORDS:
            # kafka-python loses the assignment of a second join that a poll gives up waiting for.
            found += [one.value for batch in consumer.poll(timeout_ms=10_000).values() for one in batch]
        return found
    finally:
        consumer.close()


def with_aiokafka(place: ClientLogin, topic: str) -> list[bytes]:
    settings = place.python_settings(AsyncTokens(place)) | {"ssl_context": place.context()}

    async def work() -> list[bytes]:
        async with _AioProducer(**settings) as producer:
            for value in values():
                await producer.send(topic, value)
        found: list[bytes] = []
        consumer = _AioConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest")
        async with consumer:
            while len(found) < RECORDS:
                batches = await consumer.getmany(timeout_ms=100)
                found += [one.value for batch in batches.values() for one in batch]
        return found

    return asyncio.run(work())


def with_confluent(place: ClientLogin, topic: str) -> list[bytes]:
    settings: dict[str, Any] = {
        "bootstrap.servers": place.bootstrap,
        "security.protocol": place.protocol,
        "ssl.ca.location": place.certificates.ca,
    }
    if place.certificate is not None:
        settings |= {"ssl.certificate.location": place.certificate, "ssl.key.location": place.certificate}
    elif place.protocol == "SSL":
        pass  # TLS is enough
    elif place.way == "OAUTHBEARER":
        settings |= {"sasl.mechanisms": place.way, "oauth_cb": lambda _: (place.token(), time.time() + 3_000)}
    else:
        settings |= {
            "sasl.mechanisms": place.way, "sasl.username": "alice", "sasl.password": place.password,
        }  # fmt: skip
    problems: list[confluent_kafka.KafkaError] = []
    settings["error_cb"] = problems.append
    producer = confluent_kafka.Producer(settings)
    for value in values():
        producer.produce(topic, value)
    while producer.flush(0.05):
        refusals = [one for one in problems if one.code() == confluent_kafka.KafkaError._AUTHENTICATION]
        if refusals:
            producer.purge()
            raise confluent_kafka.KafkaException(refusals[0])
    more = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**settings, **more})
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        while len(found) < RECORDS:
            found += [one.value() or b"" for one in consumer.consume(RECORDS, 0.1) if one.error() is None]
    finally:
        consumer.close()
    return found


CLIENTS: dict[str, Callable[[ClientLogin, str], list[bytes]]] = {
    "kohort": with_own,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
    "confluent-kafka": with_confluent,
}


def make_topic(server: RunningServer, name: str) -> str:
    from kohort.broker.topics import TopicToCreate

    server.loop.submit(server.server.broker.topics.create(TopicToCreate(name, 1))).result()
    return name


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", CLIENTS)
def test_records_go_through_a_group(
    secured: tuple[RunningServer, Certificates], client: str, way: str
) -> None:
    """Security scenario 54. See security 9."""
    server, certificates = secured
    topic = make_topic(server, f"{client}-{way}".replace(" ", "-"))
    assert CLIENTS[client](ClientLogin(server, certificates, way), topic) == values()


@pytest.mark.parametrize("way", ["SCRAM-SHA-512", "PLAIN"])
@pytest.mark.parametrize("client", ["kohort", "confluent-kafka"])
def test_a_wrong_password_is_an_authentication_error(
    secured: tuple[RunningServer, Certificates], client: str, way: str
) -> None:
    """Security scenario 55. See security 9."""
    server, certificates = secured
    place = ClientLogin(server, certificates, way, "wrong")
    with pytest.raises(Exception, match=r"(?i)authentication|does not accept user|Invalid username"):
        CLIENTS[client](place, "never")


def test_a_wrong_password_keeps_out_clients_that_raise_something_general(
    secured: tuple[RunningServer, Certificates], caplog: pytest.LogCaptureFixture
) -> None:
    """Security scenario 55. aiokafka gives up at once, and its log names the reason.

    kafka-python tries again until its time is up; of a reply that a close follows it sees the close alone.
    """
    server, certificates = secured
    place = ClientLogin(server, certificates, "SCRAM-SHA-512", "wrong")
    settings = place.python_settings(None) | {"ssl_context": place.context()}
    caplog.set_level(logging.WARNING, logger="kafka")

    async def enter() -> None:
        producer = _AioProducer(**settings)
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(AioConnectionError, match="Unable to bootstrap"):
        asyncio.run(enter())
    assert "SaslAuthenticationFailed: Authentication failed" in caplog.text
    with pytest.raises(KafkaTimeoutError, match="Unable to bootstrap"):
        _Producer(**settings, bootstrap_timeout_ms=100)
