"""The connection to the coordinator."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from kohort.client.addresses import Address
from kohort.client.cluster import ClusterClient
from kohort.client.connection import Dial, dial_tcp
from kohort.client.consumer.member import CoordinatorLink
from kohort.client.errors import ApiNotServedError, DisconnectedError
from kohort.client.membership.commands import CoordinatorNode, Destination, RequestId, Send
from kohort.model.ids import NodeId
from kohort.testing.broker import AsyncBroker
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


class Line:
    """A link to an embedded broker, and how often it was lost."""

    def __init__(self, broker: AsyncBroker, cluster: ClusterClient, dial: Dial = dial_tcp) -> None:
        host, port = broker.bootstrap.rsplit(":", 1)
        self.node = CoordinatorNode(NodeId(1), host, int(port))
        self.lost = asyncio.Event()
        self.link = CoordinatorLink(cluster, dial, lambda _refusal: self.lost.set())


def beat(lowest: int = 0) -> Send:
    return Send(RequestId(1), Destination.COORDINATOR, HeartbeatRequest(group_id="g"), 5_000, lowest, 4)


async def never(_protocol: asyncio.Protocol, _address: Address) -> None:
    """A way to dial that gets nowhere."""
    await asyncio.Event().wait()


def with_broker(
    test: Callable[[AsyncBroker, ClusterClient], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    async def play() -> None:
        async with AsyncBroker() as broker, ClusterClient(broker.bootstrap) as cluster:
            await asyncio.wait_for(test(broker, cluster), 60)

    @wraps(test)
    def run() -> None:
        asyncio.run(play())

    del run.__wrapped__  # else pytest looks for fixtures of these names
    return run


@with_broker
async def test_requests_wait_until_it_is_open(broker: AsyncBroker, cluster: ClusterClient) -> None:
    line = Line(broker, cluster)
    line.link.connect(line.node)
    assert isinstance(await line.link.send(beat()), HeartbeatResponse)
    line.link.close()
    with pytest.raises(DisconnectedError, match="no connection"):
        await line.link.send(beat())


@with_broker
async def test_other_requests_go_to_anybody(broker: AsyncBroker, cluster: ClusterClient) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    line = Line(broker, cluster)
    reply = await line.link.send(Send(RequestId(1), Destination.LEAST_LOADED, request, 5_000))
    assert isinstance(reply, FindCoordinatorResponse)


@with_broker
async def test_a_version_that_is_not_served_is_refused_for_good(
    broker: AsyncBroker, cluster: ClusterClient
) -> None:
    line = Line(broker, cluster)
    line.link.connect(line.node)
    with pytest.raises(ApiNotServedError) as caught:
        await line.link.send(beat(lowest=99))
    assert not caught.value.retriable
    line.link.close()


@with_broker
async def test_a_coordinator_that_cannot_be_reached_is_lost(
    broker: AsyncBroker, cluster: ClusterClient
) -> None:
    async def refuse(_protocol: asyncio.Protocol, _address: Address) -> None:
        raise ConnectionRefusedError

    line = Line(broker, cluster, refuse)
    line.link.connect(line.node)
    with pytest.raises(DisconnectedError, match="cannot reach"):
        await line.link.send(beat())
    await line.lost.wait()


@with_broker
async def test_giving_it_up_while_it_is_being_opened_fails_what_waits(
    broker: AsyncBroker, cluster: ClusterClient
) -> None:
    line = Line(broker, cluster, never)
    line.link.connect(line.node)
    waiting = asyncio.create_task(line.link.send(beat()))
    await asyncio.sleep(0)
    line.link.close()
    with pytest.raises(DisconnectedError, match="given up"):
        await waiting
    assert not line.lost.is_set()


@with_broker
async def test_who_is_cancelled_together_with_the_opening_ends(
    broker: AsyncBroker, cluster: ClusterClient
) -> None:
    """As at the end of ``asyncio.run``, which waits for every task it has cancelled."""

    line = Line(broker, cluster, never)
    line.link.connect(line.node)
    waiting = asyncio.create_task(line.link.send(beat()))
    await asyncio.sleep(0)
    line.link.close()
    await asyncio.sleep(0)  # the opening is cancelled by now; who waits for it has not heard of that
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
