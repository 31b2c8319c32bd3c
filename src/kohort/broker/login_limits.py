"""Limits on peers: how many connections, how long without a log-in, how often it may fail (security 8)."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from kohort.model.errors import KohortError
from kohort.security.listeners import split_list

if TYPE_CHECKING:
    from kohort.broker.connection import BrokerConnection

MOST_UNFINISHED = 256  # peers that have not logged in, of one listener
MOST_UNFINISHED_OF_ONE = 32  # the same from one address
_FREE_FAILURES = 5  # within the window, before the delay grows
_WINDOW_S = 60.0
_LONGEST_DELAY_S = 5.0
_MOST_ADDRESSES = 10_000
_BURST_S = 1.0
_LONGEST_WAIT_S = 1.0


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
        self._waiting: OrderedDict[BrokerConnection, asyncio.TimerHandle] = OrderedDict()

    def add(self, connection: "BrokerConnection") -> None:
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

    def remove(self, connection: "BrokerConnection") -> None:
        timer = self._waiting.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _too_late(self, connection: "BrokerConnection") -> None:
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
        """Count a connection, if its address may have it."""
        key = self._counted_as(host)
        may = self._open[key] < self._exceptions.get(host, self._most)
        if may:
            self._open[key] += 1
        return may

    def leave(self, host: str) -> None:
        key = self._counted_as(host)
        self._open[key] -= 1
        if self._open[key] <= 0:
            del self._open[key]

    def _counted_as(self, host: str) -> str:
        return host if host in self._exceptions else network_of(host)


class ConnectionPlace:
    """What a connection takes up from its accept until ``leave``, which may be called again."""

    def __init__(self, leave: Callable[[], None] | None = None) -> None:
        self._leave = leave

    def leave(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()


class ConnectionPlaces:
    """How many connections there may be, counted from their accept on: handshakes are connections."""

    def __init__(self, of_listeners: Mapping[str, int], per_address: PerAddress | None) -> None:
        self._of_listeners = of_listeners
        self._per_address = per_address
        self._taken = 0
        self._at: Counter[str] = Counter()

    def take(self, listener: str, host: str, most: int) -> ConnectionPlace | str:
        """Count a connection, or say why it is refused; ``most`` is the limit of all listeners together."""
        if self._taken >= most:
            return f"{most} connections are open already (max.connections)"
        at_listener = self._of_listeners.get(listener, most)
        if self._at[listener] >= at_listener:
            setting = f"listener.name.{listener.lower()}.max.connections"
            return f"{at_listener} connections are open already ({setting})"
        if self._per_address is not None and not self._per_address.enter(host):
            return "its address has too many connections (max.connections.per.ip)"
        self._taken += 1
        self._at[listener] += 1
        return ConnectionPlace(partial(self._leave, listener, host))

    def _leave(self, listener: str, host: str) -> None:
        self._taken -= 1
        self._at[listener] -= 1
        if self._per_address is not None:
            self._per_address.leave(host)


class ArrivalRate:
    """How many connections may come in within a second, at one listener and from one address.

    As many as in a second may come at once; those beyond wait, each for its turn, at most a second.
    """

    def __init__(self, per_second: int, per_second_of_one: int) -> None:
        self._interval_s = 1 / per_second
        self._interval_of_one_s = 1 / per_second_of_one
        self._free_at = float("-inf")  # when all that came in would be through, one after another
        self._free_of_one: OrderedDict[str, float] = OrderedDict()

    def wait(self, host: str, now: float) -> float | None:
        """How long a new connection has to wait; None: longer than it may, and it counts for nothing."""
        network = network_of(host)
        free_at, free_of_one = max(self._free_at, now), max(self._free_of_one.get(network, now), now)
        wait = max(free_at, free_of_one) - now - _BURST_S
        if wait > _LONGEST_WAIT_S:
            return None
        self._free_at = free_at + self._interval_s
        self._free_of_one[network] = free_of_one + self._interval_of_one_s
        self._free_of_one.move_to_end(network)
        if len(self._free_of_one) > _MOST_ADDRESSES:
            self._free_of_one.popitem(last=False)
        return max(wait, 0.0)


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
