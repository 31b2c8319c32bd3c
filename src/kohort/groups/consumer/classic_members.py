"""Requests of the classic protocol in a consumer group (modern-groups 14.2)."""

from kohort.assign.protocol import PROTOCOL_TYPE, Subscription, decode_subscription
from kohort.groups.causes import KindChanged, MemberLeft
from kohort.groups.classic.rebalance import prepare_rebalance
from kohort.groups.commands import NO_MEMBER, Join, Leave, Leaver, Sync
from kohort.groups.consumer.assignment import MemberState
from kohort.groups.consumer.events import ClassicDetails, ConsumerMemberDetails
from kohort.groups.consumer.heartbeat import keep_alive
from kohort.groups.consumer.membership import tombstones
from kohort.groups.consumer.migration import (
    assignment_bytes,
    by_topic_id,
    maybe_downgrade,
    remove_or_downgrade,
)
from kohort.groups.consumer.state import ConsumerGroup, ConsumerMember
from kohort.groups.consumer.timers import JOIN_AWAITED, SYNC_AWAITED, await_request, has_come, start_session
from kohort.groups.consumer.update import FRESH, MemberUpdate, update_member
from kohort.groups.events import GroupCreated, GroupStored
from kohort.groups.outcome import Outcome
from kohort.groups.replies import JoinReply, SyncReply
from kohort.groups.state import State
from kohort.groups.validate import check_sync
from kohort.model.errors import ErrorCode, ProtocolError
from kohort.model.ids import Generation, InstanceId, Instant, MemberId


def empty_to_classic(group: ConsumerGroup, command: Join, out: Outcome) -> None:
    """A classic member joins a consumer group without members: it is a classic group from now on."""
    cause = KindChanged(MemberId(command.member_id or command.client_id), "classic")
    for event in tombstones(group, cause):
        out.emit(event)
    out.emit(GroupCreated(group.group_id, out.now.wall, cause))
    # The log must not forget the offsets with the consumer group.
    out.emit(GroupStored(group.group_id, out.state.classic(group.group_id).image(), cause))


# --- JoinGroup --------------------------------------------------------------------------------


def join_classic_member(group: ConsumerGroup, command: Join, out: Outcome) -> None:
    """Answered at once: nothing waits for other members, and there is no leader."""
    error = _check_join(group, command, out)
    if not error and not command.member_id and command.requires_known_member_id:
        _refuse(command, ErrorCode.MEMBER_ID_REQUIRED, out, MemberId(command.fresh_id))
        return
    subscription = _read(command) if not error else None
    if subscription is None:
        _refuse(command, error or ErrorCode.INCONSISTENT_GROUP_PROTOCOL, out)
        return
    member_id = command.member_id or MemberId(command.fresh_id)
    instance = command.instance_id
    owner = group.instances.get(instance) if instance is not None else None
    replaced = group.members[owner] if owner is not None and owner != member_id else None
    update = MemberUpdate(
        group=group,
        member_id=member_id,
        details=_details(command, subscription, replaced or group.members.get(member_id)),
        owned=by_topic_id(subscription.owned, out.state.topics),
        replaced=replaced,
        reason=command.reason,
    )
    if group.has_room(member_id, update.details, out.state.settings.max_bytes):
        _update(command, update, out)
    else:
        _refuse(command, ErrorCode.GROUP_MAX_SIZE_REACHED, out)


def _refuse(command: Join, error: ErrorCode, out: Outcome, member_id: MemberId = NO_MEMBER) -> None:
    """Unlike a classic group, a consumer group does not repeat the member's id in a refusal."""
    out.reply(command.reply_to, JoinReply(error=error, member_id=member_id))


def _check_join(group: ConsumerGroup, command: Join, out: Outcome) -> ErrorCode:
    settings = out.state.settings
    is_known = command.member_id in group.members or command.instance_id in group.instances
    if len(group.members) >= settings.consumer_max_size and not is_known:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if command.protocol_type != PROTOCOL_TYPE or not _has_common_protocol(group, command):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if command.instance_id is not None and command.member_id:
        return group.fence(command.member_id, command.instance_id)
    return ErrorCode.NONE


def _has_common_protocol(group: ConsumerGroup, command: Join) -> bool:
    """Whether there is a protocol that all classic members and this one support; each is named once."""
    common = {name for name, _ in command.protocols}
    if len(common) != len(command.protocols):
        return False
    for member in group.members.values():
        is_itself = member.member_id == command.member_id or (
            command.instance_id is not None and member.details.instance_id == command.instance_id
        )
        if member.is_classic and not is_itself:
            common &= {name for name, _ in member.details.protocols}
    return bool(common)


def _read(command: Join) -> Subscription | None:
    try:
        return decode_subscription(command.protocols[0].metadata)
    except ProtocolError:
        return None


def _details(
    command: Join, subscription: Subscription, known: ConsumerMember | None
) -> ConsumerMemberDetails:
    before = known.details if known is not None else FRESH
    return before._replace(
        instance_id=command.instance_id or before.instance_id,
        rack_id=subscription.rack or before.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        names=tuple(sorted(set(subscription.topics))),
        expression="",
        rebalance_timeout_ms=command.effective_rebalance_timeout_ms,
        classic=ClassicDetails(command.session_timeout_ms, command.protocols),
    )


def _update(command: Join, update: MemberUpdate, out: Outcome) -> None:
    known = update.known
    before = known.current if known is not None else None
    # As in Kafka, a dynamic member that changes its protocol under its id downgrades nothing yet.
    is_replaced = known is not None and not known.is_classic and command.instance_id is not None
    names = known.details.names if known is not None else ()
    settled = update_member(update, out)
    if isinstance(settled, ErrorCode):
        _refuse(command, settled, out)
        return
    group_id, member_id = command.group_id, update.member_id
    keep_alive(update, before, out)
    group = out.state.consumer(group_id)
    assert group is not None
    cause = KindChanged(member_id, "classic")
    everyone = tuple(group.members.values())
    classic = maybe_downgrade(group, everyone, cause, out) if is_replaced else None
    if classic is None:
        await_request(out.state, group, group.members[member_id], SYNC_AWAITED, out.now.instant)
    elif names != update.details.names:
        prepare_rebalance(classic, cause, out)
    reply = JoinReply(
        generation=Generation(settled.member_epoch),
        protocol_type=PROTOCOL_TYPE,
        protocol_name=command.protocols[0].name,
        member_id=member_id,
    )
    out.reply(command.reply_to, reply, out.rests_on(group_id))


# --- SyncGroup and Heartbeat ------------------------------------------------------------------


def sync_classic_member(group: ConsumerGroup, command: Sync, out: Outcome) -> None:
    """The member's own part of the assignment; what the client sends is ignored."""
    error = check_sync(command) or _check(group, command.member_id, command.instance_id, command.generation)
    if not error:
        error = _check_protocol(group.members[command.member_id], command)
    if not error and _must_join(group, group.members[command.member_id]):
        error = ErrorCode.REBALANCE_IN_PROGRESS
    if error:
        out.reply(command.reply_to, SyncReply(error=error))
        return
    member = group.members[command.member_id]
    has_come(out.state, group, command.member_id, SYNC_AWAITED)
    start_session(out.state, group, member, out.now.instant)
    reply = SyncReply(
        protocol_type=PROTOCOL_TYPE,
        protocol_name=member.details.protocols[0].name,
        assignment=assignment_bytes(member, member.current.assigned, out.state.topics),
    )
    out.reply(command.reply_to, reply, out.rests_on(group.group_id))


def _check(
    group: ConsumerGroup, member_id: MemberId, instance_id: InstanceId | None, generation: Generation
) -> ErrorCode:
    error = group.fence(member_id, instance_id)
    if error:
        return error
    member = group.members[member_id]
    if not member.is_classic:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if generation == member.current.member_epoch else ErrorCode.ILLEGAL_GENERATION


def _check_protocol(member: ConsumerMember, command: Sync) -> ErrorCode:
    name = member.details.protocols[0].name
    if command.protocol_type not in (None, PROTOCOL_TYPE) or command.protocol_name not in (None, name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _must_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    is_revoking = member.current.state is MemberState.UNREVOKED_PARTITIONS
    return group.epoch_to_join > member.current.member_epoch and not is_revoking


def answer_classic_heartbeat(  # noqa: PLR0913  # a heartbeat makes no objects
    state: State,
    group: ConsumerGroup,
    member_id: MemberId,
    generation: Generation,
    instance_id: InstanceId | None,
    now: Instant,
) -> ErrorCode:
    """Keep the session alive; a member with news to receive has to join again."""
    error = _check(group, member_id, instance_id, generation)
    if error:
        return error
    member = group.members[member_id]
    start_session(state, group, member, now)
    if not _has_news(group, member):
        return ErrorCode.NONE
    await_request(state, group, member, JOIN_AWAITED, now)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _has_news(group: ConsumerGroup, member: ConsumerMember) -> bool:
    current = member.current
    if current.member_epoch < group.epoch_to_join or current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if current.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    missing = (
        (topic, number)
        for topic, numbers in group.target_of(member.member_id).items()
        for number in numbers - current.assigned.get(topic, frozenset())
    )
    return not any(group.is_owned(topic, number) for topic, number in missing)


# --- LeaveGroup -------------------------------------------------------------------------------


def leave_by_request(group: ConsumerGroup, command: Leave, out: Outcome) -> list[ErrorCode]:
    """LeaveGroup: of members of either kind, with one group epoch for all of them."""
    gone: dict[MemberId, ConsumerMember] = {}
    errors = [_find_leaver(group, leaver, gone) for leaver in command.leavers]
    if gone:
        first = next(iter(gone.values()))
        reason = next((each.reason for each in command.leavers if each.reason), None)
        cause = MemberLeft(first.member_id, first.details.instance_id, reason)
        refused = remove_or_downgrade(group, tuple(gone.values()), cause, out)
        errors = [error or refused for error in errors]
    return errors


def _find_leaver(group: ConsumerGroup, leaver: Leaver, gone: dict[MemberId, ConsumerMember]) -> ErrorCode:
    member_id = leaver.member_id
    if not member_id and leaver.instance_id is not None:
        member_id = group.instances.get(leaver.instance_id, member_id)
    error = group.fence(member_id, leaver.instance_id)
    if not error:
        gone[member_id] = group.members[member_id]
    return error
