"""``-X NAME=VALUE``: settings of consumers and producers as text, by Kafka's names or by ours."""

from collections.abc import Iterable, Sequence
from dataclasses import Field, fields
from typing import Any, ClassVar, Protocol

from kohort.client.security.names import is_security_name, security_arguments
from kohort.model.errors import KohortError

_YES, _NO = ("true", "yes", "1"), ("false", "no", "0")


class InputError(KohortError):
    """An option that cannot be understood, or a line that is no record."""


class SettingsClass(Protocol):
    """A dataclass of settings; its annotations say what the text stands for."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


def parse_settings(texts: Iterable[str], known: type[SettingsClass]) -> dict[str, Any]:
    """Settings as the class takes them; names it does not have are left to it. Raises InputError."""
    kinds = {each.name: each.type for each in fields(known)}
    parsed: dict[str, Any] = {}
    security: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace(".", "_").replace("-", "_")
        if not name or not equals:
            raise InputError(f"{text!r} is not NAME=VALUE", hint="for example -X fetch_max_wait_ms=100")
        if is_security_name(name):
            security[name] = value.strip()
        else:
            parsed[name] = _value(name, value.strip(), kinds.get(name, str))
    return parsed | security_arguments(security, is_text=True)


def _value(name: str, text: str, kind: object) -> object:
    if kind is int:
        return _number(name, text)
    if kind in (bool, bool | None):
        return _truth(name, text)
    if kind in (str, str | None, str | Sequence[str]) or _is_choice(kind):
        return int(text) if _is_choice(kind) and text.lstrip("-").isdigit() else text
    if "Sequence" in str(kind) and "object" not in str(kind):
        return [each.strip() for each in text.split(",")]
    raise InputError(f"{name} cannot be given as text", hint="it is for programs; see the howto")


def _is_choice(kind: object) -> bool:
    return "Literal" in str(kind)


def _number(name: str, text: str) -> int:
    try:
        return int(text.replace("_", ""))
    except ValueError:
        raise InputError(f"{name} must be a whole number, not {text!r}") from None


def _truth(name: str, text: str) -> bool:
    if text.lower() not in (*_YES, *_NO):
        raise InputError(f"{name} must be true or false, not {text!r}")
    return text.lower() in _YES
