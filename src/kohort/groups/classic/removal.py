"""A group goes: deleted by an administrator, or because nothing was left of it."""

from kohort.groups.causes import Cause
from kohort.groups.classic.sessions import cancel_session
from kohort.groups.classic.state import Group
from kohort.groups.classic.transitions import Phase
from kohort.groups.events import GroupRemoved, GroupRestored, GroupTombstoned
from kohort.groups.outcome import Outcome


def remove_group(group: Group, cause: Cause, out: Outcome) -> GroupRestored:
    """Remove an empty group, handed-out ids included; returns what brings it back if that fails."""
    assert group.phase is Phase.EMPTY, "a group with members is not removed"
    for member_id in group.pending:
        cancel_session(out.state, group.group_id, member_id)
    out.emit(GroupRemoved(group.group_id, cause))
    out.store(GroupTombstoned(group.group_id, cause))
    return GroupRestored(group.group_id, group.protocol_type, group.generation, group.state_timestamp, cause)
