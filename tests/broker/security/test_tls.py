"""Listeners with TLS (security 2)."""

import asyncio
import os
import socket
import ssl
from pathlib import Path

import pytest
from tests.broker.asking import metadata
from tests.broker.raw import Raw
from tests.broker.security.secured import Certificates, RawTls, RunningServer, serving

from kohort.broker.server import Server
from kohort.broker.settings import Settings
from kohort.model.errors import KohortError
from kohort.security.listeners import NamedAddress, build_listeners
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.describe_cluster import DescribeClusterRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def principals(running: RunningServer) -> set[str]:
    async def found() -> set[str]:
        return {one.principal for one in running.server._connections}

    return running.loop.submit(found()).result()


def test_each_listener_answers_with_its_own_address(certificates: Certificates) -> None:
    """Security scenario 1. See security 9."""
    with serving("PLAINTEXT", "SSL", settings=certificates.settings()) as running:
        for name, connect in (
            ("PLAINTEXT", Raw),
            ("SSL", lambda address: RawTls(address, certificates.client_context())),
        ):
            with connect(running.address(name)) as raw:
                told = [
                    metadata(raw).brokers[0],
                    raw.send(FindCoordinatorRequest(key="g", key_type=0), 3),
                    raw.send(DescribeClusterRequest(), 2).brokers[0],
                ]
                assert [each.port for each in told] == [running.ports[name]] * 3


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_clients_of_tls_1_2_and_1_3_are_served(certificates: Certificates, version: ssl.TLSVersion) -> None:
    """Security scenario 16. See security 9."""
    context = certificates.client_context()
    context.minimum_version = context.maximum_version = version
    with (
        serving("SSL", settings=certificates.settings()) as running,
        RawTls(running.address("SSL"), context) as raw,
    ):
        assert metadata(raw).brokers
        assert principals(running) == {"User:ANONYMOUS"}


def test_a_client_of_a_tls_version_that_is_not_enabled_is_refused(certificates: Certificates) -> None:
    with serving("SSL", settings=certificates.settings(ssl_enabled_protocols="TLSv1.3")) as running:
        context = certificates.client_context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(OSError, match=r"(?i)alert|version|closed|reset|EOF"):
            RawTls(running.address("SSL"), context)


@pytest.mark.parametrize("auth", ["none", "requested", "required"])
@pytest.mark.parametrize("sent", ["none", "good", "foreign", "expired"])
def test_client_certificates_open_the_door_as_the_setting_says(
    certificates: Certificates, tmp_path: Path, auth: str, sent: str
) -> None:
    """Security scenario 8. See security 9.

    Security trap 13. See security 10.
    """
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    certificate = {
        "none": None,
        "good": certificates.issue("alice"),
        "foreign": Certificates(foreign, "Other").issue("alice"),
        "expired": certificates.issue("alice", days=-1, file="expired.pem"),
    }[sent]
    admitted = auth == "none" or sent == "good" or (auth, sent) == ("requested", "none")
    expected = "User:CN=alice" if sent == "good" and auth != "none" else "User:ANONYMOUS"
    with serving("SSL", settings=certificates.settings(ssl_client_auth=auth)) as running:
        try:
            with RawTls(running.address("SSL"), certificates.client_context(certificate)) as raw:
                metadata(raw)
                assert principals(running) == {expected}
                assert admitted
        except OSError:  # in TLS 1.3 a client hears of it with its first request
            assert not admitted


def test_a_name_that_no_rule_takes_is_refused_and_one_that_a_rule_takes_is_mapped(
    certificates: Certificates,
) -> None:
    """Security scenario 11. See security 9."""
    settings = certificates.settings(
        ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=(a.*)$/$1/U"
    )
    with serving("SSL", settings=settings) as running:
        address = running.address("SSL")
        with RawTls(address, certificates.client_context(certificates.issue("alice"))) as raw:
            metadata(raw)
            assert principals(running) == {"User:ALICE"}
        context = certificates.client_context(certificates.issue("bob"))
        with RawTls(address, context) as raw, pytest.raises(OSError, match=r"closed|reset|EOF"):
            metadata(raw)


@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff"], ids=["HTTP", "Kafka"]
)
def test_a_peer_without_tls_is_closed_and_the_log_names_the_reason(
    certificates: Certificates, first: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Security scenario 5. See security 9."""
    with serving("SSL", settings=certificates.settings()) as running, Raw(running.address("SSL")) as raw:
        raw.send_bytes(first)
        assert raw.is_closed()
    assert "it does not speak TLS" in caplog.text


def test_a_broker_stops_while_a_peer_is_silent_in_its_handshake(certificates: Certificates) -> None:
    """Security scenario 6. See security 9."""
    with (
        serving("SSL", settings=certificates.settings()) as running,
        Raw(running.address("SSL")) as silent,
    ):
        with RawTls(running.address("SSL"), certificates.client_context()) as other:
            metadata(other)
        running.loop.submit(running.server._close_listeners()).result()
        assert silent.is_closed()


def test_one_address_has_32_handshakes_at_a_time_and_the_oldest_gives_way(certificates: Certificates) -> None:
    with serving("SSL", settings=certificates.settings()) as running:
        silent = [Raw(running.address("SSL")) for _ in range(40)]
        try:
            with RawTls(running.address("SSL"), certificates.client_context()) as other:
                metadata(other)
            assert all(raw.is_closed() for raw in silent[:9])
            assert not silent[-1].has_something()
        finally:
            for raw in silent:
                raw.close()


def serial(address: str, context: ssl.SSLContext) -> bytes:
    with RawTls(address, context) as raw:
        assert isinstance(raw.socket, ssl.SSLSocket)
        return raw.socket.getpeercert(binary_form=True) or b""


def replace_broker(certificates: Certificates, text: str) -> None:
    """As tools do it: a new file takes the name."""
    aside = certificates.write("aside.pem", text)
    os.replace(aside, certificates.broker)


def test_a_new_certificate_is_used_by_new_connections_and_old_ones_live_on(
    certificates: Certificates,
) -> None:
    """Security scenario 12. See security 9."""
    context = certificates.client_context()
    with serving("SSL", settings=certificates.settings()) as running:
        address = running.address("SSL")
        with RawTls(address, context) as old:
            before = serial(address, context)
            replace_broker(certificates, certificates.authority.issue("broker"))
            running.loop.do(running.server.reload_certificates)
            assert serial(address, context) != before
            assert metadata(old).brokers


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("broken", "has no CERTIFICATE"),
        ("foreign key", "key values mismatch"),
        ("other name", "is of CN=someone"),
        ("fewer names", "lacks alternative names"),
        ("expired", "no handshake with it: certificate has expired"),
        ("gone", "cannot be read"),
    ],
)
def test_a_bad_certificate_file_leaves_the_old_certificate_in_place(
    certificates: Certificates, kind: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Security scenario 13. Also with a file that only a handshake shows to be bad (T14)."""
    authority = certificates.authority
    new = authority.issue("broker")
    _, certificate = new.split("-----BEGIN CERTIFICATE", 1)
    text = {
        "broken": new[:-100].replace("A", "-"),
        "foreign key": authority.issue("x").split("-----BEGIN CERTIFICATE", 1)[0]
        + "-----BEGIN CERTIFICATE" + certificate,
        "other name": authority.issue("someone"),
        "fewer names": authority.issue("broker", ("localhost",)),
        "expired": authority.issue("broker", days=-1),
        "gone": "",
    }[kind]  # fmt: skip
    context = certificates.client_context()
    with serving("SSL", settings=certificates.settings()) as running:
        address = running.address("SSL")
        before = serial(address, context)
        if text:
            replace_broker(certificates, text)
        else:
            Path(certificates.broker).unlink()
        for _ in range(2):
            running.loop.do(running.server.reload_certificates)
        assert serial(address, context) == before
    assert caplog.text.count("listener SSL keeps its certificate") == 1
    assert why in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ssl_keystore_type": "JKS"}, "ssl.keystore.type=JKS is not supported"),
        ({"ssl_keystore_location": "/no/such.pem"}, "/no/such.pem cannot be read: no such file"),
        ({"ssl_keystore_key": "x"}, "exclude each other"),
        ({"ssl_keystore_password": "p"}, "ssl.keystore.password cannot be set for PEM"),
        ({"ssl_truststore_certificates": "x"}, "exclude each other"),
        ({"ssl_cipher_suites": "NONSENSE"}, "names no cipher suite"),
        ({"ssl_principal_mapping_rules": "RULE:("}, "cannot read"),
    ],
)
def test_settings_that_make_no_context_are_refused_by_name(
    certificates: Certificates, change: dict[str, str], message: str
) -> None:
    settings = certificates.settings(**change)
    with pytest.raises(KohortError, match=message), serving("SSL", settings=settings):
        pass


def test_a_tls_listener_needs_a_certificate() -> None:
    with pytest.raises(KohortError, match="TLS needs a certificate"), serving("SSL", settings={}):
        pass


def test_certificates_may_be_texts_whose_line_breaks_became_spaces(certificates: Certificates) -> None:
    """Security scenario 15. See security 9."""
    text = " ".join(Path(certificates.broker).read_text().split())
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": text,
        "ssl.keystore.key": text,
    }
    with (
        serving("SSL", settings=settings) as running,
        RawTls(running.address("SSL"), certificates.client_context()) as raw,
    ):
        assert raw.send(ApiVersionsRequest(), 0).error_code == 0


async def _start(*listen: str, insecure: bool = False, **settings: str) -> None:
    named = [NamedAddress(name, "0.0.0.0", 0) for name in listen]
    told = [NamedAddress(name, "127.0.0.1", 0) for name in listen]
    overrides = {name.replace("_", "."): value for name, value in settings.items()}
    listeners = build_listeners(named, told, overrides)
    server = Server(Settings(listeners=listeners, overrides=overrides, insecure=insecure))
    await server.start()
    await server.stop()


def test_a_broker_without_security_that_others_reach_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(_start("PLAINTEXT"))
    assert caplog.text.count("can read, write and delete everything") == 1


def test_a_broker_with_a_risky_listener_starts_only_with_insecure() -> None:
    """What is risky: ``tests/unit/broker/test_risks.py``."""
    with pytest.raises(KohortError, match="without encryption"):
        asyncio.run(_start("PLAINTEXT", authorizer="acl"))
    asyncio.run(_start("PLAINTEXT", authorizer="acl", insecure=True))


def test_a_client_that_hangs_up_during_the_handshake_does_no_harm(certificates: Certificates) -> None:
    with serving("SSL", settings=certificates.settings()) as running:
        host, port = running.address("SSL").split(":")
        for _ in range(20):
            socket.create_connection((host, int(port))).close()
        with RawTls(running.address("SSL"), certificates.client_context()) as raw:
            assert metadata(raw).brokers
