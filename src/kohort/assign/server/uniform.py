"""``uniform``: as many partitions for each member as for any other, and as few moves as that allows.

This module serves groups whose members all subscribe to the same topics. ``balance`` serves the others.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from kohort.assign.server.balance import assign_mixed_topics
from kohort.assign.server.group import NO_PARTITIONS, GroupSpec, Targets, TopicPartitions
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
    if not group.topics:
        return {}
    topics = next(iter(group.topics.values()))
    order = group.in_order()
    targets = [group.targets.get(member_id, NO_PARTITIONS) for member_id in order]
    free = _without_owner(targets, topics, group.partitions)
    members = len(order)
    quota, extras = divmod(sum(map(group.partitions.__getitem__, topics)), members)
    result: Targets = {}
    needy: list[_Needy] = []
    # A member that joins changes few targets, and this loop looks at all of them: keep it small.
    for index, (member_id, target) in enumerate(zip(order, targets, strict=True)):
        has_extra = extras > 0
        room = quota + has_extra - sum(map(len, target.values()))
        result[member_id] = target
        if room < 0 or not topics >= target.keys():
            room, result[member_id] = _keep(target, topics, quota + has_extra, free)
        if room and has_extra and members - index > extras:
            room -= 1  # a member behind this one takes the extra partition: it may have it already
            has_extra = False
        if room:
            needy.append(_Needy(member_id, room))
        extras -= has_extra
    _hand_out(free, needy, result)
    return result


def _without_owner(
    targets: Iterable[TopicPartitions], topics: frozenset[TopicId], partitions: Mapping[TopicId, int]
) -> list[tuple[TopicId, Partition]]:
    found: list[tuple[TopicId, Partition]] = []
    for topic in sorted(topics):
        owned = [target[topic] for target in targets if topic in target]
        free = set(range(partitions[topic])).difference(*owned)
        found += [(topic, Partition(number)) for number in sorted(free)]
    return found


def _keep(
    target: TopicPartitions, topics: frozenset[TopicId], quota: int, free: list[tuple[TopicId, Partition]]
) -> tuple[int, TopicPartitions]:
    """What a member keeps of its target, and how much room is left. The surplus is added to ``free``."""
    kept: dict[TopicId, frozenset[Partition]] = {}
    for topic in sorted(topics.intersection(target)):
        numbers = target[topic]
        if len(numbers) > quota:
            ordered = sorted(numbers)
            numbers = frozenset(ordered[:quota])
            free += [(topic, number) for number in ordered[quota:]]
        if numbers:
            kept[topic] = numbers
        quota -= len(numbers)
    return quota, kept


def _hand_out(free: list[tuple[TopicId, Partition]], needy: list[_Needy], result: Targets) -> None:
    rest = iter(free)
    for member_id, room in needy:
        share = {topic: set(numbers) for topic, numbers in result[member_id].items()}
        for topic, number in islice(rest, room):
            share.setdefault(topic, set()).add(number)
        result[member_id] = {topic: frozenset(numbers) for topic, numbers in share.items()}
