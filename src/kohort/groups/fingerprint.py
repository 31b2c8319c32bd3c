"""A shard's state in canonical form: states that will behave alike have equal fingerprints.

Left out is what only tells states apart: names of requests, causes, and times on the wall clock
(they are stored, and read by retention alone). Deadlines count from now. Orders stay: they decide.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from kohort.coordination.purgatory import DelayedOperation
from kohort.groups.state import State
from kohort.model.ids import Instant

_WALL_TIMES = {"at", "commit_timestamp", "expire_timestamp", "state_timestamp"}
_NAMES_OF_REQUESTS = {"parked_join", "parked_sync", "reply_to"}
_LEFT_OUT = frozenset(
    {*_WALL_TIMES, "after", "cause", "fresh_id", "position", "reason", "subscriptions", "topics_cache"}
)


def fingerprint(state: State, now: Instant) -> Hashable:
    """Everything that decides what the shard will do from ``now`` on."""
    operations = (*state.heartbeats, *state.rebalances, *state.housekeeping)
    return (
        _canonical(state.groups),
        _canonical(state.offsets),
        tuple(sorted(_waiting(operation, now) for operation in operations)),
        _canonical(list(state.positions.parked.values())),
        state.positions.newest() - state.positions.stored if state.positions.newest() else 0,
    )


def _waiting(operation: DelayedOperation[Any], now: Instant) -> tuple[int, str, str]:
    return operation.deadline - now, type(operation).__name__, repr(operation)


def _canonical(value: object) -> Hashable:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value).__name__, *_fields(zip(value._fields, value, strict=True))
    if isinstance(value, list | tuple):
        return tuple(map(_canonical, value))
    if isinstance(value, dict):
        return tuple((_canonical(key), _canonical(each)) for key, each in value.items())
    if isinstance(value, frozenset):
        return tuple(sorted(value))
    if isinstance(value, Enum):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in fields(value)]
        return type(value).__name__, *_fields((name, getattr(value, name)) for name in names)
    assert isinstance(value, Hashable)
    return value


def _fields(named: Iterable[tuple[str, object]]) -> Iterator[Hashable]:
    for name, value in named:
        if name in _NAMES_OF_REQUESTS:
            yield value is not None
        elif name not in _LEFT_OUT:
            yield _canonical(value)
