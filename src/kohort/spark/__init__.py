"""Spark jobs that are citizens of consumer groups: ``.format("kohort")``, its sessions and its pipelines.

Imports nothing heavy: Spark's helper processes import this package, and so does whoever only wants its words.
``kohort.spark.session`` and ``kohort.spark.drain`` are imported when first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.spark.group_drain import drain
    from kohort.spark.sessions import session

__all__ = ["drain", "session"]

# No submodule may have one of these names: importing it would take the place of the function.
_HOMES = {
    "drain": "kohort.spark.group_drain",
    "session": "kohort.spark.sessions",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
