"""Addresses as people write them."""

import pytest

from kohort.client.addresses import Address, AddressError, parse_address, parse_bootstrap


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("broker:9093", Address("broker", 9093)),
        ("broker", Address("broker", 9092)),
        (" 10.0.0.1:0 ", Address("10.0.0.1", 0)),
        ("[::1]:9093", Address("::1", 9093)),
        ("[fe80::1]", Address("fe80::1", 9092)),
    ],
)
def test_an_address_is_a_host_and_perhaps_a_port(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (":9092", "no host"),
        ("host:port", "'port' is not a port"),
        ("host:70000", "'70000' is not a port"),
        ("host:-1", "'-1' is not a port"),
        ("::1", "stands in brackets"),
        ("[::1", "is not closed"),
        ("[::1]9092", "is not closed"),
        ("", "no host"),
        ("http://host:9092", "without a scheme"),
    ],
)
def test_what_is_no_address_is_refused_with_an_example(text: str, wrong: str) -> None:
    with pytest.raises(AddressError, match=wrong) as caught:
        parse_address(text)
    assert "127.0.0.1:9092" in caught.value.hint


def test_a_bootstrap_list_has_each_address_once_in_order() -> None:
    assert parse_bootstrap("b:1, a:2,b:1,") == (Address("b", 1), Address("a", 2))


def test_an_empty_bootstrap_list_is_refused() -> None:
    with pytest.raises(AddressError, match="names no host"):
        parse_bootstrap(" , ")


def test_an_ipv6_address_is_shown_as_it_is_written() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert str(Address("host", 1)) == "host:1"
