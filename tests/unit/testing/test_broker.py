"""The embedded broker: its port, its directory, and coming back to both."""

import asyncio
from pathlib import Path

import pytest
from tests.writing import write

from kohort.client.admin import Admin
from kohort.client.cluster import ClusterClient
from kohort.client.errors import BrokerError
from kohort.model.errors import KohortError
from kohort.testing.broker import AsyncBroker, Broker
from kohort.testing.intercept import watch
from kohort.testing.ports import HeldPort


async def topics(bootstrap: str) -> set[str]:
    async with ClusterClient(bootstrap) as cluster:
        return {str(name) for name in (await cluster.refresh_all()).topics}


def test_a_restart_keeps_port_directory_and_rules(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        before = broker.bootstrap
        seen = broker.intercept(watch, api="Metadata")
        asyncio.run(write(before, "t", [b"a"]))
        broker.restart()
        assert broker.bootstrap == before
        seen.seen.clear()
        assert asyncio.run(topics(before)) == {"t"}
        assert seen.seen


def test_a_broker_in_memory_comes_back_empty_on_its_port() -> None:
    async def story() -> None:
        async with AsyncBroker() as broker:
            await write(broker.bootstrap, "t", [b"a"])
            host, port = broker.bootstrap.split(":")

            async def nobody_is_there() -> None:
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.open_connection(host, int(port))

            await broker.restart(nobody_is_there)
            assert await topics(broker.bootstrap) == set()

    asyncio.run(story())


def test_a_port_can_be_chosen() -> None:
    with HeldPort() as port, Broker(port=port.number) as broker:
        assert broker.bootstrap == f"127.0.0.1:{port.number}"


def test_a_test_can_make_topics_and_groups() -> None:
    with Broker() as broker, Admin(broker.bootstrap) as admin:
        broker.create_topic("orders", partitions=3, configs={"retention.ms": "1234"})
        broker.create_group("billing", {("orders", 2): 0})

        assert len(admin.describe_topic("orders").partitions) == 3
        assert list(admin.list_group_offsets("billing")) == [("orders", 2)]
        with pytest.raises(KohortError, match="already exists"):
            broker.create_topic("orders")
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            broker.create_group("billing", {("bills", 0): 0})
