"""Log-in on a connection: mechanisms, refusals, and sessions that are renewed in order."""

import asyncio
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from tests.unit.client.scripted import HASTY, ScriptedCluster, on_loop

from kohort.client.addresses import Address
from kohort.client.connection import ClientConnection, open_connection
from kohort.client.errors import ApiNotServedError, AuthenticationError, ConnectError
from kohort.client.security import sasl
from kohort.client.security.entry import ClientSecurity
from kohort.client.security.sasl import SaslSession
from kohort.client.security.settings import SecuritySettings
from kohort.client.settings import secured
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.security.scram import (
    ScramMechanism,
    ScramServer,
    credential_of,
    read_client_first,
    salted_password,
)
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

ADDRESS = Address("host", 9001)
SALT = b"salt"


class Guard:
    """The broker's side: takes one user's password by each mechanism, and a token."""

    def __init__(self, brokers: ScriptedCluster, lifetime_ms: int = 0) -> None:
        self.lifetime_ms = lifetime_ms
        self.signature_changes: Callable[[bytes], bytes] = bytes
        self.password = "secret"
        self.mechanism = ""
        self.words = "Authentication failed: no"
        self.tokens: list[bytes] = []
        self._scram: ScramServer | None = None
        brokers.on(SaslHandshakeRequest, self._handshake)
        brokers.on(SaslAuthenticateRequest, self._authenticate)
        brokers.on(ListGroupsRequest, lambda _: ListGroupsResponse())

    def _handshake(self, request: SaslHandshakeRequest) -> Message:
        self.mechanism, self._scram = request.mechanism, None
        offered = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        offered += ["OAUTHBEARER"] if self.password else []
        code = 0 if request.mechanism in offered else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return SaslHandshakeResponse(error_code=code, mechanisms=offered)

    def _authenticate(self, request: SaslAuthenticateRequest) -> Message:
        self.tokens.append(request.auth_bytes)
        if self.mechanism == "PLAIN":
            is_right = request.auth_bytes == f"\0alice\0{self.password}".encode()
            return self._end() if is_right else self._refusal()
        if self.mechanism == "OAUTHBEARER":
            return self._bearer(request.auth_bytes)
        return self._scrammed(request.auth_bytes)

    def _bearer(self, token: bytes) -> Message:
        if token == b"\x01":
            return self._refusal()
        if b"auth=Bearer good\x01" in token:
            return self._end()
        return SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}')

    def _scrammed(self, token: bytes) -> Message:
        mechanism = ScramMechanism(self.mechanism)
        if self._scram is None:
            salted = salted_password(mechanism, self.password, SALT, 4_096)
            known = credential_of(mechanism, salted, SALT, 4_096)
            self._scram = ScramServer(mechanism, read_client_first(token), known, "nonce")
            return SaslAuthenticateResponse(auth_bytes=self._scram.challenge())
        return self._end(self.signature_changes(self._scram.finish(token)))

    def _end(self, token: bytes = b"") -> Message:
        return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=self.lifetime_ms)

    def _refusal(self) -> Message:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=self.words
        )


async def enter(brokers: ScriptedCluster, **more: Any) -> ClientConnection:  # noqa: ANN401 (any setting)
    given = {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
    }  # fmt: skip
    return await open_connection(ADDRESS, secured(HASTY, given | more, is_text=False), dial=brokers.dial)


def bearer(provider: object) -> dict[str, object]:
    return {
        "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider,
        "sasl_plain_username": None, "sasl_plain_password": None,
    }  # fmt: skip


class DeferredResponse:
    """A provider whose token takes a while, with extensions."""

    async def token(self) -> str:
        await asyncio.sleep(0)
        return "good"

    def extensions(self) -> dict[str, str]:
        return {"logicalCluster": "one"}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@on_loop
async def test_a_user_logs_in_before_anything_else_is_asked(mechanism: str) -> None:
    brokers = ScriptedCluster()
    Guard(brokers)
    connection = await enter(brokers, sasl_mechanism=mechanism)
    await connection.send(MetadataRequest(), MetadataResponse)
    names = [type(one.request).__name__.removesuffix("Request") for one in brokers.received]
    rounds = 1 if mechanism == "PLAIN" else 2
    assert names == [
        "ApiVersions", "SaslHandshake", *["SaslAuthenticate"] * rounds, "Metadata",
    ]  # fmt: skip


@on_loop
async def test_a_token_is_sent_with_its_extensions() -> None:
    brokers = ScriptedCluster()
    guard = Guard(brokers)
    await enter(brokers, **bearer(DeferredResponse()))
    assert guard.tokens == [b"n,,\x01auth=Bearer good\x01logicalCluster=one\x01\x01"]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (
            {"sasl_plain_password": "wrong"},
            "does not accept user 'alice' with PLAIN: Authentication failed: no",
        ),
        (bearer(lambda: "bad"), "does not accept the token: invalid_token"),
        (bearer(lambda: None), "gave NoneType instead of a token"),
    ],
)
def test_a_refused_log_in_is_an_error_at_once(settings: dict[str, object], why: str) -> None:
    @on_loop
    async def run() -> None:
        brokers = ScriptedCluster()
        Guard(brokers)
        with pytest.raises(AuthenticationError, match=why) as refused:
            await enter(brokers, **settings)
        assert not refused.value.retriable
        assert "wrong" not in str(refused.value)
        assert len(brokers.dialled) == 1
        await asyncio.sleep(0)
        assert not brokers.open

    run()


@on_loop
async def test_a_mechanism_that_is_not_offered_is_refused_with_those_that_are() -> None:
    brokers = ScriptedCluster()
    Guard(brokers).password = ""
    with pytest.raises(AuthenticationError, match=r"OAUTHBEARER \(it offers PLAIN, SCRAM-SHA-256"):
        await enter(brokers, **bearer(lambda: "good"))


@on_loop
async def test_a_broker_that_is_too_old_to_frame_tokens_is_named() -> None:
    """Kafka before 1.0 takes tokens without a header; our client does not speak to it."""
    brokers = ScriptedCluster()
    Guard(brokers)
    assert SaslAuthenticateRequest.api_key is not None
    del brokers.peers[1].served[SaslAuthenticateRequest.api_key]
    with pytest.raises(ApiNotServedError, match="SaslAuthenticate"):
        await enter(brokers)


@on_loop
async def test_a_listener_without_sasl_is_named() -> None:
    brokers = ScriptedCluster()
    brokers.on(SaslHandshakeRequest, lambda _: SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
    with pytest.raises(AuthenticationError, match="has no SASL"):
        await enter(brokers)


@on_loop
async def test_a_refusal_without_words_has_the_name_of_its_code() -> None:
    brokers = ScriptedCluster()
    guard = Guard(brokers)
    guard.words = ""
    with pytest.raises(AuthenticationError, match="with PLAIN: SASL_AUTHENTICATION_FAILED"):
        await enter(brokers, sasl_plain_password="wrong")
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    brokers.on(SaslHandshakeRequest, lambda _: SaslHandshakeResponse(error_code=code))
    with pytest.raises(AuthenticationError, match="handshake: UNKNOWN_SERVER_ERROR"):
        await enter(brokers)


@on_loop
async def test_a_server_that_cannot_prove_that_it_knows_the_password_is_refused() -> None:
    """Security scenario 28. See security 9."""
    brokers = ScriptedCluster()
    guard = Guard(brokers)
    guard.signature_changes = lambda signature: signature.replace(b"v=", b"v=AAAA")
    with pytest.raises(AuthenticationError, match="signature is wrong"):
        await enter(brokers, sasl_mechanism="SCRAM-SHA-256")


@on_loop
async def test_a_client_asks_all_its_connections_and_retries_nothing_after_a_refusal() -> None:
    brokers = ScriptedCluster(nodes=2)
    guard = Guard(brokers)
    given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "alice",
             "sasl_plain_password": "secret"}  # fmt: skip
    async with brokers.client(secured(HASTY, given, is_text=False)) as cluster:
        guard.password = "changed"
        with pytest.raises(AuthenticationError):
            await cluster.ask(2, ListGroupsRequest(), ListGroupsResponse)
        assert len(brokers.dialled) == 2


@on_loop
async def test_after_a_refusal_the_same_client_waits_before_it_dials_there_again() -> None:
    brokers = ScriptedCluster()
    guard = Guard(brokers)
    guard.password = "changed"
    settings = SecuritySettings(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_plain_username="alice",
        sasl_plain_password="secret",
    )  # fmt: skip
    security = ClientSecurity(settings)
    security.refused(ADDRESS, 50)
    waited = asyncio.create_task(security.pause(ADDRESS))
    await asyncio.sleep(0)
    assert not waited.done()
    await security.pause(Address("other", 1))
    await waited


def due(connection: ClientConnection) -> SaslSession:
    session = connection._session
    assert session is not None
    session._renew_at = session._now()
    return session


@on_loop
async def test_a_session_is_renewed_between_requests_and_requests_keep_their_order() -> None:
    brokers = ScriptedCluster()
    guard = Guard(brokers, lifetime_ms=60_000)
    connection = await enter(brokers, sasl_mechanism="SCRAM-SHA-256")
    early = asyncio.create_task(connection.send(ListGroupsRequest(), ListGroupsResponse))
    await asyncio.sleep(0)
    brokers.received.clear()
    session = due(connection)
    later = [
        asyncio.create_task(connection.send(ListGroupsRequest(states_filter=[str(n)]), ListGroupsResponse))
        for n in range(5)
    ]
    await asyncio.gather(early, *later)
    names = [type(one.request).__name__.removesuffix("Request") for one in brokers.received]
    assert names == ["ListGroups", "SaslHandshake", *["SaslAuthenticate"] * 2, *["ListGroups"] * 5]
    asked = [one.request.states_filter for one in brokers.asked(ListGroupsRequest)]  # type: ignore[attr-defined]
    assert asked == [[], ["0"], ["1"], ["2"], ["3"], ["4"]]
    assert session.is_ready
    assert len(guard.tokens) == 4


@on_loop
async def test_a_renewal_goes_on_when_the_request_that_caused_it_is_cancelled() -> None:
    brokers = ScriptedCluster()
    Guard(brokers, lifetime_ms=60_000)
    connection = await enter(brokers, sasl_mechanism="SCRAM-SHA-256")
    for turns in range(12):  # cancelled before, in each step of, and after the renewal
        brokers.received.clear()
        due(connection)
        asked = asyncio.create_task(connection.send(ListGroupsRequest(), ListGroupsResponse))
        for _ in range(turns):
            await asyncio.sleep(0)
        asked.cancel()
        await connection.send(ListGroupsRequest(states_filter=["next"]), ListGroupsResponse)
        names = [type(one.request).__name__.removesuffix("Request") for one in brokers.received]
        assert names[:3] == ["SaslHandshake", "SaslAuthenticate", "SaslAuthenticate"]
        assert set(names[3:]) == {"ListGroups"}
        await asyncio.gather(asked, return_exceptions=True)


@on_loop
async def test_a_refused_renewal_ends_the_connection_for_all_that_wait() -> None:
    brokers = ScriptedCluster()
    guard = Guard(brokers, lifetime_ms=60_000)
    connection = await enter(brokers)
    guard.password = "changed"
    due(connection)
    asked = [connection.send(ListGroupsRequest(), ListGroupsResponse) for _ in range(2)]
    first, second = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(first, AuthenticationError)
    assert isinstance(second, Exception)
    assert not connection.is_open


@on_loop
async def test_a_session_goes_on_while_the_source_of_tokens_cannot_be_reached() -> None:
    class Failing:
        fails = False

        def token(self) -> str:
            if self.fails:
                raise ConnectError("cannot reach it", hint="")
            return "good"

    brokers, provider = ScriptedCluster(), Failing()
    Guard(brokers, lifetime_ms=60_000)
    connection = await enter(brokers, **bearer(provider))
    provider.fails = True
    session = due(connection)
    await connection.send(ListGroupsRequest(), ListGroupsResponse)
    assert session.is_ready
    assert session._renew_at is not None


@on_loop
async def test_a_provider_that_raises_ends_the_connection_it_was_asked_for() -> None:
    class Failing:
        fails = False

        def token(self) -> str:
            if self.fails:
                raise RuntimeError("of the user's own")
            return "good"

    brokers, provider = ScriptedCluster(), Failing()
    Guard(brokers, lifetime_ms=60_000)
    connection = await enter(brokers, **bearer(provider))
    provider.fails = True
    due(connection)
    with pytest.raises(RuntimeError, match="of the user's own"):
        await connection.send(ListGroupsRequest(), ListGroupsResponse)
    assert not connection.is_open, "another one is opened, and the provider is asked again"


@on_loop
async def test_a_provider_that_never_answers_ends_the_connection_in_time() -> None:
    class Silent:
        is_silent = False

        async def token(self) -> str:
            if self.is_silent:
                await asyncio.Event().wait()
            return "good"

    brokers, provider = ScriptedCluster(), Silent()
    Guard(brokers, lifetime_ms=60_000)
    connection = await enter(brokers, **bearer(provider))
    provider.is_silent = True
    due(connection)
    with (
        mock.patch.object(sasl, "_PATIENCE_SECONDS", 0.01),
        pytest.raises(ConnectError, match="a new log-in took more than"),
    ):
        await connection.send(ListGroupsRequest(), ListGroupsResponse)
    assert not connection.is_open
