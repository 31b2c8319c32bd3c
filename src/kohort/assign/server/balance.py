"""``uniform`` where members subscribe to different topics: keep, hand out, then even out.

A member's *load* is the number of all its partitions.
"""

from collections.abc import Sequence
from heapq import heapify, heapreplace

from kohort.assign.server.group import NO_PARTITIONS, GroupSpec, Targets
from kohort.model.ids import Partition, TopicId

MOST_ROUNDS = 16
"""Identical subscriptions are even after one round; overlapping ones come closer with each round."""

NO_OWNER = -1


def assign_mixed_topics(group: GroupSpec) -> Targets:
    """Balanced within the subscribers of each topic, as far as ``MOST_ROUNDS`` rounds get."""
    work = _Balance(group)
    work.keep()
    work.hand_out()
    work.even_out()
    return work.targets()


class _Balance:
    """A target assignment in the making; members are numbers, in the order of their ids."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._members = group.in_order()
        self._loads = [0] * len(self._members)
        self._subscribers: dict[TopicId, list[int]] = {}
        for index, member_id in enumerate(self._members):
            for topic in group.topics[member_id]:
                self._subscribers.setdefault(topic, []).append(index)
        self._owners = {topic: [NO_OWNER] * group.partitions[topic] for topic in self._subscribers}
        self._topics = sorted(self._subscribers, key=self._rank)

    def _rank(self, topic: TopicId) -> tuple[float, int, bytes]:
        """Many partitions for each subscriber first, then few subscribers, then Java's order of ids."""
        subscribers = len(self._subscribers[topic])
        return -self._group.partitions[topic] / subscribers, subscribers, java_uuid_order(topic)

    def keep(self) -> None:
        """Everyone keeps the partitions of topics that it still subscribes to."""
        for index, member_id in enumerate(self._members):
            target = self._group.targets.get(member_id, NO_PARTITIONS)
            for topic in self._group.topics[member_id].intersection(target):
                owners = self._owners[topic]
                for number in target[topic]:
                    owners[number] = index
                self._loads[index] += len(target[topic])

    def hand_out(self) -> None:
        """Each partition without an owner goes to the subscriber with the smallest load."""
        for topic in self._topics:
            receivers = _Receivers(self._in_order_of_load(topic), self._loads)
            for number, owner in enumerate(self._owners[topic]):
                if owner == NO_OWNER:
                    self._give(topic, number, receivers.take())

    def even_out(self) -> None:
        """Move partitions from large loads to small ones until a whole round over the topics moves none."""
        topics = [topic for topic in self._topics if len(self._subscribers[topic]) > 1]
        still = 0  # topics in a row that moved nothing
        for _ in range(MOST_ROUNDS):
            for topic in topics:
                if still == len(topics):
                    return
                still = 0 if self._even_out_topic(topic) else still + 1

    def _even_out_topic(self, topic: TopicId) -> bool:
        order = self._in_order_of_load(topic)
        if self._loads[order[-1]] - self._loads[order[0]] <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for number, owner in enumerate(self._owners[topic]):
            owned.setdefault(owner, []).append(number)
        donors, receivers = _Donors(order, self._loads, owned), _Receivers(order, self._loads)
        moved = False
        while (donor := donors.next()) is not None and self._loads[donor] - receivers.smallest_load > 1:
            self._give(topic, owned[donor].pop(), receivers.take())
            moved = True
        return moved

    def _in_order_of_load(self, topic: TopicId) -> list[int]:
        return sorted(self._subscribers[topic], key=lambda index: (self._loads[index], index))

    def _give(self, topic: TopicId, number: int, receiver: int) -> None:
        owner = self._owners[topic][number]
        if owner != NO_OWNER:
            self._loads[owner] -= 1
        self._owners[topic][number] = receiver
        self._loads[receiver] += 1

    def targets(self) -> Targets:
        shares: list[dict[TopicId, list[Partition]]] = [{} for _ in self._members]
        for topic, owners in self._owners.items():
            for number, owner in enumerate(owners):
                shares[owner].setdefault(topic, []).append(Partition(number))
        return {
            member_id: {topic: frozenset(numbers) for topic, numbers in share.items()}
            for member_id, share in zip(self._members, shares, strict=True)
        }


class _Receivers:
    """Who takes the next partition: the smallest load, and of equals the first in the order at the start."""

    def __init__(self, order: Sequence[int], loads: Sequence[int]) -> None:
        self._heap = [(loads[index], rank, index) for rank, index in enumerate(order)]
        heapify(self._heap)

    @property
    def smallest_load(self) -> int:
        return self._heap[0][0]

    def take(self) -> int:
        load, rank, index = self._heap[0]
        heapreplace(self._heap, (load + 1, rank, index))
        return index


class _Donors:
    """Who gives up the next partition: the largest load that owns one of the topic.

    The donors are a window ``[_start, _end)`` of the order: all have the same load. Each pass over the window
    goes from its end to its start and takes one partition from each; then the window grows by the members
    that have that load already. A member without partitions of the topic leaves the window, and the last one
    takes its position: ties end as they end in Kafka.
    """

    def __init__(self, order: Sequence[int], loads: Sequence[int], owned: dict[int, list[int]]) -> None:
        self._order = list(order)
        self._loads = loads
        self._owned = owned
        self._start = self._end = len(order)
        self._position = -1  # of the last candidate
        self._level = loads[order[-1]] + 1

    def next(self) -> int | None:
        """The next donor, which is then expected to give one; ``None`` if no member has any left."""
        while self._end:
            self._position -= 1
            if self._position < self._start:
                self._begin_pass()
            candidate = self._order[self._position]
            if self._owned.get(candidate):
                return candidate
            self._end -= 1
            self._order[self._position] = self._order[self._end]
        return None

    def _begin_pass(self) -> None:
        is_empty = self._start == self._end
        self._level = self._loads[self._order[self._start - 1]] if is_empty else self._level - 1
        while self._start and self._loads[self._order[self._start - 1]] == self._level:
            self._start -= 1
        self._position = self._end - 1


def java_uuid_order(topic: TopicId) -> bytes:
    """A sort key: Java compares the two halves of an id as signed numbers."""
    return bytes((topic[0] ^ 0x80,)) + topic[1:8] + bytes((topic[8] ^ 0x80,)) + topic[9:]
