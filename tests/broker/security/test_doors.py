"""Peers at the doors: slow, silent, of the wrong kind, with keys of any form (security 9)."""

import logging
import os
import pty
import re
import socket
import ssl
import subprocess
import sys
import warnings
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization as forms
from tests.broker.asking import metadata
from tests.broker.raw import Raw
from tests.broker.security.secured import USERS, Certificates, Login, RawTls, RunningServer, serving

from kohort import Admin, Producer
from kohort.broker.settings import Settings
from kohort.client.consumer.sync_consumer import Consumer
from kohort.model.errors import ErrorCode, KohortError
from kohort.security.listeners import Listener, SecurityProtocol
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

CANARY = "canary-of-a-secret"
BROKER_RESOURCE = 4
SASL = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
    "connection.failed.authentication.delay.ms": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


# Peers of the wrong kind


def test_a_tls_hello_at_a_listener_without_tls_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Security scenario 4. Given PLAINTEXT, when a TLS hello comes, then it is closed without bytes and the
    log names TLS.
    """
    with serving("PLAINTEXT", settings={}) as running, Raw(running.address("PLAINTEXT")) as raw:
        raw.send_bytes(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        assert raw.is_closed()
    assert "TLS handshake: the peer is set to SSL" in caplog.text


def test_our_client_without_tls_says_that_the_listener_has_it(certificates: Certificates) -> None:
    """Security scenario 5. Given SSL, when our client comes without TLS, then its error names TLS."""
    with (
        serving("SSL", settings=certificates.settings()) as running,
        pytest.raises(KohortError, match="For TLS set security_protocol"),
        Admin(running.address("SSL")),
    ):
        pytest.fail("it got in")


@pytest.mark.parametrize(
    ("certificate", "why"),
    [("", "require a client certificate"), ("foreign", "trust the authority of ssl_certfile")],
)
def test_our_client_whose_certificate_is_missing_or_refused_says_so(
    certificates: Certificates, tmp_path: Path, certificate: str, why: str
) -> None:
    (tmp_path / "foreign").mkdir()
    foreign = Certificates(tmp_path / "foreign", "another").issue("alice")
    more: dict[str, Any] = {"ssl_certfile": foreign} if certificate else {}
    with (
        serving("SSL", settings=certificates.settings(ssl_client_auth="required")) as running,
        pytest.raises(KohortError) as refused,
        Admin(running.address("SSL"), security_protocol="SSL", ssl_cafile=certificates.ca, **more),
    ):
        pytest.fail("it got in")
    assert why in str(refused.value)


def test_a_client_of_an_old_tls_version_is_refused(certificates: Certificates) -> None:
    """Security scenario 16. Given TLS 1.2 and 1.3, when a client of TLS 1.1 comes, then it is refused."""
    context = certificates.client_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with (
        serving("SSL", settings=certificates.settings()) as running,
        pytest.raises(OSError, match=r"(?i)alert|version|protocol|closed|reset|EOF"),
    ):
        RawTls(running.address("SSL"), context)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_that_does_not_trust_the_certificate_is_named(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, version: ssl.TLSVersion
) -> None:
    context = ssl.create_default_context()
    context.minimum_version = context.maximum_version = version
    with serving("SSL", settings=certificates.settings()) as running:
        with pytest.raises(ssl.SSLCertVerificationError):
            RawTls(running.address("SSL"), context)
        with RawTls(running.address("SSL"), certificates.client_context()) as other:
            assert metadata(other).brokers
    assert re.search(r"handshake of listener SSL: .*(trust|unknown ca)", caplog.text), caplog.text


# Slow and silent ones


@pytest.mark.parametrize(
    "sent", [b"", b"\x16", b"\x16\x03\x01\x02\x00"], ids=["nothing", "1 byte", "5 bytes"]
)
def test_a_handshake_that_does_not_come_on_is_given_up(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Security scenario 6. Given SSL, when a peer sends nothing, then it is closed when its time is up."""
    monkeypatch.setattr("kohort.broker.listening._HANDSHAKE_S", 0.2)
    with (
        serving("SSL", settings=certificates.settings()) as running,
        Raw(running.address("SSL")) as silent,
    ):
        silent.send_bytes(sent)
        assert silent.is_closed()
    assert "did not finish the TLS handshake of listener SSL" in caplog.text


def test_a_handshake_byte_by_byte_is_given_up_when_its_time_is_up(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Security scenario 7. Given SSL, when the hello comes byte by byte, then no byte gives it more time."""
    monkeypatch.setattr("kohort.broker.listening._HANDSHAKE_S", 0.3)
    with (
        serving("SSL", settings=certificates.settings()) as running,
        Raw(running.address("SSL")) as slow,
    ):
        hello = b"\x16\x03\x01\x7f\xff" + bytes(20_000)
        slow.socket.settimeout(0.01)
        sent = 0
        while sent < len(hello):
            try:
                slow.send_bytes(hello[sent : sent + 1])
                sent += 1
                if slow.receive_once() == b"":
                    break
            except TimeoutError:
                continue  # it listens still
            except ConnectionError:
                break
        assert 1 < sent < len(hello)


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
def test_others_work_on_while_hundreds_of_peers_never_finish(
    certificates: Certificates, listener: str
) -> None:
    """Security scenario 60. Given connections that stop before the log-in, then others log in, and the limits
    of section 8 hold. (10,000 of them: ``test_thousands_of_peers_that_never_finish``.)
    """
    with serving(listener, settings=certificates.settings() | SASL) as running:
        silent = [Raw(running.address(listener)) for _ in range(200)]
        try:
            for _ in range(3):
                log_in_and_ask(running, certificates, listener)
            assert unfinished(running, listener) <= 32
        finally:
            for each in silent:
                each.close()


def log_in_and_ask(running: RunningServer, certificates: Certificates, listener: str) -> None:
    address = running.address(listener)
    has_tls = listener in ("SSL", "SASL_SSL")
    with RawTls(address, certificates.client_context()) if has_tls else Raw(address) as other:
        if listener.startswith("SASL"):
            assert Login(other).plain("alice", USERS["alice"]).error_code == 0
        assert metadata(other).brokers


def calls_of_a_log_in(running: RunningServer, certificates: Certificates, listener: str) -> int:
    """How many functions the broker's loop calls meanwhile: work that no other process changes."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    running.loop.do(lambda: sys.setprofile(count))
    log_in_and_ask(running, certificates, listener)
    running.loop.do(lambda: sys.setprofile(None))
    return calls


def unfinished(running: RunningServer, listener: str) -> int:
    """Peers that the broker keeps although they have not finished their handshake or log-in."""
    (endpoint,) = running.server.broker.endpoints
    (opened,) = running.server._listeners

    async def count() -> int:
        waiting = len(endpoint.sasl.half_open._waiting) if endpoint.sasl is not None else 0
        return len(opened._handshakes) + waiting

    return running.loop.submit(count()).result()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("count", "hosts", "limit"),
    [(10_000, 1, 32), (2_000, 250, 256)],
    ids=["10,000 of one host", "2,000 of 250 hosts"],
)
@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
def test_thousands_of_peers_that_never_finish(
    certificates: Certificates, listener: str, count: int, hosts: int, limit: int
) -> None:
    """Security scenario 60. Silent and slow peers cost some megabytes; a log-in waits for none of them, and
    is no more work.
    """

    def megabytes() -> float:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    with serving(listener, settings=certificates.settings() | SASL) as running:
        log_in_and_ask(running, certificates, listener)
        alone, work = calls_of_a_log_in(running, certificates, listener), 0
        before, most, peers = megabytes(), 0, deque[socket.socket]()
        try:
            for number in range(count):
                source = (f"127.0.1.{number % hosts + 1}", 0)
                peers.append(socket.create_connection(("127.0.0.1", running.ports[listener]), 30, source))
                if number % 2:
                    peers[-1].sendall(b"\x16\x03\x01\x02" if "SSL" in listener else b"\0\0\0\x30\0")
                if len(peers) > 2_000:  # the broker has closed it
                    peers.popleft().close()
                if number % 100 == 99:
                    log_in_and_ask(running, certificates, listener)  # behind those that have just come
                    work = max(work, calls_of_a_log_in(running, certificates, listener))
                    most = max(most, unfinished(running, listener))
            grown = megabytes() - before
        finally:
            for each in peers:
                each.close()
    print(f"{listener}, {hosts} hosts: {grown:.1f} MB for {count:,} peers, at most {most} unfinished")
    print(f"a log-in: {alone} calls of functions alone, at most {work} among them")
    assert most <= limit
    assert work < 2 * alone
    assert grown < 20 + 0.4 * most  # asyncio has a buffer of 256 KiB for each connection with TLS


# Keys of any form


def private_key(text: str) -> bytes:
    return (text.partition("-----END PRIVATE KEY-----\n")[0] + "-----END PRIVATE KEY-----\n").encode()


def in_form(certificates: Certificates, form: forms.PrivateFormat, password: str = "") -> str:
    """The broker's certificate with its key written otherwise."""
    text = Path(certificates.broker).read_text()
    key = forms.load_pem_private_key(private_key(text), None)
    locked = forms.BestAvailableEncryption(password.encode()) if password else forms.NoEncryption()
    chain = text.partition("-----END PRIVATE KEY-----\n")[2]
    written = key.private_bytes(forms.Encoding.PEM, form, locked).decode()
    return certificates.write("other.pem", f"a note\n{written}\nanother\n{chain}")


@pytest.mark.parametrize("form", [forms.PrivateFormat.PKCS8, forms.PrivateFormat.TraditionalOpenSSL])
def test_keys_of_each_form_of_openssl_are_read_whatever_stands_around_them(
    certificates: Certificates, form: forms.PrivateFormat
) -> None:
    """Security scenario 15. Given PKCS#8, or the older form, in any surrounding text, then it loads."""
    settings = certificates.settings(ssl_keystore_location=in_form(certificates, form))
    with (
        serving("SSL", settings=settings) as running,
        RawTls(running.address("SSL"), certificates.client_context()) as raw,
    ):
        assert metadata(raw).brokers


@pytest.mark.parametrize("form", [forms.PrivateFormat.PKCS8, forms.PrivateFormat.TraditionalOpenSSL])
def test_an_encrypted_key_needs_its_password(certificates: Certificates, form: forms.PrivateFormat) -> None:
    """Security scenario 14. Given an encrypted key, when the password is missing or wrong, then a named error
    says so, and shows no password.
    """
    location = in_form(certificates, form, CANARY)
    for password, why in ((None, r"ssl\.key\.password is not set"), ("wrong-canary", "cannot be used")):
        given = {} if password is None else {"ssl_key_password": password}
        settings = certificates.settings(ssl_keystore_location=location, **given)
        with pytest.raises(KohortError, match=why) as refused, serving("SSL", settings=settings):
            pass
        assert "canary" not in str(refused.value)
    settings = certificates.settings(ssl_keystore_location=location, ssl_key_password=CANARY)
    with (
        serving("SSL", settings=settings) as running,
        RawTls(running.address("SSL"), certificates.client_context()) as raw,
    ):
        assert metadata(raw).brokers


@pytest.mark.slow
def test_no_question_for_a_password_is_asked_on_the_terminal(certificates: Certificates) -> None:
    """Security scenario 14. Given an encrypted key, a terminal and no password, then the broker ends with an
    error instead of a question.
    """
    location = in_form(certificates, forms.PrivateFormat.PKCS8, CANARY)
    ours, theirs = pty.openpty()
    try:
        command = [
            *(sys.executable, "-m", "kohort.cli.main", "serve", "--memory", "--listen", "SSL://127.0.0.1:0"),
            *("--set", "ssl.keystore.type=PEM", "--set", f"ssl.keystore.location={location}"),
        ]
        done = subprocess.run(
            command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 1
    assert "ssl.key.password is not set" in done.stderr


# Sessions of our clients


@pytest.mark.slow
def test_our_clients_log_in_again_on_their_connections_while_records_flow() -> None:
    """Security scenario 41. Given sessions of 1.5 s, when records flow for several of them, then there is no
    error, no new connection, and the order is kept.
    """
    with serving("SASL_PLAINTEXT", settings=SASL | {"connections.max.reauth.ms": "1500"}) as running:
        renewed = count_log_ins(running)
        settings: dict[str, Any] = {
            "bootstrap_servers": running.address("SASL_PLAINTEXT"),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": "alice",
            "sasl_plain_password": USERS["alice"],
        }
        found: list[int] = []
        with (
            Producer(**settings) as producer,
            Consumer(**settings, group_id="g", auto_offset_reset="earliest") as consumer,
        ):
            consumer.subscribe(["t"])
            sent = 0
            while len(renewed) < 10:
                producer.send("t", str(sent).encode()).result(30)
                sent += 1
                batches = consumer.poll(timeout_ms=20).values()
                found += [int(one.value or b"") for batch in batches for one in batch]
                if len(renewed) <= 6:
                    connections = set(running.server._connections)
            while len(found) < sent:
                batches = consumer.poll(timeout_ms=100).values()
                found += [int(one.value or b"") for batch in batches for one in batch]
            assert connections <= set(running.server._connections)
        assert found == list(range(sent))


def count_log_ins(running: RunningServer) -> list[str]:
    """Each log-in of the broker adds its mechanism to the list."""
    (endpoint,) = running.server.broker.endpoints
    assert endpoint.sasl is not None
    log_ins: list[str] = []
    begin = endpoint.sasl.exchange

    def counted(mechanism: str, broker: object) -> object:
        log_ins.append(mechanism)
        return begin(mechanism, broker)  # type: ignore[arg-type]  # passed on

    endpoint.sasl.exchange = counted  # type: ignore[method-assign,assignment]  # for this test
    return log_ins


# Secrets


def test_no_secret_of_the_broker_is_shown_by_anything(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Security scenario 58. Given a broker with a canary in each of its secrets, then representations,
    DescribeConfigs and the log at debug level do not have it.
    """
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_dora="{CANARY}";'
    settings = certificates.settings(
        ssl_keystore_location=in_form(certificates, forms.PrivateFormat.PKCS8, CANARY),
        ssl_key_password=CANARY,
    )
    settings |= SASL | {"listener.name.sasl_ssl.plain.sasl.jaas.config": jaas, "sasl.jaas.config": jaas}
    caplog.set_level(logging.DEBUG)
    with serving("SASL_SSL", settings=settings, data=tmp_path / "data") as running:
        address, context = running.address("SASL_SSL"), certificates.client_context()
        with RawTls(address, context) as raw:
            assert Login(raw).plain("dora", CANARY).error_code == 0
            names = [*settings, "ssl.keystore.key", "ssl.truststore.password"]
            for keys in (None, names):
                asked = DescribeConfigsResource(
                    resource_type=BROKER_RESOURCE, resource_name="1", configuration_keys=keys
                )
                reply = raw.send(
                    DescribeConfigsRequest(
                        resources=[asked], include_synonyms=True, include_documentation=True
                    ),
                    4,
                )
                configs = {one.name: one for one in reply.results[0].configs}
                assert configs["ssl.key.password"].is_sensitive
                assert configs["ssl.key.password"].value is None
                assert CANARY not in repr(reply)
        with RawTls(address, context) as raw:
            assert (
                Login(raw).plain("dora", f"{CANARY}-wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            )
        server = running.server
        (endpoint,) = server.broker.endpoints
        shown = [server._settings, endpoint, endpoint.sasl, endpoint.tls, server.broker, server.broker.users]
        assert not [each for each in shown if CANARY in repr(each) + str(each)]
    assert CANARY not in caplog.text
    stored = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert CANARY.encode() not in stored


def test_settings_of_a_broker_show_no_secret() -> None:
    """Security scenario 58. Settings are what a traceback with local variables would show first."""
    listener = Listener("SSL", SecurityProtocol.SSL, "127.0.0.1", 0, "127.0.0.1", 0)
    settings = Settings(listeners=(listener,), overrides={"ssl.key.password": CANARY})
    assert CANARY not in f"{settings} {settings!r} {(settings,)}"
