"""Limits on peers: how many connections, how long without a log-in, how often it may fail (security 8)."""

import asyncio
from collections import Counter, OrderedDict
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from kohort.model.errors import KohortError
from kohort.security.listeners import split_list

if TYPE_CHECKING:
    from kohort.broker.connection import Connection

MOST_UNFINISHED = 256  # peers that have not logged in, of one listener
MOST_UNFINISHED_OF_ONE = 32  # the same from one address
_FREE_FAILURES = 5  # within the window, before the delay grows
_WINDOW_S = 60.0
_LONGEST_DELAY_S = 5.0
_MOST_ADDRESSES = 10_000


@lru_cache(_MOST_ADDRESSES)
def network_of(host: str) -> str:
    """What is counted as one address: of IPv6 the first 64 bits, for one host may use all that share them."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) >> 64 << 64)}/64"


class HalfOpen:
    """The connections of a listener that have not logged in; the oldest gives way to a new one."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._waiting: OrderedDict[Connection, asyncio.TimerHandle] = OrderedDict()

    def add(self, connection: "Connection") -> None:
        network = network_of(connection.client_host[1:])
        of_one = [other for other in self._waiting if network_of(other.client_host[1:]) == network]
        if len(of_one) >= MOST_UNFINISHED_OF_ONE:
            of_one[0].abort()
            self.remove(of_one[0])
        elif len(self._waiting) >= MOST_UNFINISHED:
            oldest = next(iter(self._waiting))
            oldest.abort()
            self.remove(oldest)
        later = asyncio.get_running_loop().call_later
        self._waiting[connection] = later(self._patience_s, self._too_late, connection)

    def remove(self, connection: "Connection") -> None:
        timer = self._waiting.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _too_late(self, connection: "Connection") -> None:
        self.remove(connection)
        connection.close(f"it did not log in within {self._patience_s:g} s")
        connection.abort()  # a peer that does not read its replies would keep the connection otherwise


class PerAddress:
    """How many connections an address may have: ``max.connections.per.ip`` and its exceptions."""

    def __init__(self, most: int, exceptions: str) -> None:
        self._most = most
        self._exceptions: dict[str, int] = {}
        for item in split_list(exceptions):
            host, _, number = item.rpartition(":")
            if not host or not number.isdecimal():
                raise KohortError(
                    f"max.connections.per.ip.overrides: {item!r} is not HOST:NUMBER",
                    hint="write addresses, as in 10.0.0.1:100,10.0.0.2:5",
                )
            self._exceptions[host.strip("[]")] = int(number)
        self._open: Counter[str] = Counter()

    def enter(self, host: str) -> bool:
        """Count a connection; whether its address may have it."""
        key = self._counted_as(host)
        self._open[key] += 1
        return self._open[key] <= self._exceptions.get(host, self._most)

    def leave(self, host: str) -> None:
        key = self._counted_as(host)
        self._open[key] -= 1
        if self._open[key] <= 0:
            del self._open[key]

    def _counted_as(self, host: str) -> str:
        return host if host in self._exceptions else network_of(host)


class FailedLogins:
    """How long the answer to a failed log-in waits: longer and longer for an address that goes on failing.

    Counted for addresses, not for users: otherwise one peer could lock out another.
    """

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()  # when the first was, how many

    def delay(self, host: str, now: float) -> float:
        """Note a failure, and say how long to wait."""
        network = network_of(host)
        since, count = self._failures.pop(network, (now, 0))
        if now - since > _WINDOW_S:
            since, count = now, 0
        count += 1
        self._failures[network] = since, count
        if len(self._failures) > _MOST_ADDRESSES:
            self._failures.popitem(last=False)
        doublings = max(count - _FREE_FAILURES, 0)
        return max(min(self._delay_s * (1 << min(doublings, 16)), _LONGEST_DELAY_S), self._delay_s)
