"""A group without members goes: deleted or expired."""

from kohort.groups.causes import Cause
from kohort.groups.classic.membership import remove_group as remove_classic_group
from kohort.groups.classic.state import Group
from kohort.groups.consumer.membership import tombstones as consumer_tombstones
from kohort.groups.events import DurableEvent, GroupTombstoned
from kohort.groups.group import AnyGroup
from kohort.groups.outcome import Outcome


def tombstones(group: AnyGroup, cause: Cause, out: Outcome) -> tuple[DurableEvent, ...]:
    """What the log gets when the group goes."""
    found = out.state.consumer(group.group_id)
    if found is None:
        return (GroupTombstoned(group.group_id, cause),)
    return consumer_tombstones(found, cause)


def remove_group(group: AnyGroup, cause: Cause, out: Outcome) -> None:
    """Remove an empty group; its offsets are the caller's."""
    if isinstance(group, Group):
        remove_classic_group(group, cause, out)
        return
    for event in tombstones(group, cause, out):
        out.emit(event)
