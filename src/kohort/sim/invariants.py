"""What is true of every shard at every moment, whatever its members did.

Each check yields a sentence about what is broken. Explorations and property tests run them all
after every step.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from kohort.groups.classic.rebalance import DelayedJoin, DelayedSync, InitialDelayedJoin
from kohort.groups.classic.state import Group, id_bytes, member_bytes
from kohort.groups.classic.transitions import Phase
from kohort.groups.consumer.state import ConsumerGroup
from kohort.groups.events import GroupImage, OffsetRow
from kohort.groups.offsets.state import PartitionKey
from kohort.groups.sessions import DelayedHeartbeat
from kohort.groups.settings import GroupSettings
from kohort.groups.shard import Shard
from kohort.groups.state import State
from kohort.model.ids import GroupId, Instant, Now, ReplyTo, WallTime
from kohort.records.record import Record


def broken_invariants(shard: Shard, waiting: Iterable[ReplyTo]) -> Iterator[str]:
    """What is wrong with a shard of which ``waiting`` requests have not been answered."""
    for group in _classic_groups(shard.state):
        for complaint in _about_group(group):
            yield f"group {group.group_id!r}: {complaint}"
    taken = sum(group.members_bytes for group in shard.state.groups.values())
    if taken != shard.state.members_bytes:
        yield f"counts {shard.state.members_bytes} bytes of members, its groups count {taken}"
    yield from _about_timers(shard.state)
    held = sorted(_requests_held(shard.state))
    expected = sorted(waiting)
    if held != expected:
        yield f"requests {expected} wait for an answer, but the shard holds {held}"


def _about_group(group: Group) -> Iterator[str]:
    members = group.members
    if (group.leader is None) != (not members) or (members and group.leader not in members):
        yield f"leader {group.leader} among members {list(members)}"
    if group.phase is Phase.EMPTY and members:
        yield f"empty with members {list(members)}"
    if group.phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE) and not members:
        yield f"{group.phase.value} without members"
    if not all(member.member_id == member_id for member_id, member in members.items()):
        yield "a member is filed under another id"
    if any(member_id in members for member_id in group.pending):
        yield "a member is still expected as a handed-out id"
    instances = {m.instance_id: m.member_id for m in members.values() if m.instance_id is not None}
    if instances != group.instances:
        yield f"instances {group.instances} for static members {instances}"
    yield from _about_parked(group)
    yield from _about_protocols(group)


def _about_parked(group: Group) -> Iterator[str]:
    joins = sum(member.parked_join is not None for member in group.members.values())
    if joins != group.awaiting_join:
        yield f"counts {group.awaiting_join} parked joins, has {joins}"
    if joins and group.phase is not Phase.PREPARING_REBALANCE:
        yield f"keeps joins waiting in {group.phase.value}"
    syncs = [member for member in group.members.values() if member.parked_sync is not None]
    if syncs and group.phase is not Phase.COMPLETING_REBALANCE:
        yield f"keeps syncs waiting in {group.phase.value}"
    if any(member.member_id in group.pending_sync for member in syncs):
        yield "waits for a sync that is there"
    if group.pending_sync and group.phase not in (Phase.COMPLETING_REBALANCE, Phase.STABLE):
        yield f"expects syncs in {group.phase.value}"
    is_preparing = group.phase is Phase.PREPARING_REBALANCE
    if is_preparing and group.members and group.everyone_has_joined and not group.is_initial:
        yield "prepares although everyone has joined"


def _about_protocols(group: Group) -> Iterator[str]:
    offers: dict[str, int] = {}
    for member in group.members.values():
        for name, _ in member.protocols:
            offers[name] = offers.get(name, 0) + 1
    taken = sum(member_bytes(each.member_id, each.protocols) for each in group.members.values())
    if taken + sum(map(id_bytes, group.pending)) != group.members_bytes:
        yield f"counts {group.members_bytes} bytes of members"
    if offers != group.offers:
        yield f"counts offers {group.offers}, has {offers}"
    if group.members and len(group.members) not in offers.values():
        yield f"has no protocol that all members offer: {offers}"
    if group.phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE) and not group.protocol:
        yield f"{group.phase.value} without a protocol"


def _about_timers(state: State) -> Iterator[str]:
    sessions = {(each.group_id, each.member_id) for each in _operations(state.heartbeats, DelayedHeartbeat)}
    for group_id, member_id in sorted(sessions):
        group = state.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            continue
        if group is None or (member_id not in group.members and member_id not in group.pending):
            yield f"{member_id} is gone from {group_id!r} but has a timer"
    joining = {each.group_id for each in _operations(state.rebalances, DelayedJoin, InitialDelayedJoin)}
    syncing = {each.group_id for each in _operations(state.rebalances, DelayedSync)}
    for group in _classic_groups(state):
        yield from _about_group_timers(group, group.group_id in joining, group.group_id in syncing)
        for member in group.members.values():
            is_parked = member.parked_join is not None or member.parked_sync is not None
            is_watched = (group.group_id, member.member_id) in sessions
            if group.phase is not Phase.DEAD and not is_watched and not (is_parked and not member.is_new):
                yield f"no timer watches the session of {member.member_id} in {group.group_id!r}"


def _about_group_timers(group: Group, is_joining: bool, is_syncing: bool) -> Iterator[str]:
    if is_joining != (group.phase is Phase.PREPARING_REBALANCE):
        yield f"group {group.group_id!r}: {group.phase.value}, join timer: {is_joining}"
    if is_syncing != bool(group.pending_sync):
        yield f"group {group.group_id!r}: expects syncs {list(group.pending_sync)}, sync timer: {is_syncing}"


def _classic_groups(state: State) -> Iterator[Group]:
    return (group for group in state.groups.values() if isinstance(group, Group))


def _operations(purgatory: Iterable[Any], *kinds: type) -> list[Any]:
    return [operation for operation in purgatory if isinstance(operation, kinds)]


def _requests_held(state: State) -> Iterator[ReplyTo]:
    for group in _classic_groups(state):
        for member in group.members.values():
            yield from (each for each in (member.parked_join, member.parked_sync) if each is not None)
    for replies in state.positions.parked.values():
        yield from (reply.reply_to for reply in replies)


def durable_difference(shard: Shard, log: Iterable[Record], settings: GroupSettings) -> Iterator[str]:
    """Where a settled shard differs from what its log would be loaded as. Nothing may be in flight."""
    assert not shard.state.positions.newest(), "what is not stored cannot be compared"
    loaded = Shard(settings, Instant(0))
    loaded.replay(log)
    loaded.finish_load(Now(Instant(0), WallTime(0)))
    for group_id in dict.fromkeys((*shard.state.groups, *loaded.state.groups)):
        live = _durable_image(shard.group(group_id))
        stored = _durable_image(loaded.group(group_id))
        if live is not None and live != stored:
            yield f"group {group_id!r} is {live} but the log has {stored}"
        committed, kept = _offsets(shard.state, group_id), _offsets(loaded.state, group_id)
        if committed != kept:
            yield f"offsets of {group_id!r} are {committed} but the log has {kept}"


def _offsets(state: State, group_id: GroupId) -> dict[PartitionKey, OffsetRow | None]:
    return {key: state.offsets.get(group_id, *key) for key in sorted(state.offsets.partitions(group_id))}


def _durable_image(group: Group | None) -> GroupImage | None:
    """What the log must have of a group; ``None`` for one between two generations, or never in any.

    Left out: in which order members came, and when a stable group became so (stored before it did).
    """
    if group is None or group.phase not in (Phase.STABLE, Phase.EMPTY) or group.generation == 0:
        return None
    image = group.image()
    if not image.members:
        return image
    return image._replace(members=tuple(sorted(image.members)), state_timestamp=WallTime(0))
