"""Settings that all clients share: timeouts, backoff, the client id; and how settings are checked. No I/O."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Protocol, Union, get_args, get_origin


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


if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LARGEST = 2**31 - 1
TRANSPORT_SETTINGS = ("security_", "ssl_", "sasl_")
PLAINTEXT = "connections are plaintext: keep brokers on a network you trust"
"""What to say of a setting that begins with one of ``TRANSPORT_SETTINGS``."""


def misfits(settings: "DataclassInstance") -> Iterator[tuple[str, object, str]]:
    """Each setting whose value is not of its type, with that value and words for what it should be."""
    for each in fields(settings):
        value = getattr(settings, each.name)
        if not _fits(value, each.type):
            yield each.name, value, " or ".join(_words(each.type))


def _fits(value: object, kind: Any) -> bool:  # noqa: ANN401 (an annotation of any form)
    origin = get_origin(kind)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and value <= LARGEST
    if kind in (bool, str, NoneType):
        return isinstance(value, kind)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in get_args(kind))
    if origin is Sequence:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            return False
        return get_args(kind)[0] is not str or all(isinstance(each, str) for each in value)
    return callable(value) if origin is Callable else True


def _words(kind: Any) -> list[str]:  # noqa: ANN401 (an annotation of any form)
    plain = {int: f"a whole number up to {LARGEST}", bool: "True or False", str: "text", NoneType: "None"}
    if kind in plain:
        return [plain[kind]]
    if get_origin(kind) in (Union, UnionType):
        return [words for each in get_args(kind) for words in _words(each)]
    if get_origin(kind) is Callable:
        return ["a function"]
    return ["a list of text" if get_args(kind)[0] is str else "a list"]
