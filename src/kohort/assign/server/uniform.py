"""``uniform``: as many partitions for each member as for any other, and as few moves as that allows.

This module serves groups whose members all subscribe to the same topics. ``balance`` serves the others.
"""

from itertools import islice
from typing import NamedTuple

from kohort.assign.server.balance import assign_mixed_topics
from kohort.assign.server.group import GroupSpec, MemberSpec, Targets, TopicPartitions
from kohort.model.ids import MemberId, Partition, TopicId


class ServerUniformAssignor:
    """Kafka's default. Balance comes before stickiness."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> Targets:
        return _assign_same_topics(group) if group.same_topics else assign_mixed_topics(group)


class _Needy(NamedTuple):
    """A member that has room for ``room`` more partitions."""

    member_id: MemberId
    room: int


def _assign_same_topics(group: GroupSpec) -> Targets:
    """Each member keeps what it has up to its quota; what is left over fills the members with room.

    Quotas differ by one at most. The larger ones go to the first members that can use them.
    """
    if not group.members:
        return {}
    topics = next(iter(group.members.values())).topics
    free = _without_owner(group, topics)
    quota, extras = divmod(sum(group.partitions[topic] for topic in topics), len(group.members))
    result: Targets = {}
    needy: list[_Needy] = []
    for index, (member_id, member) in enumerate(group.in_order()):
        has_extra = extras > 0
        room, result[member_id] = _keep(member, topics, quota + has_extra, free)
        if room and has_extra and len(group.members) - index > extras:
            room -= 1  # a member behind this one takes the extra partition: it may have it already
            has_extra = False
        if room:
            needy.append(_Needy(member_id, room))
        extras -= has_extra
    _hand_out(free, needy, result)
    return result


def _without_owner(group: GroupSpec, topics: frozenset[TopicId]) -> list[tuple[TopicId, Partition]]:
    owned: dict[TopicId, set[Partition]] = {topic: set() for topic in topics}
    for member in group.members.values():
        for topic, numbers in member.target.items():
            if topic in owned:
                owned[topic] |= numbers
    return [
        (topic, Partition(number))
        for topic in sorted(topics)
        for number in range(group.partitions[topic])
        if number not in owned[topic]
    ]


def _keep(
    member: MemberSpec, topics: frozenset[TopicId], quota: int, free: list[tuple[TopicId, Partition]]
) -> tuple[int, TopicPartitions]:
    """What the member keeps of its target, and how much room is left. The surplus is added to ``free``."""
    kept: dict[TopicId, frozenset[Partition]] = {}
    for topic in sorted(topics.intersection(member.target)):
        numbers = member.target[topic]
        if len(numbers) > quota:
            ordered = sorted(numbers)
            numbers = frozenset(ordered[:quota])
            free += [(topic, number) for number in ordered[quota:]]
        if numbers:
            kept[topic] = numbers
        quota -= len(numbers)
    return quota, kept if kept != member.target else member.target


def _hand_out(free: list[tuple[TopicId, Partition]], needy: list[_Needy], result: Targets) -> None:
    rest = iter(free)
    for member_id, room in needy:
        share = {topic: set(numbers) for topic, numbers in result[member_id].items()}
        for topic, number in islice(rest, room):
            share.setdefault(topic, set()).add(number)
        result[member_id] = {topic: frozenset(numbers) for topic, numbers in share.items()}
