"""Settings that all clients share: timeouts, backoff, the client id; and how settings are checked. No I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Protocol, Union, get_args, get_origin

from kohort.client.errors import SettingError as SettingError
from kohort.client.security.entry import ClientSecurity, client_security
from kohort.client.security.names import security_arguments
from kohort.client.security.settings import SecuritySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Kafka's settings of the same names, with Kafka's defaults unless a line says otherwise."""

    client_id: str = "kohort"
    connect_timeout_ms: int = 10_000  # socket.connection.setup.timeout.ms
    request_timeout_ms: int = 30_000  # request.timeout.ms: one request on one connection
    api_timeout_ms: int = 60_000  # default.api.timeout.ms: a call with all its retries
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    security: ClientSecurity | None = None  # None: plaintext, without log-in


DEFAULTS = ClientOptions()


def secured(options: ClientOptions, given: Mapping[str, object], *, is_text: bool) -> ClientOptions:
    """The options with security settings in any spelling; raises SettingError."""
    if not given:
        return options
    settings = SecuritySettings(**security_arguments(given, is_text=is_text))
    return replace(options, security=client_security(settings))


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


def check_names(client: str, given: Iterable[str], known: Sequence[str], instead: Mapping[str, str]) -> None:
    """Raise SettingError for the first name that does not exist, with what to write or do instead of it."""
    for name in given:
        if name not in known:
            hint = _instead_of(name.replace(".", "_").replace("-", "_").lower(), known, instead)
            raise SettingError(f"a {client} has no setting {name!r}", hint=hint)


def _instead_of(plain: str, known: Sequence[str], instead: Mapping[str, str]) -> str:
    found = instead.get(plain, "")
    if found and found not in known:
        return found
    meant = found or next(iter(get_close_matches(plain, known, 1)), None)
    return f"did you mean {meant}?" if meant else f"there are {', '.join(known)}"


def check_kinds(settings: "DataclassInstance") -> None:
    """Raise SettingError for a value that is not of the type its setting has."""
    for each in fields(settings):
        value = getattr(settings, each.name)
        if not _fits(value, each.type):
            raise SettingError(
                f"{each.name} cannot be {value!r}", hint=f"it is {' or '.join(_words(each.type))}"
            )


def check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    """Raise SettingError for a value that is none of the allowed ones."""
    if value not in allowed:
        close = get_close_matches(str(value).lower(), allowed, n=1)
        hint = f"did you mean {close[0]}?" if close else f"it is one of {', '.join(allowed)}"
        raise SettingError(f"{name} cannot be {value!r}", hint=hint)


def bootstrap_text(servers: str | Sequence[str]) -> str:
    """Addresses as one text, separated by commas."""
    return servers if isinstance(servers, str) else ",".join(servers)
