"""Listeners as people write them, ``NAME://HOST:PORT``, and the settings that hold for each (security 1)."""

from collections.abc import Mapping, Sequence
from enum import Enum
from ipaddress import ip_address
from typing import NamedTuple

from kohort.model.errors import KohortError

PROTOCOL_MAP = "listener.security.protocol.map"


class ListenerError(KohortError):
    """Listeners that cannot be opened as they are written."""


class SecurityProtocol(Enum):
    """How a listener talks to its clients. The names are those of ``security.protocol``."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class NamedAddress(NamedTuple):
    """One listener of a list; the name of a bare address is empty."""

    name: str
    host: str
    port: int


class Listener(NamedTuple):
    """Where a broker listens, how, and which address the clients of this listener get.

    ``advertised_port`` 0 stands for the port that was bound. ``is_bare``: written without a name.
    """

    name: str
    protocol: SecurityProtocol
    host: str
    port: int
    advertised_host: str
    advertised_port: int = 0
    is_bare: bool = False

    def __str__(self) -> str:
        return f"{self.name}://{show(self.host, self.port)}"


def show(host: str, port: int) -> str:
    """``host:port``, with IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_list(text: str) -> list[str]:
    """The items of a list with commas."""
    return [item.strip() for item in text.split(",") if item.strip()]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address. A name other than ``localhost`` counts as reachable."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def build_listeners(
    listen: Sequence[NamedAddress], advertise: Sequence[NamedAddress], settings: Mapping[str, str]
) -> tuple[Listener, ...]:
    """Match listeners with their protocols and advertised addresses; raises ListenerError."""
    protocols = protocol_map(settings.get(PROTOCOL_MAP, ""))
    _check_unique(listen)
    advertised = _advertised(listen, advertise)
    listeners = []
    for name, host, port in listen:
        full = name or SecurityProtocol.PLAINTEXT.value
        if full not in protocols:
            raise ListenerError(
                f"listener {full} has no security protocol",
                hint=f"--set {PROTOCOL_MAP}={full}:SASL_SSL, or name the listener after its protocol",
            )
        to = advertised.get(full, NamedAddress(full, host, 0))
        listeners.append(
            Listener(full, protocols[full], host, port, to.host, to.port, is_bare=not name),
        )
    return tuple(listeners)


def protocol_map(text: str) -> dict[str, SecurityProtocol]:
    """``NAME:PROTOCOL,…``; empty text maps each protocol's name to itself."""
    if not text.strip():
        return {protocol.value: protocol for protocol in SecurityProtocol}
    found: dict[str, SecurityProtocol] = {}
    for item in text.split(","):
        name, _, protocol = item.strip().partition(":")
        try:
            found[name.upper()] = SecurityProtocol(protocol.upper())
        except ValueError:
            raise ListenerError(
                f"{PROTOCOL_MAP}: {item.strip()!r} is not NAME:PROTOCOL",
                hint=f"protocols are {', '.join(one.value for one in SecurityProtocol)}",
            ) from None
    return found


def _check_unique(listen: Sequence[NamedAddress]) -> None:
    names: set[str] = set()
    by_port: dict[int, list[str]] = {}
    for name, host, port in listen:
        full = name or SecurityProtocol.PLAINTEXT.value
        if full in names:
            raise ListenerError(
                f"two listeners have the name {full}",
                hint=f"give each its own name, and map them with --set {PROTOCOL_MAP}=NAME:PROTOCOL,…",
            )
        names.add(full)
        if port:
            by_port.setdefault(port, []).append(host)
    for port, hosts in by_port.items():
        if len(hosts) > 2 or (len(hosts) == 2 and not _are_one_of_each_kind(hosts)):
            raise ListenerError(
                f"{len(hosts)} listeners have the port {port}", hint="give each listener its own port"
            )


def _are_one_of_each_kind(hosts: Sequence[str]) -> bool:
    """Kafka lets an IPv4 and an IPv6 address share a port."""
    try:
        return {ip_address(host).version for host in hosts} == {4, 6}
    except ValueError:
        return False


def _advertised(listen: Sequence[NamedAddress], advertise: Sequence[NamedAddress]) -> dict[str, NamedAddress]:
    plaintext = SecurityProtocol.PLAINTEXT.value
    names = [name or plaintext for name, _, _ in listen]
    addresses: dict[str, NamedAddress] = {}
    for one in advertise:
        name = one.name or (names[0] if len(names) == 1 else plaintext)
        if name not in names:
            raise ListenerError(
                f"the advertised address {name}://{show(one.host, one.port)} belongs to no listener",
                hint=f"listeners are {', '.join(names)}",
            )
        if name in addresses:
            raise ListenerError(f"listener {name} has two advertised addresses", hint="keep one of them")
        addresses[name] = one
    return addresses


def find_setting(settings: Mapping[str, str], listener: str, key: str, mechanism: str = "") -> str | None:
    """The value of a setting for one listener and mechanism: the most special name wins, as in Kafka."""
    prefix = f"listener.name.{listener.lower()}."
    names = [f"{prefix}{key}", key]
    if mechanism:
        names.insert(0, f"{prefix}{mechanism.lower()}.{key}")
    return next((settings[name] for name in names if name in settings), None)
