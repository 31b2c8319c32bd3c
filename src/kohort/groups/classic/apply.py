"""How each event changes a group. Nothing is decided here."""

from collections.abc import Callable
from typing import Any

from kohort.groups.classic.state import UNKNOWN_TIME, Group, Member, id_bytes, member_bytes
from kohort.groups.classic.subscription import subscribed_topics
from kohort.groups.classic.transitions import Phase, is_legal
from kohort.groups.commands import Protocol
from kohort.groups.events import (
    AssignmentDropped,
    AssignmentReceived,
    Event,
    GenerationEmptied,
    GenerationStarted,
    GroupCreated,
    GroupDied,
    GroupImage,
    GroupLoaded,
    GroupStored,
    GroupTombstoned,
    IdDropped,
    IdReserved,
    InitialDelayExtended,
    JoinParked,
    JoinPhaseExtended,
    LeaderChosen,
    MemberAdded,
    MemberImage,
    MemberRemoved,
    MemberReplaced,
    MemberUpdated,
    RebalanceStarted,
    SyncParked,
    SyncServed,
)
from kohort.groups.state import State
from kohort.model.ids import ReplyTo, WallTime


def _turn(group: Group, phase: Phase, at: WallTime) -> None:
    assert is_legal(group.phase, phase), f"group {group.group_id!r} cannot go from {group.phase} to {phase}"
    group.previous_phase, group.phase, group.state_timestamp = group.phase, phase, at


def _count_offers(group: Group, protocols: tuple[Protocol, ...], by: int) -> None:
    for name, _ in protocols:
        count = group.offers.get(name, 0) + by
        if count:
            group.offers[name] = count
        else:
            del group.offers[name]


def _weigh(state: State, group: Group, by: int) -> None:
    group.members_bytes += by
    state.members_bytes += by


def _bytes_of(member: Member) -> int:
    return member_bytes(member.member_id, member.protocols)


def _park_join(group: Group, member: Member, reply_to: ReplyTo | None) -> None:
    group.awaiting_join += (reply_to is not None) - (member.parked_join is not None)
    member.parked_join = reply_to


# --- a group comes and goes -------------------------------------------------------------------


def _group_created(state: State, event: GroupCreated) -> None:
    state.groups[event.group_id] = Group(group_id=event.group_id, state_timestamp=event.at)


def _group_loaded(state: State, event: GroupLoaded) -> None:
    group = state.groups[event.group_id] = Group(group_id=event.group_id)
    image = event.image
    if image is None:
        return
    group.state_timestamp = None if image.state_timestamp == UNKNOWN_TIME else image.state_timestamp
    for stored in image.members:
        _insert(state, group, _member_of(stored, image.protocol))
    if image.members:
        group.phase = Phase.STABLE
    _install(group, image)
    group.subscribed = subscribed_topics(group)


def _install(group: Group, image: GroupImage) -> None:
    """Make what is stored of a group true of it, live and loaded. Its members are there already."""
    group.protocol_type = image.protocol_type or None
    group.generation = image.generation
    group.protocol = image.protocol if image.members else None
    if image.leader in group.members:
        group.leader = image.leader  # else the first member, who leads since it was put in
    for stored in image.members:
        group.members[stored.member_id].assignment = stored.assignment


def _member_of(stored: MemberImage, protocol: str | None) -> Member:
    return Member(
        member_id=stored.member_id,
        instance_id=stored.instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        session_timeout_ms=stored.session_timeout_ms,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        protocols=(Protocol(protocol or "", stored.subscription),),
    )


def _group_stored(state: State, event: GroupStored) -> None:
    _install(state.classic(event.group_id), event.image)


def _group_tombstoned(state: State, event: GroupTombstoned) -> None:
    state.members_bytes -= state.groups.pop(event.group_id).members_bytes


def _group_died(state: State, event: GroupDied) -> None:
    group = state.groups[event.group_id]
    if not isinstance(group, Group):
        state.members_bytes -= group.members_bytes
        del state.groups[event.group_id]
        state.offsets.groups.pop(event.group_id, None)
        return
    _turn(group, Phase.DEAD, event.at)
    for member in group.members.values():
        _park_join(group, member, None)
        member.parked_sync = None
    _weigh(state, group, -sum(map(id_bytes, group.pending)))
    group.pending.clear()
    state.offsets.groups.pop(event.group_id, None)


# --- members ----------------------------------------------------------------------------------


def _insert(state: State, group: Group, member: Member) -> None:
    _weigh(state, group, _bytes_of(member))
    group.members[member.member_id] = member
    if member.instance_id is not None:
        group.instances[member.instance_id] = member.member_id
    if group.leader is None:
        group.leader = member.member_id
    _count_offers(group, member.protocols, 1)


def _id_reserved(state: State, event: IdReserved) -> None:
    group = state.classic(event.group_id)
    group.pending[event.member_id] = None
    _weigh(state, group, id_bytes(event.member_id))


def _id_dropped(state: State, event: IdDropped | MemberAdded) -> None:
    group = state.classic(event.group_id)
    del group.pending[event.member_id]
    _weigh(state, group, -id_bytes(event.member_id))


def _member_added(state: State, event: MemberAdded) -> None:
    group = state.classic(event.group_id)
    member = Member(
        member_id=event.member_id,
        instance_id=event.instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
        session_timeout_ms=event.session_timeout_ms,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        protocols=event.protocols,
        is_new=True,
    )
    if group.is_initial:
        group.new_member_added = True
    if not group.members:
        group.protocol_type = event.protocol_type
    if event.member_id in group.pending:
        _id_dropped(state, event)
    _insert(state, group, member)
    _park_join(group, member, event.reply_to)


def _member_updated(state: State, event: MemberUpdated) -> None:
    group = state.classic(event.group_id)
    member = group.members[event.member_id]
    _count_offers(group, event.protocols, 1)
    _count_offers(group, member.protocols, -1)
    before = _bytes_of(member)
    member.protocols = event.protocols
    _weigh(state, group, _bytes_of(member) - before)
    member.session_timeout_ms = event.session_timeout_ms
    member.rebalance_timeout_ms = event.rebalance_timeout_ms


def _join_parked(state: State, event: JoinParked) -> None:
    group = state.classic(event.group_id)
    _park_join(group, group.members[event.member_id], event.reply_to)


def _member_replaced(state: State, event: MemberReplaced) -> None:
    group = state.classic(event.group_id)
    member = group.members.pop(event.old_member_id)
    _park_join(group, member, None)
    member.parked_sync = None
    _weigh(state, group, -_bytes_of(member))
    member.member_id = event.member_id
    _weigh(state, group, _bytes_of(member))
    member.is_new = False
    group.members[event.member_id] = member
    group.instances[event.instance_id] = event.member_id
    if group.leader == event.old_member_id:
        group.leader = event.member_id


def _member_removed(state: State, event: MemberRemoved) -> None:
    group = state.classic(event.group_id)
    member = group.members.pop(event.member_id)
    _weigh(state, group, -_bytes_of(member))
    _park_join(group, member, None)
    _count_offers(group, member.protocols, -1)
    if member.instance_id is not None:
        del group.instances[member.instance_id]
    group.pending_sync.pop(event.member_id, None)
    if group.leader == event.member_id:
        group.leader = None


def _leader_chosen(state: State, event: LeaderChosen) -> None:
    state.classic(event.group_id).leader = event.leader


# --- phases -----------------------------------------------------------------------------------


def _rebalance_started(state: State, event: RebalanceStarted) -> None:
    group = state.classic(event.group_id)
    _turn(group, Phase.PREPARING_REBALANCE, event.at)
    group.pending_sync.clear()


def _initial_delay_extended(state: State, event: InitialDelayExtended) -> None:
    state.classic(event.group_id).new_member_added = False


def _generation_started(state: State, event: GenerationStarted) -> None:
    group = state.classic(event.group_id)
    _turn(group, Phase.COMPLETING_REBALANCE, event.at)
    group.generation = event.generation
    group.protocol = event.protocol
    group.subscribed = event.subscribed
    group.awaiting_join = 0
    group.pending_sync = dict.fromkeys(group.members)
    for member in group.members.values():
        member.parked_join = None
        member.is_new = False


def _generation_emptied(state: State, event: GenerationEmptied) -> None:
    group = state.classic(event.group_id)
    _turn(group, Phase.EMPTY, event.at)
    group.generation = event.generation
    group.protocol = None
    group.subscribed = frozenset()
    group.pending_sync.clear()


def _sync_parked(state: State, event: SyncParked) -> None:
    group = state.classic(event.group_id)
    group.members[event.member_id].parked_sync = event.reply_to
    group.pending_sync.pop(event.member_id, None)


def _sync_served(state: State, event: SyncServed) -> None:
    state.classic(event.group_id).pending_sync.pop(event.member_id, None)


def _assignment_dropped(state: State, event: AssignmentDropped) -> None:
    for member in state.classic(event.group_id).members.values():
        member.assignment = b""
        member.parked_sync = None


def _assignment_received(state: State, event: AssignmentReceived) -> None:
    group = state.classic(event.group_id)
    _turn(group, Phase.STABLE, event.at)
    for member in group.members.values():
        member.parked_sync = None


def _nothing(state: State, event: Event) -> None:
    """The fact is worth telling, but changes nothing in memory."""


APPLY: dict[type[Event], Callable[[State, Any], None]] = {
    GroupCreated: _group_created,
    GroupLoaded: _group_loaded,
    GroupDied: _group_died,
    IdReserved: _id_reserved,
    IdDropped: _id_dropped,
    MemberAdded: _member_added,
    MemberUpdated: _member_updated,
    JoinParked: _join_parked,
    MemberReplaced: _member_replaced,
    MemberRemoved: _member_removed,
    LeaderChosen: _leader_chosen,
    RebalanceStarted: _rebalance_started,
    InitialDelayExtended: _initial_delay_extended,
    JoinPhaseExtended: _nothing,
    GenerationStarted: _generation_started,
    GenerationEmptied: _generation_emptied,
    SyncParked: _sync_parked,
    SyncServed: _sync_served,
    AssignmentDropped: _assignment_dropped,
    AssignmentReceived: _assignment_received,
    GroupStored: _group_stored,
    GroupTombstoned: _group_tombstoned,
}
