"""How many connections a broker takes, in all, of a listener and of an address (security 8)."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.broker.asking import metadata
from tests.broker.raw import Raw
from tests.broker.security.secured import Certificates, RawTls, serving

from kohort.model.errors import KohortError


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_connections_beyond_the_rate_of_an_address_are_closed_or_wait(
    certificates: Certificates, listener: str
) -> None:
    settings = certificates.settings() | {
        f"listener.name.{listener.lower()}.max.connection.creation.rate": "500",
        "kohort.max.connection.creation.rate.per.ip": "2",
    }
    with serving(listener, settings=settings) as running, ExitStack() as held:
        address = running.address(listener)
        peers = [held.enter_context(Raw(address)) for _ in range(8)]
        assert peers[-1].is_closed()  # before its handshake
        waiting = running.server._listeners[0]._waiting
        while waiting:
            pass  # each second lets two in
        if listener == "PLAINTEXT":
            assert metadata(peers[3]).brokers  # it waited
    assert not running.server._listeners[0]._waiting


@pytest.mark.parametrize("setting", ["max.connections", "listener.name.ssl.max.connections"])
def test_connections_beyond_the_limit_are_closed_before_their_handshake_which_counts(
    certificates: Certificates, setting: str
) -> None:
    with (
        serving("SSL", "PLAINTEXT", settings=certificates.settings() | {setting: "1"}) as running,
        Raw(running.address("PLAINTEXT")) as other,
    ):
        if setting == "max.connections":
            assert metadata(other).brokers
            with Raw(running.address("SSL")) as late:
                assert late.is_closed()
            return
        with Raw(running.address("SSL")) as silent:  # in its handshake
            with Raw(running.address("SSL")) as late:
                assert late.is_closed()
            assert metadata(other).brokers  # the limit is the one of the other listener
            silent.send_bytes(b"no hello")  # the handshake fails, which makes room
            assert silent.is_closed()
            while running.server._places._at["SSL"]:
                pass
        with RawTls(running.address("SSL"), certificates.client_context()) as next_one:
            assert metadata(next_one).brokers


def test_a_handshake_is_a_connection_of_its_address(certificates: Certificates) -> None:
    with (
        serving("SSL", settings=certificates.settings(max_connections_per_ip="1")) as running,
        Raw(running.address("SSL")),
        Raw(running.address("SSL")) as late,
    ):
        assert late.is_closed()


def test_a_limit_of_a_listener_that_is_no_number_stops_the_start() -> None:
    settings = {"listener.name.plaintext.max.connections": "many"}
    with (
        pytest.raises(KohortError, match="many"),
        serving("PLAINTEXT", settings=settings),
    ):
        pass


def test_an_address_has_as_many_connections_as_its_limit_and_a_closed_one_makes_room() -> None:
    with serving("PLAINTEXT", settings={"max.connections.per.ip": "2"}) as running:
        address = running.address("PLAINTEXT")
        with Raw(address) as first:
            assert metadata(first).brokers
            with Raw(address) as second, Raw(address) as third:
                assert metadata(second).brokers
                assert third.is_closed()

            async def count() -> int:
                return running.server.connections

            while running.loop.submit(count()).result() > 1:
                pass
            with Raw(address) as fourth:
                assert metadata(fourth).brokers


@pytest.mark.parametrize("text", ["127.0.0.1", "127.0.0.1:x", ":1"])
def test_exceptions_of_addresses_that_cannot_be_read_are_refused(text: str) -> None:
    settings = {"max.connections.per.ip.overrides": text}
    with pytest.raises(KohortError, match="is not HOST:NUMBER"), serving("PLAINTEXT", settings=settings):
        pass


def test_an_exception_holds_for_its_address() -> None:
    settings = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:1"}
    with serving("PLAINTEXT", settings=settings) as running, Raw(running.address("PLAINTEXT")) as raw:
        assert metadata(raw).brokers
