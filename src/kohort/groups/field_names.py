"""What events and causes call their values, for those who tell them to others."""

from collections.abc import Collection
from dataclasses import fields
from typing import Any


class FieldNames(dict[type[Any], tuple[str, ...]]):
    """By kind of event or cause: the names of its fields in order, looked up once, some left out."""

    def __init__(self, left_out: Collection[str] = ()) -> None:
        super().__init__()
        self._left_out = left_out

    def __missing__(self, kind: type[Any]) -> tuple[str, ...]:
        names = self[kind] = tuple(each.name for each in fields(kind) if each.name not in self._left_out)
        return names
