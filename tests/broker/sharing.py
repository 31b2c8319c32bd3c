"""Nodes of one cluster on the loop of a test, each a whole broker, on a PostgreSQL."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress

from kohort.broker.server import Server
from kohort.broker.settings import Settings
from kohort.client.consumer import AsyncConsumer
from kohort.client.producer import AsyncProducer
from kohort.model.ids import TopicName
from kohort.security.listeners import Listener

CONFIGS = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "4",
    "kohort.cluster.rebalance.delay.ms": "0",
    "authorizer": "acl",
    "super.users": "User:ANONYMOUS",
}


class Nodes:
    """The nodes of a cluster, on the loop of the test."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.servers: list[Server] = []
        self._news = asyncio.Event()

    async def start(
        self,
        node_id: int | None = None,
        *,
        listeners: tuple[Listener, ...] = (),
        overrides: Mapping[str, str] | None = None,
    ) -> Server:
        settings = Settings(
            port=0,
            cluster=self._url,
            node_id=node_id,
            listeners=listeners,
            overrides={**CONFIGS, **(overrides or {})},
        )
        server = Server(settings)
        await server.start()
        server.broker.catalog.watch(lambda _old, _new: self._news.set())
        self.servers.append(server)
        return server

    async def stop(self, server: Server) -> None:
        self.servers.remove(server)
        await server.stop()

    @property
    def bootstrap(self) -> str:
        return ",".join(str(server.broker.endpoints[0].bound) for server in self.servers)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what nodes do by themselves; nearly all of it changes a view."""
        while not condition():
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await self._news.wait()

    async def until_spread(self, topic: TopicName) -> None:
        """Every node leads some partitions of a topic, and all are served."""

        def is_spread() -> bool:
            views = [server.broker.catalog.view.topics.get(topic) for server in self.servers]
            if any(view is None for view in views) or views[0] is None:
                return False
            leaders = {each.leader for each in views[0].partitions}
            return len(leaders) == len(self.servers) and None not in leaders

        await self.until(is_spread)


def play(url: str, story: Callable[[Nodes], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            nodes = Nodes(url)

            async def stop_all() -> None:
                for server in list(nodes.servers):
                    await nodes.stop(server)

            stack.push_async_callback(stop_all)
            await story(nodes)

    asyncio.run(main())


async def produce(nodes: Nodes, *values: bytes) -> None:
    async with AsyncProducer(bootstrap_servers=nodes.bootstrap) as producer:
        for value in values:
            await producer.send("events", value, key=value)


async def consume(nodes: Nodes, count: int) -> set[bytes]:
    """What a member of the group reads until it has so many records; it commits them."""
    found: list[bytes] = []
    async with AsyncConsumer(
        "events",
        bootstrap_servers=nodes.bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while len(found) < count:
            for records in (await consumer.poll(1_000)).values():
                found += [record.value or b"" for record in records]
        await consumer.commit()
    assert len(found) == count
    return set(found)


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % each for each in range(first, last)]
