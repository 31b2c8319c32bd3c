"""OAUTHBEARER on the broker (security 3): tokens against a key set, which is read again in time."""

import asyncio
import base64
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from tests.broker.asking import metadata
from tests.broker.raw import Raw, Reply
from tests.broker.security.issuer import (
    KEY_OF,
    Issuer,
    claims,
    issuing,
    key_set,
    part,
    public_jwk,
    signed,
    unsecured,
)
from tests.broker.security.secured import Certificates, Login, RunningServer, serving

from kohort import Admin, AuthenticationError
from kohort.broker import key_sets
from kohort.broker.clock import VirtualClock
from kohort.broker.key_sets import KeySet, KeySetSettings
from kohort.client.security import sasl
from kohort.model.errors import ErrorCode, KohortError

BASE = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "connection.failed.authentication.delay.ms": "1",
    "sasl.oauthbearer.expected.issuer": "https://issuer",
    "sasl.oauthbearer.expected.audience": "kafka,other",
}
KEYS_URL = "sasl.oauthbearer.jwks.endpoint.url"
CONFIRMED = b"\x01"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as one:
        yield one


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def running(issuer: Issuer, clock: VirtualClock) -> Iterator[RunningServer]:
    with serving("SASL_PLAINTEXT", settings=BASE | {KEYS_URL: issuer.url}, clock=clock) as server:
        yield server


def now(clock: VirtualClock) -> float:
    return clock.now().wall / 1_000


def first(token: str, authzid: str = "") -> bytes:
    return f"n,{authzid and 'a='}{authzid},\x01auth=Bearer {token}\x01\x01".encode()


def present(raw: Raw, token: str, authzid: str = "") -> Reply:
    login = Login(raw)
    assert login.handshake("OAUTHBEARER").error_code == 0
    return login.token(first(token, authzid))


@pytest.mark.parametrize("algorithm", KEY_OF)
def test_a_good_token_lets_in_for_as_long_as_it_lasts(
    running: RunningServer, clock: VirtualClock, algorithm: str
) -> None:
    """Security scenario 34. See security 9."""
    with Raw(running.address("SASL_PLAINTEXT")) as raw:
        reply = present(raw, signed(claims(now(clock), exp=int(now(clock)) + 60), algorithm))
        assert (reply.error_code, reply.auth_bytes) == (0, b"")
        assert 59_000 <= reply.session_lifetime_ms <= 60_000
        assert metadata(raw).brokers


def test_a_session_ends_with_its_token_unless_a_new_one_is_presented(
    running: RunningServer, clock: VirtualClock
) -> None:
    with Raw(running.address("SASL_PLAINTEXT")) as raw:
        present(raw, signed(claims(now(clock), exp=int(now(clock)) + 60)))
        running.loop.do(lambda: clock.advance(61_000))
        assert present(raw, signed(claims(now(clock)))).error_code == 0
        assert metadata(raw).brokers
        running.loop.do(lambda: clock.advance(3_700_000))
        with pytest.raises(ConnectionError):
            metadata(raw)


def test_another_user_cannot_take_a_session_over(running: RunningServer, clock: VirtualClock) -> None:
    with Raw(running.address("SASL_PLAINTEXT")) as raw:
        present(raw, signed(claims(now(clock))))
        reply = present(raw, signed(claims(now(clock), sub="admin")))
        assert (reply.error_code, reply.error_message) == (
            58,
            "Cannot change principals during re-authentication from User.alice: User.admin",
        )
        assert raw.is_closed()


def test_a_refused_token_gets_a_reason_which_the_client_confirms(
    running: RunningServer, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Security scenario 35. See security 9."""
    with Raw(running.address("SASL_PLAINTEXT")) as raw, caplog.at_level(logging.WARNING):
        token = signed(claims(now(clock), iss="https://elsewhere"))
        reply = present(raw, token)
        assert (reply.error_code, reply.auth_bytes) == (0, b'{"status":"invalid_token"}')
        assert reply.session_lifetime_ms == 0
        reply = Login(raw).token(CONFIRMED)
        assert (reply.error_code, reply.error_message) == (58, '{"status":"invalid_token"}')
        assert raw.is_closed()
    assert "https://elsewhere" in caplog.text
    assert token not in caplog.text


def test_a_second_token_is_looked_at_and_a_third_is_not(running: RunningServer, clock: VirtualClock) -> None:
    bad, good = signed(claims(now(clock), aud="x")), signed(claims(now(clock)))
    with Raw(running.address("SASL_PLAINTEXT")) as raw:
        assert present(raw, bad).auth_bytes
        reply = Login(raw).token(first(good))
        assert (reply.error_code, reply.auth_bytes) == (0, b"")
        assert metadata(raw).brokers
    with Raw(running.address("SASL_PLAINTEXT")) as raw:
        assert present(raw, bad).auth_bytes
        assert Login(raw).token(first(bad)).auth_bytes
        assert Login(raw).token(first(good)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert raw.is_closed()


def test_nothing_is_served_between_a_refusal_and_its_confirmation(
    running: RunningServer, clock: VirtualClock
) -> None:
    with Raw(running.address("SASL_PLAINTEXT")) as raw:
        assert present(raw, signed(claims(now(clock), aud="x"))).auth_bytes
        with pytest.raises(ConnectionError):
            metadata(raw)


def test_an_authorization_id_must_be_the_tokens_user(running: RunningServer, clock: VirtualClock) -> None:
    token = signed(claims(now(clock)))
    with Raw(running.address("SASL_PLAINTEXT")) as raw:
        assert present(raw, token, "alice").error_code == 0
    with Raw(running.address("SASL_PLAINTEXT")) as raw:
        reply = present(raw, token, "admin")
        assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert reply.error_message.endswith(
            "(admin) that is different from the token's principal name (alice)"
        )


def test_a_malformed_first_message_fails_with_the_general_text(running: RunningServer) -> None:
    with Raw(running.address("SASL_PLAINTEXT")) as raw:
        login = Login(raw)
        login.handshake("OAUTHBEARER")
        reply = login.token(b"n,,\x01auth=Basic x\x01\x01")
        assert reply.error_message.endswith("invalid credentials with SASL mechanism OAUTHBEARER")


def test_a_missing_scope_is_named(issuer: Issuer, clock: VirtualClock) -> None:
    more = {KEYS_URL: issuer.url, "kohort.oauthbearer.required.scope": "read write"}
    with serving("SASL_PLAINTEXT", settings=BASE | more, clock=clock) as server:
        with Raw(server.address("SASL_PLAINTEXT")) as raw:
            reply = present(raw, signed(claims(now(clock), scope="read")))
            assert reply.auth_bytes == b'{"status":"insufficient_scope", "scope":"read write"}'
        with Raw(server.address("SASL_PLAINTEXT")) as raw:
            assert present(raw, signed(claims(now(clock), scope="write read"))).auth_bytes == b""


# The key set


def test_a_rotated_key_is_fetched_once_and_invented_keys_cause_few_requests(
    running: RunningServer, issuer: Issuer, clock: VirtualClock
) -> None:
    """Security scenario 36. See security 9."""
    assert issuer.asked == 1
    issuer.keys = key_set(public_jwk("RSA", "rotated"))
    for _ in range(2):
        with Raw(running.address("SASL_PLAINTEXT")) as raw:
            assert present(raw, signed(claims(now(clock)), kid="rotated")).auth_bytes == b""
    assert issuer.asked == 2
    with Raw(running.address("SASL_PLAINTEXT")) as raw:
        token = signed(claims(now(clock)), kid="RSA")
        assert present(raw, token).auth_bytes, "the old key is gone"
    content, signature = signed(claims(now(clock))).split(".")[1:]
    for number in range(1_000):
        header = part({"alg": "RS256", "kid": f"invented-{number}"})
        with Raw(running.address("SASL_PLAINTEXT")) as raw:
            assert present(raw, f"{header}.{content}.{signature}").auth_bytes
    assert issuer.asked <= 3


def test_the_old_keys_stay_while_the_address_does_not_answer(
    running: RunningServer, issuer: Issuer, clock: VirtualClock
) -> None:
    """Security scenario 37. See security 9."""
    issuer.status = 500
    with Raw(running.address("SASL_PLAINTEXT")) as raw:
        assert present(raw, signed(claims(now(clock)), kid="newer")).auth_bytes
    with Raw(running.address("SASL_PLAINTEXT")) as raw:
        assert present(raw, signed(claims(now(clock)))).auth_bytes == b""


def test_a_key_that_is_missing_is_remembered_and_a_failed_reading_is_not(issuer: Issuer) -> None:
    async def look(keys: KeySet, key_id: str) -> int:
        """How often the address was asked for it, apart from the pause between two early readings."""
        before, keys._not_before = issuer.asked, 0.0
        await keys.look_for(key_id)
        return issuer.asked - before

    async def work() -> None:
        keys = KeySet(KeySetSettings(issuer.url))
        await keys.start()
        try:
            assert [await look(keys, "invented") for _ in range(3)] == [1, 0, 0]
            issuer.status = 503
            assert [await look(keys, "rotated") for _ in range(2)] == [1, 1]
            issuer.status, issuer.keys = 200, key_set(public_jwk("RSA", "rotated"))
            assert await look(keys, "rotated") == 1
            assert [key["kid"] for key in keys.keys] == ["rotated"]
            assert await look(keys, "invented") == 0, "it is still missing"
        finally:
            keys.close()

    asyncio.run(work())


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"])
def test_an_address_that_sends_a_byte_now_and_then_is_given_up(
    start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_sets, "_PATIENCE_S", 0.2)
    given_up = threading.Event()

    def drip(listening: socket.socket) -> None:
        peer, _ = listening.accept()
        with peer, contextlib.suppress(OSError):
            peer.recv(4_096)
            peer.sendall(start)
            while not given_up.wait(0.02):
                peer.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/keys"
        try:
            with pytest.raises(KohortError, match="no whole answer within"):
                asyncio.run(KeySet(KeySetSettings(url)).start())
        finally:
            given_up.set()
            thread.join()


def test_keys_are_read_again_in_time_and_after_failures(issuer: Issuer, clock: VirtualClock) -> None:
    more = {
        KEYS_URL: issuer.url,
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "100",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "10",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "20",
    }
    with serving("SASL_PLAINTEXT", settings=BASE | more, clock=clock) as server:
        issuer.status = 503
        issuer.wait_until_asked(3)
        issuer.status, issuer.keys = 200, key_set(public_jwk("P-256", "next"))
        issuer.wait_until_asked(2)  # who asks again has taken the answer before
        with Raw(server.address("SASL_PLAINTEXT")) as raw:
            assert present(raw, signed(claims(now(clock)), "ES256", kid="next")).auth_bytes == b""


def test_a_file_is_read_again_when_it_changes(tmp_path: Path, clock: VirtualClock) -> None:
    file = tmp_path / "keys.json"
    file.write_text(key_set(public_jwk("RSA")))
    with serving("SASL_PLAINTEXT", settings=BASE | {KEYS_URL: file.as_uri()}, clock=clock) as server:
        with Raw(server.address("SASL_PLAINTEXT")) as raw:
            assert present(raw, signed(claims(now(clock)))).auth_bytes == b""
        (tmp_path / "new").write_text(key_set(public_jwk("P-256")))
        (tmp_path / "new").rename(file)
        server.loop.do(server.server.reload_certificates)
        with Raw(server.address("SASL_PLAINTEXT")) as raw:
            assert present(raw, signed(claims(now(clock)), "ES256")).auth_bytes == b""
        with Raw(server.address("SASL_PLAINTEXT")) as raw:
            assert present(raw, signed(claims(now(clock)))).auth_bytes, "the key was taken out"


STARTS: dict[str, tuple[dict[str, str], str]] = {
    "no keys": ({}, "needs the keys"),
    "an address without TLS": ({KEYS_URL: "http://example.com/keys"}, "must begin with https"),
    "no such file": ({KEYS_URL: "file:/none/keys.json"}, "no such file"),
    "an address that does not answer": ({KEYS_URL: "http://127.0.0.1:1/"}, "cannot be read"),
    "a password in the address": ({KEYS_URL: "https://me:hidden@127.0.0.1:1/"}, "user or a password"),
    "a query with a secret": ({KEYS_URL: "http://127.0.0.1:1/?key=hidden"}, "cannot be read"),
    "a control character in the query": ({KEYS_URL: "http://127.0.0.1:1/?key=hidden\x7f"}, "not a URL"),
    "a space in the query": ({KEYS_URL: "http://127.0.0.1:1/?key= hidden"}, "not a URL"),
    "an empty label of a host": ({KEYS_URL: "https://a..b/?hidden"}, "not a URL"),
    "an open bracket": ({KEYS_URL: "https://[hidden/"}, "not a URL"),
    "a port that is no number": ({KEYS_URL: "https://host:hidden/"}, "not a URL"),
    "no host": ({KEYS_URL: "https:///hidden"}, "must begin with https"),
    "a file with a zero in its name": ({KEYS_URL: "file:///x%00hidden"}, "not a URL"),
    "neither issuer nor audience": (
        {
            KEYS_URL: "file:/none",
            "sasl.oauthbearer.expected.issuer": "",
            "sasl.oauthbearer.expected.audience": "",
        },
        "every token that the keys have signed",
    ),
}


@pytest.mark.parametrize("case", STARTS)
def test_a_broker_does_not_start_without_knowing_whom_to_believe(case: str) -> None:
    more, why = STARTS[case]
    with (
        pytest.raises(KohortError, match=f"(?i){why}") as refused,
        serving("SASL_PLAINTEXT", settings=BASE | more),
    ):
        pytest.fail("it started")
    assert "hidden" not in f"{refused.value!r} {refused.value}"


@pytest.mark.parametrize(("status", "redirect"), [(404, ""), (200, "https://127.0.0.1:1/keys")])
def test_an_answer_that_is_no_key_set_stops_the_start(issuer: Issuer, status: int, redirect: str) -> None:
    issuer.status, issuer.redirect = status, redirect
    with (
        pytest.raises(KohortError, match="answered"),
        serving("SASL_PLAINTEXT", settings=BASE | {KEYS_URL: issuer.url}),
    ):
        pytest.fail("it started")
    assert issuer.asked == 1


def test_tokens_without_a_signature_need_a_switch(clock: VirtualClock) -> None:
    settings = {"sasl.enabled.mechanisms": "OAUTHBEARER", "kohort.oauthbearer.unsecured": "true"}
    with (
        serving("SASL_PLAINTEXT", settings=settings, clock=clock) as server,
        Raw(server.address("SASL_PLAINTEXT")) as raw,
    ):
        assert present(raw, unsecured(claims(now(clock)))).auth_bytes == b""


# Clients


class Source:
    """A provider of tokens for our clients."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


@pytest.fixture
def secured(issuer: Issuer, tmp_path: Path) -> Iterator[tuple[RunningServer, Certificates]]:
    certificates = Certificates(tmp_path)
    settings = certificates.settings() | BASE | {KEYS_URL: issuer.url}
    with serving("SASL_SSL", settings=settings) as server:
        yield server, certificates


def ours(certificates: Certificates, **more: object) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": certificates.ca,
        "sasl_mechanism": "OAUTHBEARER",
        **more,
    }


def test_our_client_gets_in_and_a_bad_token_is_an_error_at_once(
    secured: tuple[RunningServer, Certificates],
) -> None:
    server, certificates = secured
    clock = server.server.broker.clock
    good, bad = (signed(claims(clock.now().wall / 1_000, sub=user)) for user in ("alice", "  "))
    address = server.address("SASL_SSL")
    with Admin(address, **ours(certificates, sasl_oauth_token_provider=Source(good))) as admin:
        assert admin.describe_cluster().nodes
    with (
        pytest.raises(AuthenticationError, match="does not accept the token: invalid_token"),
        Admin(address, **ours(certificates, sasl_oauth_token_provider=Source(bad))),
    ):
        pytest.fail("it got in")


def test_librdkafka_gets_in(secured: tuple[RunningServer, Certificates]) -> None:
    server, certificates = secured
    time = server.server.broker.clock.now().wall / 1_000
    settings: dict[str, Any] = {
        "bootstrap.servers": server.address("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": certificates.ca,
        "sasl.mechanisms": "OAUTHBEARER",
        "oauth_cb": lambda _: (signed(claims(time)), time + 3_600),
    }
    confluent = AdminClient(settings)
    assert confluent.list_topics(timeout=20).brokers


def from_endpoint(certificates: Certificates, url: str) -> dict[str, Any]:
    return ours(
        certificates,
        sasl_oauth_token_endpoint=f"{url}/token",
        sasl_oauth_client_id="service",
        sasl_oauth_client_secret="canary-secret",
        sasl_oauth_scope="read write",
    )


def test_a_client_asks_its_endpoint_for_a_token_and_keeps_it(
    secured: tuple[RunningServer, Certificates], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, certificates = secured
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.issue("endpoint"))
    monkeypatch.setenv("SSL_CERT_FILE", certificates.ca)
    now_s = server.server.broker.clock.now().wall / 1_000
    with issuing(context) as endpoint:
        endpoint.answer = {"access_token": signed(claims(now_s)), "expires_in": 3_600}
        with Admin(server.address("SASL_SSL"), **from_endpoint(certificates, endpoint.url)) as admin:
            assert admin.describe_cluster().nodes
            assert admin.list_topics() is not None
        assert endpoint.posts == [
            ("Basic c2VydmljZTpjYW5hcnktc2VjcmV0", "grant_type=client_credentials&scope=read+write")
        ]


ENDPOINTS: dict[str, tuple[int, dict[str, Any], str, str]] = {
    "wrong secret": (401, {}, "", "answered 401"),
    "redirect": (200, {}, "http://127.0.0.1:1/", "answered 302"),
    "no token": (200, {"token": "x"}, "", "has no access_token"),
    "empty token": (200, {"access_token": ""}, "", "has no access_token"),
}


@pytest.mark.parametrize("case", ENDPOINTS)
def test_an_endpoint_that_refuses_is_an_error_at_once_and_asked_once(
    secured: tuple[RunningServer, Certificates], case: str
) -> None:
    server, certificates = secured
    with issuing() as endpoint:
        endpoint.status, endpoint.answer, endpoint.redirect, why = ENDPOINTS[case]
        with (
            pytest.raises(AuthenticationError, match=why) as refused,
            Admin(server.address("SASL_SSL"), **from_endpoint(certificates, endpoint.url)),
        ):
            pytest.fail("it got in")
        assert "canary" not in str(refused.value)
        assert len(endpoint.posts) == 1


def test_an_endpoint_that_is_out_of_order_is_asked_again(
    secured: tuple[RunningServer, Certificates], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, certificates = secured
    pauses: list[float] = []
    now_s = server.server.broker.clock.now().wall / 1_000
    with issuing() as endpoint:
        endpoint.status = 503
        endpoint.answer = {"access_token": signed(claims(now_s)), "expires_in": 3_600}

        async def pause(seconds: float) -> None:
            pauses.append(seconds)
            endpoint.status = 200 if len(pauses) == 3 else 503

        monkeypatch.setattr(sasl, "asyncio", Namespace(**vars(asyncio) | {"sleep": pause}))
        settings = from_endpoint(certificates, endpoint.url) | {"sasl_oauth_header_urlencode": True}
        settings["sasl_oauth_client_secret"] = "a b&c"
        with Admin(server.address("SASL_SSL"), **settings) as admin:
            assert admin.describe_cluster().nodes
        assert pauses == [0.1, 0.2, 0.4]
        assert {base64.b64decode(login.removeprefix("Basic ")) for login, _ in endpoint.posts} == {
            b"service:a+b%26c"
        }
