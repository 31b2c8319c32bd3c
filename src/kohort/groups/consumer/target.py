"""The target assignment: which partitions each member is to have (modern-groups 12)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import NamedTuple

from kohort.assign.server.group import NO_PARTITIONS, GroupSpec, ServerAssignor, Targets, TopicPartitions
from kohort.assign.server.range import ServerRangeAssignor
from kohort.assign.server.uniform import ServerUniformAssignor
from kohort.groups.causes import TargetComputed
from kohort.groups.consumer.events import (
    ConsumerMemberDetails,
    MemberSubscription,
    TargetEpochStored,
    TargetStored,
)
from kohort.groups.consumer.state import ConsumerGroup, ConsumerMember
from kohort.groups.events import DurableEvent
from kohort.groups.topics import TopicCatalog
from kohort.model.ids import GroupId, MemberId, TopicId, TopicName

ASSIGNORS: dict[str, ServerAssignor] = {
    each.name: each for each in (ServerUniformAssignor(), ServerRangeAssignor())
}


def run_assignor(name: str, spec: GroupSpec) -> Targets:
    """The whole target of a group, as close to the one before as the assignor makes it."""
    return ASSIGNORS[name].assign(spec)


class MemberChange(NamedTuple):
    """A member as it is about to be. ``replaced`` is the static member whose place it takes."""

    member_id: MemberId
    details: ConsumerMemberDetails
    replaced: ConsumerMember | None = None


def subscriptions_with(group: ConsumerGroup, change: MemberChange) -> Counter[MemberSubscription]:
    """The subscriptions of a group after this change."""
    known = change.replaced or group.members.get(change.member_id)
    after = change.details.subscription
    found = group.subscriptions.copy()
    found[after] += 1
    if known is not None:
        before = known.details.subscription
        found[before] -= 1
        if not found[before]:
            del found[before]
    return found


def group_spec(group: ConsumerGroup, topics: TopicCatalog, change: MemberChange | None = None) -> GroupSpec:
    """What an assignor gets for a group, with a change of one member if there is one."""
    subscriptions = group.subscriptions if change is None else subscriptions_with(group, change)
    kinds = {each: topic_ids(group.topics_of(each), topics) for each in subscriptions}
    ids = dict.fromkeys(group.members)
    targets, instances = dict(group.targets), dict(group.instances)
    if change is not None:
        ids[change.member_id] = None
        if change.details.instance_id is not None:
            instances[change.details.instance_id] = change.member_id
        if change.replaced is not None and change.replaced.member_id != change.member_id:
            old = change.replaced.member_id
            del ids[old]
            targets[change.member_id] = targets.pop(old, NO_PARTITIONS)
    return GroupSpec(
        topics=_topics_of_members(group, ids, kinds, change),
        partitions={each: topics.by_id(each).partitions for each in frozenset().union(*kinds.values())},
        same_topics=_is_homogeneous(subscriptions),
        targets=targets,
        instances={member_id: instance for instance, member_id in instances.items()},
    )


def _topics_of_members(
    group: ConsumerGroup,
    ids: Iterable[MemberId],
    kinds: Mapping[MemberSubscription, frozenset[TopicId]],
    change: MemberChange | None,
) -> dict[MemberId, frozenset[TopicId]]:
    if len(kinds) == 1:  # the commonest case, and a large group has many members
        (same,) = kinds.values()
        return dict.fromkeys(ids, same)
    changed = {} if change is None else {change.member_id: change.details}
    return {each: kinds[(changed.get(each) or group.members[each].details).subscription] for each in ids}


def target_events(
    group_id: GroupId, targets: Targets, before: Mapping[MemberId, TopicPartitions], cause: TargetComputed
) -> Iterator[DurableEvent]:
    """What makes these the targets of an epoch; those that stay as they are need no event."""
    for member_id, target in targets.items():
        old = before.get(member_id)
        if old is not target and old != target:
            yield TargetStored(group_id, member_id, target, cause)
    yield TargetEpochStored(group_id, cause.epoch, cause)


def topic_ids(names: Iterable[TopicName], topics: TopicCatalog) -> frozenset[TopicId]:
    """The ids of those topics that exist."""
    return frozenset(topics.by_name[name].topic_id for name in names if name in topics.by_name)


def _is_homogeneous(subscriptions: Iterable[MemberSubscription]) -> bool:
    """Kafka's subscription type: whether all subscribe to the same, by names alone or by one expression."""
    names = {each.names for each in subscriptions}
    expressions = {each.expression for each in subscriptions}
    if expressions <= {""}:
        return len(names) <= 1
    return len(expressions) == 1 and names == {()}


def metadata_hash(names: Iterable[TopicName], topics: TopicCatalog) -> int:
    """What changes when a subscribed topic comes, goes, or has other partitions; 0 if none exists."""
    found = sorted(name for name in names if name in topics.by_name)
    if not found:
        return 0
    digest = blake2b(digest_size=8)
    for name in found:
        digest.update(repr(tuple(topics.by_name[name])).encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
