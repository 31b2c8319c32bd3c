"""One connection: versions, order, losses."""

import asyncio

import pytest
from tests.unit.client.scripted import (
    HASTY,
    Hangup,
    Raw,
    ScriptedCluster,
    Silence,
    frame_of,
    in_turn,
    on_loop,
)

from kohort.client.addresses import Address
from kohort.client.connection import ClientConnection, open_connection
from kohort.client.errors import ApiNotServedError, ConnectError, DisconnectedError, RequestTimeoutError
from kohort.client.settings import ClientOptions
from kohort.codec.schema import Versions
from kohort.model.errors import ErrorCode, ProtocolError
from kohort.wire.apis import ApiKey
from kohort.wire.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from kohort.wire.messages.produce import ProduceRequest

ADDRESS = Address("host", 9001)


async def opened(brokers: ScriptedCluster, options: ClientOptions = HASTY) -> ClientConnection:
    return await open_connection(ADDRESS, options, dial=brokers.dial)


@on_loop
async def test_a_request_is_sent_in_the_highest_version_both_sides_speak() -> None:
    brokers = ScriptedCluster()
    brokers.peers[1].served[ApiKey.METADATA] = Versions(2, 7)
    connection = await opened(brokers)
    reply = await connection.send(MetadataRequest(topics=None), MetadataResponse)
    assert reply.cluster_id == "scripted"
    assert brokers.received[-1].header.api_version == 7


@on_loop
async def test_the_caller_can_cap_the_version() -> None:
    brokers = ScriptedCluster()
    connection = await opened(brokers)
    await connection.send(MetadataRequest(topics=None), MetadataResponse, highest=5)
    assert brokers.received[-1].header.api_version == 5


@on_loop
async def test_the_client_introduces_itself() -> None:
    brokers = ScriptedCluster()
    await opened(brokers, ClientOptions(client_id="me"))
    received = brokers.received[0]
    assert received.header.client_id == "me"
    assert isinstance(received.request, ApiVersionsRequest)
    assert received.request.client_software_name == "kohort"


@pytest.mark.parametrize("highest", [0, 2, 3])
@on_loop
async def test_an_older_broker_is_asked_again_in_its_own_version(highest: int) -> None:
    brokers = ScriptedCluster()
    brokers.peers[1].highest_api_versions = highest
    connection = await opened(brokers)
    assert brokers.received[0].header.api_version == highest
    assert connection.api_versions[ApiKey.METADATA] == Versions(0, 13)


@on_loop
async def test_features_of_the_broker_are_kept() -> None:
    brokers = ScriptedCluster()
    feature = SupportedFeatureKey(name="group.version", min_version=0, max_version=1)
    level = FinalizedFeatureKey(name="group.version", min_version_level=1, max_version_level=1)
    reply = ApiVersionsResponse(supported_features=[feature], finalized_features=[level])
    brokers.on(ApiVersionsRequest, lambda _: reply)
    connection = await opened(brokers)
    assert connection.features == {"group.version": Versions(0, 1)}
    assert connection.feature_levels == {"group.version": 1}


@on_loop
async def test_a_refusal_to_say_which_versions_there_are_fails_the_connection() -> None:
    brokers = ScriptedCluster()
    refusal = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    brokers.on(ApiVersionsRequest, lambda _: refusal)
    with pytest.raises(Exception, match="ask host:9001 for its API versions: INVALID_REQUEST"):
        await opened(brokers)


@pytest.mark.parametrize("served", [None, Versions(6, 9)])
@on_loop
async def test_without_a_common_version_the_api_and_the_brokers_range_are_named(
    served: Versions | None,
) -> None:
    brokers = ScriptedCluster()
    if served is None:
        del brokers.peers[1].served[ApiKey.LIST_GROUPS]
    else:
        brokers.peers[1].served[ApiKey.LIST_GROUPS] = served
    connection = await opened(brokers)
    with pytest.raises(ApiNotServedError, match="ListGroups") as caught:
        await connection.send(ListGroupsRequest(), ListGroupsResponse)
    assert caught.value.served == served
    assert connection.is_open


@on_loop
async def test_many_requests_are_in_flight_and_each_gets_its_own_reply() -> None:
    brokers = ScriptedCluster()
    brokers.on(HeartbeatRequest, lambda request: HeartbeatResponse(throttle_time_ms=request.generation_id))
    connection = await opened(brokers)
    sent = [
        asyncio.ensure_future(connection.send(HeartbeatRequest(generation_id=number), HeartbeatResponse))
        for number in range(20)
    ]
    replies = await asyncio.gather(*sent)
    assert [reply.throttle_time_ms for reply in replies] == list(range(20))
    assert connection.in_flight == 0
    ids = [received.header.correlation_id for received in brokers.asked(HeartbeatRequest)]
    assert len(set(ids)) == 20


@on_loop
async def test_a_cancelled_request_only_drops_its_reply() -> None:
    brokers = ScriptedCluster()
    brokers.on(HeartbeatRequest, lambda request: HeartbeatResponse(throttle_time_ms=request.generation_id))
    connection = await opened(brokers)
    first = asyncio.ensure_future(connection.send(HeartbeatRequest(generation_id=1), HeartbeatResponse))
    second = asyncio.ensure_future(connection.send(HeartbeatRequest(generation_id=2), HeartbeatResponse))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).throttle_time_ms == 2
    assert connection.is_open


@on_loop
async def test_a_reply_that_does_not_come_gives_the_connection_up() -> None:
    brokers = ScriptedCluster()
    brokers.on(HeartbeatRequest, lambda _: Silence())
    connection = await opened(brokers)
    behind = asyncio.ensure_future(connection.send(HeartbeatRequest(), HeartbeatResponse))
    with pytest.raises(RequestTimeoutError, match=r"host:9001 did not answer Heartbeat within 0\.001 s"):
        await connection.send(HeartbeatRequest(), HeartbeatResponse, timeout_ms=1)
    with pytest.raises(DisconnectedError, match="given up"):
        await behind
    with pytest.raises(DisconnectedError, match="is closed"):
        await connection.send(HeartbeatRequest(), HeartbeatResponse)


@on_loop
async def test_a_broker_that_hangs_up_fails_the_requests_in_flight() -> None:
    brokers = ScriptedCluster()
    brokers.on(HeartbeatRequest, lambda _: Hangup())
    connection = await opened(brokers)
    with pytest.raises(DisconnectedError, match="closed the connection before it answered Heartbeat v4"):
        await connection.send(HeartbeatRequest(), HeartbeatResponse)
    assert not connection.is_open
    assert repr(connection) == "<ClientConnection to host:9001: closed, 0 in flight>"


@on_loop
async def test_a_peer_that_hangs_up_at_once_may_be_no_broker() -> None:
    brokers = ScriptedCluster()
    brokers.on(ApiVersionsRequest, lambda _: Hangup())
    with pytest.raises(DisconnectedError, match="before it answered ApiVersions") as caught:
        await opened(brokers)
    assert "plaintext" in caught.value.hint


@on_loop
async def test_closing_fails_the_requests_in_flight() -> None:
    brokers = ScriptedCluster()
    brokers.on(HeartbeatRequest, lambda _: Silence())
    connection = await opened(brokers)
    waiting = asyncio.ensure_future(connection.send(HeartbeatRequest(), HeartbeatResponse))
    await asyncio.sleep(0)
    connection.close()
    with pytest.raises(DisconnectedError, match="closed on this side"):
        await waiting


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Raw(b"HTTP/1.1 400 Bad Request\r\n"), "host:9001: the peer speaks HTTP"),
        (Raw(frame_of(b"\0\0\0\x63" + b"\0" * 7)), "reply 99 came where 1 was due"),
        (Raw(frame_of(b"\0\0")), "too short for a header"),
        (Raw(frame_of(b"\0\0\0\1\0" + b"\0\0\0\0\0\0\0junk")), "Heartbeat"),
    ],
)
@on_loop
async def test_bytes_that_are_no_reply_end_the_connection(answer: Raw, message: str) -> None:
    brokers = ScriptedCluster()
    brokers.on(HeartbeatRequest, lambda _: answer)
    connection = await opened(brokers)
    with pytest.raises(ProtocolError, match=message):
        await connection.send(HeartbeatRequest(), HeartbeatResponse)
    assert not connection.is_open


@on_loop
async def test_a_reply_nobody_asked_for_ends_the_connection() -> None:
    brokers = ScriptedCluster()
    twice = frame_of(b"\0\0\0\1\0" + b"\0" * 7) * 2
    brokers.on(HeartbeatRequest, in_turn(Raw(twice)))
    connection = await opened(brokers)
    await connection.send(HeartbeatRequest(), HeartbeatResponse)
    assert not connection.is_open


@on_loop
async def test_a_request_without_a_reply_leaves_the_order_of_replies_alone() -> None:
    brokers = ScriptedCluster()
    brokers.on(ProduceRequest, lambda _: Silence())
    connection = await opened(brokers)
    first = asyncio.ensure_future(connection.send(MetadataRequest(topics=None), MetadataResponse))
    await asyncio.sleep(0)
    await connection.post(ProduceRequest(acks=0), highest=9)
    assert (await connection.send(MetadataRequest(topics=None), MetadataResponse)).cluster_id == "scripted"
    assert (await first).cluster_id == "scripted"
    assert brokers.asked(ProduceRequest)[0].header.api_version == 9
    connection.close()
    with pytest.raises(DisconnectedError, match="is closed"):
        await connection.post(ProduceRequest(acks=0))


@on_loop
async def test_an_address_that_does_not_answer_is_given_up() -> None:
    async def never(_protocol: asyncio.Protocol, _address: Address) -> None:
        await asyncio.Event().wait()

    with pytest.raises(ConnectError, match="no answer within 1 ms"):
        await open_connection(ADDRESS, ClientOptions(connect_timeout_ms=1), dial=never)


@on_loop
async def test_a_host_that_does_not_resolve_says_so() -> None:
    async def unknown(_protocol: asyncio.Protocol, _address: Address) -> None:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(ConnectError, match="cannot connect to host:9001: name or service not known"):
        await open_connection(ADDRESS, dial=unknown)


@on_loop
async def test_a_real_socket_that_refuses_is_reported_like_any_other() -> None:
    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(ConnectError, match=f"cannot connect to 127.0.0.1:{port}: connection refused"):
        await open_connection(Address("127.0.0.1", port))
