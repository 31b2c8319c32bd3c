"""The target assignment: which partitions each member is to have (modern-groups 12)."""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import TypeAlias

from kohort.assign.server.group import NO_PARTITIONS, GroupSpec, MemberSpec, ServerAssignor, Targets
from kohort.assign.server.range import ServerRangeAssignor
from kohort.assign.server.uniform import ServerUniformAssignor
from kohort.groups.causes import TargetComputed
from kohort.groups.consumer.events import ConsumerMemberDetails, TargetEpochStored, TargetStored
from kohort.groups.consumer.state import ConsumerGroup
from kohort.groups.events import DurableEvent
from kohort.groups.topics import TopicCatalog
from kohort.model.ids import GroupId, MemberId, TopicId, TopicName

ASSIGNORS: dict[str, ServerAssignor] = {
    each.name: each for each in (ServerUniformAssignor(), ServerRangeAssignor())
}

Everyone: TypeAlias = Mapping[MemberId, ConsumerMemberDetails]


def run_assignor(name: str, spec: GroupSpec) -> Targets:
    """The whole target of a group, as close to the one before as the assignor makes it."""
    return ASSIGNORS[name].assign(spec)


def group_spec(group: ConsumerGroup, everyone: Everyone, before: Targets, topics: TopicCatalog) -> GroupSpec:
    """What an assignor gets for these members with the targets they had before."""
    kinds: dict[tuple[tuple[TopicName, ...], str], frozenset[TopicId]] = {}
    members: dict[MemberId, MemberSpec] = {}
    for member_id, details in everyone.items():
        kind = details.names, details.expression
        if kind not in kinds:
            kinds[kind] = topic_ids(group.topics_of(details), topics)
        members[member_id] = MemberSpec(
            kinds[kind], before.get(member_id, NO_PARTITIONS), details.instance_id
        )
    partitions: dict[TopicId, int] = {}
    for topic_id in frozenset[TopicId]().union(*kinds.values()):
        image = topics.get(topic_id)
        assert image is not None
        partitions[topic_id] = image.partitions
    return GroupSpec(members, partitions, same_topics=_is_homogeneous(everyone))


def target_events(
    group_id: GroupId, targets: Targets, before: Targets, cause: TargetComputed
) -> Iterator[DurableEvent]:
    """What makes these the targets of an epoch; those that stay as they are need no event."""
    for member_id, target in targets.items():
        if before.get(member_id) != target:
            yield TargetStored(group_id, member_id, target, cause)
    yield TargetEpochStored(group_id, cause.epoch, cause)


def topic_ids(names: Iterable[TopicName], topics: TopicCatalog) -> frozenset[TopicId]:
    """The ids of those topics that exist."""
    return frozenset(topics.by_name[name].topic_id for name in names if name in topics.by_name)


def _is_homogeneous(everyone: Everyone) -> bool:
    """Kafka's subscription type: whether all subscribe to the same, by names alone or by one expression."""
    names = {details.names for details in everyone.values()}
    expressions = {details.expression for details in everyone.values()}
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
