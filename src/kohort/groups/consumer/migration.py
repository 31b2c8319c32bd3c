"""Groups that change their kind: classic to consumer and back (modern-groups 14)."""

from collections.abc import Sequence

from kohort.groups.causes import Cause, KindChanged
from kohort.groups.classic.membership import remove_group
from kohort.groups.classic.state import Group
from kohort.groups.classic.transitions import Phase
from kohort.groups.consumer.membership import remove_members
from kohort.groups.consumer.state import ConsumerGroup, ConsumerMember
from kohort.groups.outcome import Outcome
from kohort.model.ids import MemberId


def can_upgrade(group: Group | ConsumerGroup, out: Outcome) -> str | None:
    """Why a classic group cannot become a consumer group; ``None`` if it can."""
    if isinstance(group, Group) and group.phase is Phase.EMPTY:
        return None
    return f"Group {group.group_id} is not a consumer group."


def upgrade(group: Group, member_id: MemberId, out: Outcome) -> None:
    """Make a consumer group of a classic one, for a member that joins with the consumer protocol."""
    remove_group(group, KindChanged(member_id, "consumer"), out)


def remove_or_downgrade(
    group: ConsumerGroup, gone: Sequence[ConsumerMember], cause: Cause, out: Outcome
) -> None:
    """Take members out; a group that has classic members alone then becomes a classic group."""
    remove_members(group, gone, cause, out)
