"""Groups and assignments in a line of text: ``t1:3 t2:2`` are topics, ``t1-0 t1-2`` partitions."""

from collections.abc import Mapping
from dataclasses import replace

from kohort.assign.assignor import Assignor, ClusterView, Rack
from kohort.assign.cooperative import CooperativeStickyAssignor
from kohort.assign.protocol import Assignment, Subscription, encode_sticky_user_data
from kohort.assign.sticky import StickyAssignor
from kohort.model.ids import Generation, InstanceId, MemberId, Partition, TopicName
from kohort.model.topics import TopicPartition

Group = dict[MemberId, Subscription]


def topics(text: str, racks: Mapping[str, str] | None = None) -> ClusterView:
    """``racks``: for each topic the racks of its partitions, ``a,b c`` for one on a and b and one on c."""
    counts = {TopicName(name): int(count) for name, count in (part.split(":") for part in text.split())}
    near: dict[TopicName, list[frozenset[Rack]]] = {
        TopicName(name): [frozenset(part.split(",")) for part in places.split()]
        for name, places in (racks or {}).items()
    }
    return ClusterView(counts, near)


def partitions(text: str) -> tuple[TopicPartition, ...]:
    named = (part.rsplit("-", 1) for part in text.split())
    return tuple(TopicPartition(TopicName(topic), Partition(int(number))) for topic, number in named)


def group(wishes: Mapping[str, str], **racks: str) -> Group:
    return {
        MemberId(member): Subscription(tuple(map(TopicName, wish.split())), rack=racks.get(member))
        for member, wish in wishes.items()
    }


def static(members: Group, **instances: str) -> Group:
    """``members`` with instance ids; ``_`` in a keyword stands for ``-`` in the member id."""
    named = {member.replace("_", "-"): instance for member, instance in instances.items()}
    return {
        member: replace(wish, instance_id=InstanceId(named[member]) if member in named else None)
        for member, wish in members.items()
    }


def holding(members: Group, held: Mapping[str, str], **generations: int) -> Group:
    """``members`` that claim what they hold in both ways there are; the generation is 1 if not given."""
    claimed = {}
    for member, wish in members.items():
        generation = Generation(generations.get(member, 1))
        owned = partitions(held.get(member, ""))
        claimed[member] = replace(
            wish,
            owned=owned,
            generation=generation,
            user_data=encode_sticky_user_data(owned, generation),
        )
    return claimed


def after(members: Group, result: Mapping[MemberId, Assignment], generation: int = 1) -> Group:
    """The same members, holding what they were assigned; members that are new to it hold nothing."""
    told = {}
    for member, wish in members.items():
        share = result[member].partitions if member in result else ()
        told[member] = replace(
            wish,
            owned=share,
            generation=Generation(generation),
            user_data=encode_sticky_user_data(share, Generation(generation)),
        )
    return told


def shown(result: Mapping[MemberId, Assignment]) -> dict[str, str]:
    return {member: " ".join(map(str, share.partitions)) for member, share in result.items()}


def assigned(assignor: Assignor, cluster: ClusterView, members: Group) -> dict[str, str]:
    return shown(assignor.assign(cluster, members))


def sticky(cluster: ClusterView, members: Group) -> dict[str, str]:
    return assigned(StickyAssignor(), cluster, members)


def cooperative(cluster: ClusterView, members: Group) -> dict[str, str]:
    return assigned(CooperativeStickyAssignor(), cluster, members)
