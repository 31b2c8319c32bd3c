"""How patient a client is, how it paces its attempts, and how it introduces itself. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Kafka's settings of the same names, with Kafka's defaults unless a line says otherwise."""

    client_id: str = "kohort"
    connect_timeout_ms: int = 10_000  # socket.connection.setup.timeout.ms
    request_timeout_ms: int = 30_000  # request.timeout.ms: one request on one connection
    api_timeout_ms: int = 60_000  # default.api.timeout.ms: a call with all its retries
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


DEFAULTS = ClientOptions()

Dice = Callable[[], float]
"""A number from 0 (included) to 1 (not included) with every call."""

_LEAST_JITTER = 0.8
_JITTER = 0.4
_MOST_DOUBLINGS = 32


class BackoffSettings(Protocol):
    """The two settings that every client has for it."""

    @property
    def retry_backoff_ms(self) -> int: ...
    @property
    def retry_backoff_max_ms(self) -> int: ...


def backoff_ms(failures: int, settings: BackoffSettings, dice: Dice) -> int:
    """The pause after failure number ``failures`` (from 0): doubled each time, spread by 20 %, and capped."""
    first, largest = settings.retry_backoff_ms, settings.retry_backoff_max_ms
    if largest <= first:
        return min(first, largest)
    grown = min(first * 2 ** min(failures, _MOST_DOUBLINGS), largest)
    return min(largest, int(grown * (_LEAST_JITTER + _JITTER * dice())))
