"""Groups that change their kind: classic to consumer and back (modern-groups 14)."""

from collections.abc import Sequence
from dataclasses import replace

from kohort.assign.protocol import (
    NEWEST_VERSION,
    Assignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from kohort.assign.server.group import TopicPartitions
from kohort.groups.apply import apply
from kohort.groups.causes import Cause, KindChanged
from kohort.groups.classic.rebalance import join_key, prepare_rebalance, sync_key
from kohort.groups.classic.state import CONSUMER, Group, Member
from kohort.groups.classic.transitions import Phase
from kohort.groups.classic.vote import select_protocol
from kohort.groups.commands import Protocol
from kohort.groups.consumer.assignment import CurrentAssignment
from kohort.groups.consumer.events import (
    ClassicDetails,
    ConsumerGroupStored,
    ConsumerMemberDetails,
    ConsumerMemberStored,
    CurrentAssignmentStored,
    TargetEpochStored,
    TargetStored,
)
from kohort.groups.consumer.membership import remove_members, tombstones
from kohort.groups.consumer.state import ConsumerGroup, ConsumerMember
from kohort.groups.consumer.target import metadata_hash
from kohort.groups.consumer.timers import cancel_timers, start_session
from kohort.groups.events import (
    DurableEvent,
    GroupImage,
    GroupLoaded,
    GroupStored,
    GroupTombstoned,
    MemberImage,
    MemberUpdated,
)
from kohort.groups.outcome import Outcome
from kohort.groups.replies import JoinReply, SyncReply
from kohort.groups.sessions import arm_session, cancel_session
from kohort.groups.topics import TopicCatalog
from kohort.model.errors import ErrorCode, ProtocolError
from kohort.model.ids import Generation, GroupId, MemberId, Partition, TopicId
from kohort.model.topics import TopicPartition

# --- classic to consumer (modern-groups 14.1) -------------------------------------------------


def plan_upgrade(group: Group, member_id: MemberId, out: Outcome) -> tuple[DurableEvent, ...] | str:
    """The events that make a consumer group of a classic one; or why it stays what it is."""
    cause = KindChanged(member_id, "consumer")
    gone = GroupTombstoned(group.group_id, cause)
    if group.phase is Phase.EMPTY:
        return (gone,)
    settings = out.state.settings
    why_not = None
    if group.phase is Phase.DEAD or not settings.consumer_migration_policy.allows_upgrade:
        why_not = "online upgrade is disabled"
    elif group.protocol_type != CONSUMER:
        why_not = f"its protocol type is {group.protocol_type}"
    elif len(group.members) > settings.consumer_max_size:
        why_not = (
            f"it has {len(group.members)} members, group.consumer.max.size is {settings.consumer_max_size}"
        )
    if why_not is None:
        try:
            events = (gone, *_as_consumer_group(group, cause, out.state.topics))
        except ProtocolError as error:
            why_not = str(error)
        else:
            if out.fits(*events):
                return events
            why_not = "it is too large for one batch of the log"
    return f"Cannot upgrade classic group {group.group_id} to consumer group: {why_not}."


def _as_consumer_group(group: Group, cause: Cause, topics: TopicCatalog) -> list[DurableEvent]:
    group_id, epoch = group.group_id, group.generation
    details = {each.member_id: _details(group, each) for each in group.members.values()}
    targets = {each.member_id: _last_assignment(each, topics) for each in group.members.values()}
    names = {name for each in details.values() for name in each.names}
    stored = [ConsumerMemberStored(group_id, each, found, cause) for each, found in details.items()]
    return [
        *stored,
        ConsumerGroupStored(group_id, epoch, metadata_hash(names, topics), cause),
        *(TargetStored(group_id, each, target, cause) for each, target in targets.items()),
        TargetEpochStored(group_id, epoch, cause),
        *(
            CurrentAssignmentStored(group_id, each, CurrentAssignment(epoch, epoch, assigned=target), cause)
            for each, target in targets.items()
        ),
    ]


def _details(group: Group, member: Member) -> ConsumerMemberDetails:
    metadata = member.metadata_for(group.protocol) or member.protocols[0].metadata
    subscription = decode_subscription(metadata)
    return ConsumerMemberDetails(
        instance_id=member.instance_id,
        rack_id=subscription.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicDetails(member.session_timeout_ms, member.protocols),
    )


def _last_assignment(member: Member, topics: TopicCatalog) -> TopicPartitions:
    if not member.assignment:
        return {}
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        raise ProtocolError("a custom assignor puts user data into assignments, and the server has none")
    return by_topic_id(assignment.partitions, topics)


def by_topic_id(partitions: Sequence[TopicPartition], topics: TopicCatalog) -> TopicPartitions:
    """Partitions of topics that exist, by the ids of the topics."""
    found: dict[TopicId, set[Partition]] = {}
    for name, number in partitions:
        if name in topics.by_name:
            found.setdefault(topics.by_name[name].topic_id, set()).add(number)
    return {topic: frozenset(numbers) for topic, numbers in found.items()}


def draft(group_id: GroupId, events: Sequence[DurableEvent], out: Outcome) -> ConsumerGroup:
    """The consumer group as these events will make it; nothing is true yet."""
    scratch = replace(out.state, groups={group_id: out.state.groups[group_id]})
    for event in events:
        apply(scratch, event)
    return scratch.consumer(group_id) or ConsumerGroup(group_id=group_id)


def upgrade(group_id: GroupId, events: Sequence[DurableEvent], out: Outcome) -> ConsumerGroup | None:
    """Make the planned events true: who waits is sent back to JoinGroup, sessions begin again.

    Returns the consumer group, or ``None`` if the classic one had no members.
    """
    _leave_classic_protocol(out.state.classic(group_id), out)
    for event in events:
        out.emit(event)
    group = out.state.consumer(group_id)
    if group is not None:
        for member in group.members.values():
            start_session(out.state, group, member, out.now.instant)
    return group


def _leave_classic_protocol(group: Group, out: Outcome) -> None:
    state, error = out.state, ErrorCode.REBALANCE_IN_PROGRESS
    for key in (join_key(group.group_id), sync_key(group.group_id)):
        state.rebalances.cancel(key)
    for member_id in (*group.pending, *group.members):
        cancel_session(state, group.group_id, member_id)
    for member in group.members.values():
        if member.parked_join is not None:
            out.reply(member.parked_join, JoinReply(error=error, member_id=member.member_id))
        if member.parked_sync is not None:
            out.reply(member.parked_sync, SyncReply(error=error))


# --- consumer to classic (modern-groups 14.3) -------------------------------------------------


def remove_or_downgrade(
    group: ConsumerGroup, gone: Sequence[ConsumerMember], cause: Cause, out: Outcome
) -> ErrorCode:
    """Take members out; a group that has classic members alone then becomes a classic group.

    Returns an error, and removes no member, if the log cannot store that in one batch.
    """
    names = {member.member_id for member in gone}
    rest = [member for member in group.members.values() if member.member_id not in names]
    classic = maybe_downgrade(group, rest, cause, out)
    if classic is not None:
        prepare_rebalance(classic, cause, out)
        return ErrorCode.NONE
    return remove_members(group, gone, cause, out)


def maybe_downgrade(
    group: ConsumerGroup, rest: Sequence[ConsumerMember], cause: Cause, out: Outcome
) -> Group | None:
    """Make a classic group of these members, which is stable, with the target as its assignment.

    ``None`` if it stays a consumer group: one of them speaks the new protocol, the policy forbids it, or
    the classic group would be too large, for ``group.max.size`` or for one batch of the log.
    """
    settings = out.state.settings
    if (
        not 0 < len(rest) <= settings.max_size
        or not all(member.is_classic for member in rest)
        or not settings.consumer_migration_policy.allows_downgrade
    ):
        return None
    group_id = group.group_id
    image = _as_classic_group(group, rest, out)
    events = tombstones(group, cause)
    if not out.fits(*events, GroupStored(group_id, image, cause)):
        return None
    for member_id in tuple(group.members):
        cancel_timers(out.state, group, member_id)
    for event in events:
        out.emit(event)
    out.emit(GroupLoaded(group_id, image, cause))
    for member in rest:
        classic = member.details.classic
        assert classic is not None
        out.emit(
            MemberUpdated(
                group_id,
                member.member_id,
                classic.session_timeout_ms,
                member.details.rebalance_timeout_ms,
                classic.protocols,
                cause,
            )
        )
        arm_session(out.state, group_id, member.member_id, classic.session_timeout_ms, out.now.instant)
    out.emit(GroupStored(group_id, image, cause))
    return out.state.classic(group_id)


def _as_classic_group(group: ConsumerGroup, rest: Sequence[ConsumerMember], out: Outcome) -> GroupImage:
    protocol = _vote(group.group_id, rest)
    topics = out.state.topics
    return GroupImage(
        protocol_type=CONSUMER,
        generation=Generation(group.epoch),
        protocol=protocol,
        leader=rest[0].member_id,
        state_timestamp=out.now.wall,
        members=tuple(
            MemberImage(
                member_id=member.member_id,
                instance_id=member.details.instance_id,
                client_id=member.details.client_id,
                client_host=member.details.client_host,
                rebalance_timeout_ms=member.details.rebalance_timeout_ms,
                session_timeout_ms=member.details.classic.session_timeout_ms if member.details.classic else 0,
                subscription=dict(member.details.protocols)[protocol],
                assignment=assignment_bytes(member, group.target_of(member.member_id), topics),
            )
            for member in rest
        ),
    )


def _vote(group_id: GroupId, rest: Sequence[ConsumerMember]) -> str:
    voters = Group(group_id=group_id)
    for member in rest:
        details = member.details
        voters.members[member.member_id] = Member(
            member_id=member.member_id,
            instance_id=details.instance_id,
            client_id=details.client_id,
            client_host=details.client_host,
            session_timeout_ms=0,
            rebalance_timeout_ms=details.rebalance_timeout_ms,
            protocols=details.protocols,
        )
        for name, _ in details.protocols:
            voters.offers[name] = voters.offers.get(name, 0) + 1
    return select_protocol(voters)


def assignment_bytes(member: ConsumerMember, partitions: TopicPartitions, topics: TopicCatalog) -> bytes:
    """An assignment as a classic member reads it, in the version of its own subscription."""
    named = sorted(
        TopicPartition(topics.names[topic], number)
        for topic, numbers in partitions.items()
        if topic in topics.names
        for number in numbers
    )
    return encode_assignment(Assignment(tuple(named)), _version(member.details.protocols))


def _version(protocols: tuple[Protocol, ...]) -> int:
    first = protocols[0].metadata[:2] if protocols else b""
    return max(0, min(int.from_bytes(first, "big", signed=True), NEWEST_VERSION))
