"""JoinGroup: refused, sent away with an id, answered at once, or parked (classic-groups 3).

``join`` is where it is decided; what a rebalance then does is in ``rebalance.py``, and what becomes
of a static member that comes back without its id in ``static.py``.
"""

from kohort.groups.causes import CapacityReached, FirstJoin, IdRequested, MemberArrived, MemberRejoined
from kohort.groups.classic.membership import drop_pending_id, remove_member
from kohort.groups.classic.rebalance import join_key, join_reply, maybe_prepare_rebalance
from kohort.groups.classic.state import Group, Member, member_bytes
from kohort.groups.classic.static import replace_static_member
from kohort.groups.classic.transitions import Phase
from kohort.groups.classic.vote import supports_protocols
from kohort.groups.commands import NO_MEMBER, Join
from kohort.groups.consumer.classic_members import empty_to_classic, join_classic_member
from kohort.groups.events import GroupCreated, IdReserved, JoinParked, MemberAdded, MemberUpdated
from kohort.groups.outcome import Outcome
from kohort.groups.replies import JoinReply
from kohort.groups.sessions import arm_session
from kohort.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from kohort.groups.validate import check_join
from kohort.model.errors import ErrorCode
from kohort.model.ids import MemberId


def join(command: Join, out: Outcome) -> None:
    """Decide a JoinGroup, in the order of classic-groups 3.1."""
    consumer = out.state.consumer(command.group_id)
    error = check_join(command, out.state.settings)
    if consumer is None:
        _join_classic_group(command, error, out)
    elif error:
        _refuse(command, error, out)
    elif consumer.members:
        join_classic_member(consumer, command, out)
    elif command.member_id:
        _refuse(command, ErrorCode.UNKNOWN_MEMBER_ID, out)
    else:
        empty_to_classic(consumer, command, out)
        _join_classic_group(command, error, out)


def _join_classic_group(command: Join, error: ErrorCode, out: Outcome) -> None:
    found = out.state.groups.get(command.group_id)
    group = found if isinstance(found, Group) else None
    if not error and group is None and command.member_id:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    if not error and not _has_memory(group, command, out.state.settings.max_bytes):
        error = ErrorCode.GROUP_MAX_SIZE_REACHED
    if error:
        _refuse(command, error, out)
        return
    if group is None:
        cause = FirstJoin(command.client_id, command.reason)
        out.emit(GroupCreated(command.group_id, out.now.wall, cause))
        group = out.state.classic(command.group_id)
    if not _has_room(group, command.member_id, out.state.settings.max_size):
        _turn_away(group, command, out)
    elif group.phase is Phase.DEAD:
        _refuse(command, ErrorCode.COORDINATOR_NOT_AVAILABLE, out)
    elif not supports_protocols(group, command.protocol_type, command.protocols):
        _refuse(command, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, out)
    elif command.member_id:
        _join_with_id(group, command, out)
    else:
        _join_without_id(group, command, out)


def _refuse(command: Join, error: ErrorCode, out: Outcome, member_id: MemberId | None = None) -> None:
    """Answer with an error; the member id comes back as it was sent unless another is given."""
    echoed = command.member_id if member_id is None else member_id
    out.reply(command.reply_to, JoinReply(error=error, member_id=echoed))


# --- capacity (classic-groups 3.3) --------------------------------------------------------------------------


def _has_room(group: Group, member_id: MemberId, max_size: int) -> bool:
    """Whether ``group.max.size`` lets this join in. Handed-out ids do not count."""
    member = group.members.get(member_id)
    if group.phase is Phase.PREPARING_REBALANCE:
        return (member is not None and member.parked_join is not None) or group.awaiting_join < max_size
    if group.phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE):
        return member is not None or len(group.members) < max_size
    return True


def _has_memory(group: Group | None, command: Join, max_bytes: int) -> bool:
    """Whether what the member says about itself fits beside the others. Kafka has its heap as the bound.

    Who says no more than before is let in: a group may be over the bound after a restart that lowered it.
    """
    wanted = member_bytes(command.member_id or command.client_id, command.protocols)
    member = group.members.get(command.member_id) if group is not None else None
    has = member_bytes(member.member_id, member.protocols) if member is not None else 0
    taken = group.members_bytes if group is not None else 0
    return wanted <= has or taken - has + wanted <= max_bytes


def _turn_away(group: Group, command: Join, out: Outcome) -> None:
    size = group.awaiting_join if group.phase is Phase.PREPARING_REBALANCE else len(group.members)
    cause = CapacityReached(command.member_id, size, out.state.settings.max_size)
    member = group.members.get(command.member_id)
    if member is not None:
        remove_member(group, member, cause, out)
    elif command.member_id in group.pending:
        drop_pending_id(group, command.member_id, cause, out)
    _refuse(command, ErrorCode.GROUP_MAX_SIZE_REACHED, out, NO_MEMBER)
    # As the Scala coordinator did: those who wait may have waited for this one only.
    out.state.rebalances.check_and_complete(join_key(group.group_id), out)


# --- without a member id ----------------------------------------------------------------------


def _join_without_id(group: Group, command: Join, out: Outcome) -> None:
    member_id = MemberId(f"{command.instance_id or command.client_id}-{command.fresh_id}")
    if command.instance_id in group.instances:
        replace_static_member(group, command, member_id, out)
    elif command.requires_known_member_id:
        _hand_out_id(group, command, member_id, out)
    else:
        add_member_and_rebalance(group, command, member_id, out)


def _hand_out_id(group: Group, command: Join, member_id: MemberId, out: Outcome) -> None:
    """KIP-394: only who comes back with the id becomes a member, so lost clients do not pile up."""
    cause = IdRequested(member_id, command.client_id, command.reason)
    out.emit(IdReserved(group.group_id, member_id, cause))
    arm_session(out.state, group.group_id, member_id, command.session_timeout_ms, out.now.instant)
    _refuse(command, ErrorCode.MEMBER_ID_REQUIRED, out, member_id)


def add_member_and_rebalance(group: Group, command: Join, member_id: MemberId, out: Outcome) -> None:
    """A new member; it waits in the join phase that its coming starts, or that is under way."""
    cause = MemberArrived(member_id, command.instance_id, command.reason)
    out.emit(
        MemberAdded(
            group_id=group.group_id,
            member_id=member_id,
            instance_id=command.instance_id,
            client_id=command.client_id,
            client_host=command.client_host,
            session_timeout_ms=command.session_timeout_ms,
            rebalance_timeout_ms=command.effective_rebalance_timeout_ms,
            protocol_type=command.protocol_type,
            protocols=command.protocols,
            reply_to=command.reply_to,
            cause=cause,
        )
    )
    # Its session timeout counts from its first generation on: until then it has nothing to beat for.
    arm_session(out.state, group.group_id, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS, out.now.instant)
    maybe_prepare_rebalance(group, cause, out)


# --- with a member id -------------------------------------------------------------------------


def _join_with_id(group: Group, command: Join, out: Outcome) -> None:
    if command.member_id in group.pending:
        if command.instance_id is not None:  # ids are handed out to dynamic members only
            _refuse(command, ErrorCode.UNKNOWN_SERVER_ERROR, out, NO_MEMBER)
        else:
            add_member_and_rebalance(group, command, command.member_id, out)
        return
    error = group.fence(command.member_id, command.instance_id)
    if error:
        _refuse(command, error, out)
        return
    member = group.members[command.member_id]
    if _is_answered_at_once(group, member, command):
        out.reply(command.reply_to, join_reply(group, member))
    else:
        update_member_and_rebalance(group, member, command, out)


def _is_answered_at_once(group: Group, member: Member, command: Join) -> bool:
    """Nothing new from this member, and the same generation can be sent to it again."""
    if member.protocols != command.protocols:
        return False
    if group.phase is Phase.STABLE:
        return member.member_id != group.leader  # a leader that rejoins wants to assign again
    return group.phase is Phase.COMPLETING_REBALANCE


def update_member_and_rebalance(group: Group, member: Member, command: Join, out: Outcome) -> None:
    """A known member joins (again): take what it brings, and have it wait with the others."""
    cause = MemberRejoined(
        member.member_id,
        member.member_id == group.leader,
        member.protocols != command.protocols,
        command.reason,
    )
    if member.parked_join is not None:
        # Kafka never answers the older request: it can only be on a dead connection. We do.
        superseded = JoinReply(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
        out.reply(member.parked_join, superseded)
    out.emit(
        MemberUpdated(
            group.group_id,
            member.member_id,
            command.session_timeout_ms,
            command.effective_rebalance_timeout_ms,
            command.protocols,
            cause,
        )
    )
    out.emit(JoinParked(group.group_id, member.member_id, command.reply_to, cause))
    maybe_prepare_rebalance(group, cause, out)
