"""Three nodes with a secured listener for clients and one in clear text beside it, through a failover."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as OtherProducer
from confluent_kafka.admin import AdminClient
from tests.broker.security.secured import Certificates
from tests.broker.sharing import Nodes, play
from typer.testing import CliRunner

from kohort.broker.server import Server
from kohort.cli.app import command_line
from kohort.client.consumer import AsyncConsumer
from kohort.client.producer import AsyncProducer
from kohort.log.postgres.catalog import PostgresCluster
from kohort.model.topics import CONSUMER_OFFSETS
from kohort.primitives.strings import partition_for
from kohort.security.listeners import NamedAddress, build_listeners
from kohort.security.secret import Secret

pytestmark = pytest.mark.slow
CLIENTS, INSIDE = "SASL_SSL", "PLAINTEXT"
PASSWORD = "alice-secret"


def address(server: Server, listener: str) -> str:
    return next(str(each.bound) for each in server.broker.endpoints if each.listener.name == listener)


async def kohort(*arguments: str) -> None:
    command = command_line([arguments[0]])
    done = await asyncio.to_thread(CliRunner().invoke, command, list(arguments))
    assert done.exit_code == 0, done.output


class Secured:
    """Nodes with two listeners each, and how alice reaches them."""

    def __init__(self, nodes: Nodes, home: Path) -> None:
        self.nodes = nodes
        self.certificates = Certificates(home)
        self.password = home / "alice.password"
        self.password.write_text(PASSWORD)
        self.password.chmod(0o600)

    async def start(self, count: int) -> None:
        overrides = self.certificates.settings(
            sasl_enabled_mechanisms="SCRAM-SHA-256",
            connection_failed_authentication_delay_ms="0",
            kohort_cluster_lease_ms="1500",
            kohort_cluster_renewal_ms="200",
        )
        named = [NamedAddress(name, "127.0.0.1", 0) for name in (CLIENTS, INSIDE)]
        for number in range(count):
            listeners = build_listeners(named, [], overrides)
            await self.nodes.start(number + 1, listeners=listeners, overrides=overrides)

    def bootstrap(self, listener: str = CLIENTS) -> str:
        return ",".join(address(server, listener) for server in self.nodes.servers)

    def own(self) -> dict[str, Any]:
        """The settings of our own clients."""
        return {
            "bootstrap_servers": self.bootstrap(),
            "security_protocol": CLIENTS,
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": "alice",
            "sasl_plain_password": Secret(PASSWORD),
            "ssl_cafile": self.certificates.ca,
        }

    def librdkafka(self, bootstrap: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": CLIENTS,
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
            "ssl.ca.location": self.certificates.ca,
            "log_level": 0,
        }

    def brokers(self, settings: dict[str, Any], timeout_s: int = 30) -> set[str]:
        """The addresses that Metadata has, for another library."""
        found = AdminClient(settings).list_topics(timeout=timeout_s).brokers.values()
        return {f"{each.host}:{each.port}" for each in found}

    def may_log_in(self, server: Server) -> bool:
        try:
            self.brokers(self.librdkafka(address(server, CLIENTS)), timeout_s=3)
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError._TRANSPORT, KafkaError._AUTHENTICATION):
                raise
            return False
        return True

    def produce_with_librdkafka(self, first: int, last: int) -> None:
        producer = OtherProducer(self.librdkafka(self.bootstrap()) | {"enable.idempotence": True})
        errors: list[KafkaError] = []
        for number in range(first, last):
            producer.produce(
                "events",
                b"%d" % number,
                b"%d" % number,
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )
        assert producer.flush(60) == 0
        assert not errors

    def coordinator(self, group: str) -> Server:
        topic = self.nodes.servers[0].broker.topics.get(CONSUMER_OFFSETS)
        assert topic is not None
        leader = topic.placed[partition_for(group, topic.partitions)].leader
        return next(each for each in self.nodes.servers if each.broker.catalog.session == leader)


def test_clients_of_a_secured_cluster_stay_on_their_listener_through_a_failover(
    cluster_url: str, tmp_path: Path
) -> None:
    async def story(nodes: Nodes) -> None:
        secured = Secured(nodes, tmp_path)
        await secured.start(3)
        first, second, third = nodes.servers
        inside = ("-b", address(first, INSIDE))
        assert not await asyncio.to_thread(secured.may_log_in, third)
        await kohort("users", "add", "alice", "--password", f"@{secured.password}", *inside)
        await nodes.until(lambda: bool(third.broker.catalog.credentials))
        rights = ("acls", "add", "--principal", "User:alice", "--operation", "ALL")
        await kohort(*rights, "--topic", "events", *inside)
        await kohort(*rights, "--group", "g", "-b", address(second, INSIDE))
        await kohort("topics", "create", "events", "-p", "6", *inside)
        for listener, settings in (
            (CLIENTS, secured.librdkafka(address(third, CLIENTS))),
            (INSIDE, {"bootstrap.servers": address(third, INSIDE)}),
        ):
            found = await asyncio.to_thread(secured.brokers, settings)
            assert found == {address(server, listener) for server in nodes.servers}

        await asyncio.to_thread(secured.produce_with_librdkafka, 0, 20)
        seen: list[int] = []
        async with AsyncConsumer(
            "events", **secured.own(), group_id="g", auto_offset_reset="earliest"
        ) as member:

            async def read(count: int) -> None:
                while len(seen) < count:
                    for records in (await member.poll(200)).values():
                        seen.extend(int(record.value or b"-1") for record in records)

            await read(20)
            await member.commit()
            dead = secured.coordinator("g")
            catalog = dead.broker.catalog
            assert isinstance(catalog, PostgresCluster)
            await catalog.close()  # it is not renewed any more, as after kill -9
            nodes.servers.remove(dead)
            await asyncio.to_thread(secured.produce_with_librdkafka, 20, 40)
            async with AsyncProducer(**secured.own()) as producer:
                await producer.send("events", b"40", key=b"40")
            await read(41)
            await member.commit()
            assert sorted(seen) == list(range(41))
        await dead.stop()

        def committed() -> int:
            other = OtherConsumer(secured.librdkafka(secured.bootstrap()) | {"group.id": "g"})
            try:
                parts = [TopicPartition("events", number) for number in range(6)]
                return sum(max(0, each.offset) for each in other.committed(parts, timeout=30))
            finally:
                other.close()

        assert await asyncio.to_thread(committed) == 41
        left, right = nodes.servers
        await kohort("users", "remove", "alice", "-b", address(left, INSIDE))
        await nodes.until(lambda: not right.broker.catalog.credentials)
        assert not await asyncio.to_thread(secured.may_log_in, right)

    play(cluster_url, story)
