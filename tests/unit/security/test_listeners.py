"""Listeners as people write them (security 1)."""

import pytest

from kohort.security.listeners import (
    ListenerError,
    NamedAddress,
    SecurityProtocol,
    build_listeners,
    find_setting,
    is_loopback,
)

PLAIN, TLS = NamedAddress("", "127.0.0.1", 9092), NamedAddress("SSL", "127.0.0.1", 9093)


def test_a_bare_address_is_plaintext_and_advertises_itself() -> None:
    (listener,) = build_listeners([PLAIN], [], {})
    assert str(listener) == "PLAINTEXT://127.0.0.1:9092"
    assert (listener.protocol, listener.is_bare) == (SecurityProtocol.PLAINTEXT, True)
    assert (listener.advertised_host, listener.advertised_port) == ("127.0.0.1", 0)


def test_a_name_takes_its_protocol_from_the_map() -> None:
    listen = [NamedAddress("INSIDE", "::1", 1), NamedAddress("OUTSIDE", "h", 2)]
    settings = {"listener.security.protocol.map": "inside:PLAINTEXT, OUTSIDE:sasl_ssl"}
    inside, outside = build_listeners(listen, [NamedAddress("OUTSIDE", "kafka.example", 0)], settings)
    assert (str(inside), inside.protocol) == ("INSIDE://[::1]:1", SecurityProtocol.PLAINTEXT)
    assert outside.protocol is SecurityProtocol.SASL_SSL
    assert outside.advertised_host == "kafka.example"


@pytest.mark.parametrize(
    ("listen", "advertise", "message"),
    [
        ([TLS, TLS._replace(port=1)], [], "two listeners have the name SSL"),
        ([PLAIN, TLS._replace(port=9092)], [], "2 listeners have the port 9092"),
        ([PLAIN, TLS._replace(host="localhost", port=9092)], [], "2 listeners have the port 9092"),
        ([NamedAddress("INSIDE", "h", 1)], [], "listener INSIDE has no security protocol"),
        ([PLAIN], [TLS], "belongs to no listener"),
        ([TLS], [TLS, TLS], "two advertised addresses"),
    ],
)
def test_what_kafka_refuses_is_refused(
    listen: list[NamedAddress], advertise: list[NamedAddress], message: str
) -> None:
    """Security scenario 2. See security 9."""
    with pytest.raises(ListenerError, match=message):
        build_listeners(listen, advertise, {})


def test_one_ipv4_and_one_ipv6_address_may_share_a_port_and_port_0_is_never_taken() -> None:
    """Security scenario 2. See security 9."""
    shared = [PLAIN, NamedAddress("SSL", "::1", 9092)]
    free = [PLAIN._replace(port=0), TLS._replace(port=0)]
    assert len(build_listeners(shared, [], {})) == len(build_listeners(free, [], {})) == 2


@pytest.mark.parametrize("text", ["SSL", "SSL:TLS", "SSL:SSL,,"])
def test_a_map_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ListenerError, match="is not NAME:PROTOCOL"):
        build_listeners([TLS], [], {"listener.security.protocol.map": text})


def test_the_most_special_setting_wins() -> None:
    """Security scenario 3. See security 9."""
    names = ["listener.name.ssl.plain.k", "listener.name.ssl.k", "k"]
    settings = {name: name for name in names}
    for name in names:
        assert find_setting(settings, "SSL", "k", "PLAIN") == name
        del settings[name]
    assert find_setting(settings, "SSL", "k", "PLAIN") is None
    assert find_setting({"listener.name.ssl.plain.k": "1"}, "SSL", "k") is None


def test_only_loopback_addresses_count_as_loopback() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.1", "h")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
