"""Addresses as people write them: ``host:port``, several with commas, IPv6 in brackets."""

from typing import NamedTuple

from kohort.model.errors import KohortError

DEFAULT_PORT = 9092


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class AddressError(KohortError):
    """The text is not an address."""

    def __init__(self, text: str, wrong: str) -> None:
        super().__init__(
            f"{text!r} is not an address: {wrong}", hint="write HOST:PORT, for example 127.0.0.1:9092"
        )


def parse_address(text: str, default_port: int = DEFAULT_PORT) -> Address:
    """``host``, ``host:port``, ``[ipv6]`` or ``[ipv6]:port``; raises AddressError."""
    written = text.strip()
    if "://" in written:
        raise AddressError(text, "write it without a scheme such as kafka://")
    if written.startswith("["):
        host, bracket, rest = written[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise AddressError(text, "the bracket of the IPv6 address is not closed")
        port = rest[1:]
    elif written.count(":") > 1:
        raise AddressError(text, "an IPv6 address stands in brackets, as in [::1]:9092")
    else:
        host, _, port = written.partition(":")
    if not host:
        raise AddressError(text, "it has no host")
    return Address(host, _parse_port(text, port) if port else default_port)


def _parse_port(text: str, port: str) -> int:
    if not port.isascii() or not port.isdigit() or int(port) > 0xFFFF:
        raise AddressError(text, f"{port!r} is not a port, which is a number up to 65535")
    return int(port)


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """The addresses of a comma-separated list, each one once; at least one, or AddressError."""
    addresses = tuple(dict.fromkeys(parse_address(part) for part in text.split(",") if part.strip()))
    if not addresses:
        raise AddressError(text, "it names no host")
    return addresses
