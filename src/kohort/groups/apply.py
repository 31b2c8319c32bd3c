"""The only place where groups and offsets change, live and in recovery."""

from collections.abc import Callable
from typing import Any

from kohort.groups.classic.apply import APPLY as TO_CLASSIC_GROUPS
from kohort.groups.consumer.apply import APPLY as TO_CONSUMER_GROUPS
from kohort.groups.events import Event
from kohort.groups.offsets.apply import APPLY as TO_OFFSETS
from kohort.groups.state import State

# By type and not by ``match``: thirty cases cost more than the changes they make.
_APPLY: dict[type[Event], Callable[[State, Any], None]] = {
    **TO_CLASSIC_GROUPS,
    **TO_CONSUMER_GROUPS,
    **TO_OFFSETS,
}


def apply(state: State, event: Event) -> None:
    """Make ``event`` true of the state. Never refuses: an event is a fact."""
    _APPLY[type(event)](state, event)
