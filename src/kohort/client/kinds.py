"""Whether the values of settings are of the kind their types say: what nobody checks at run time else."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

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
