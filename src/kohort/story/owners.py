"""Who owns which partition, and since when a partition has no owner: followed through a group's history."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kohort.model.topics import TopicPartition
from kohort.story.rebalance import Lost, Move, Unowned


class Orphan(NamedTuple):
    """A partition that lost its owner."""

    was: str
    lost: Lost
    since: int


class Change(NamedTuple):
    """What a new assignment did."""

    moves: list[Move]
    stayed: int
    unowned: list[Unowned]


class Ownership:
    """The owners of partitions. ``is_known`` is False until an assignment, or an empty group, was seen."""

    def __init__(self) -> None:
        self.is_known = False
        self.orphans: dict[TopicPartition, Orphan] = {}
        self._owners: dict[TopicPartition, str] = {}
        self._held: dict[str, set[TopicPartition]] | None = None  # the same by owner, once it is needed

    def forget(self) -> None:
        """Something was missed: what is known may be wrong."""
        self.is_known = False
        self._own({})
        self.orphans = {}

    def begin(
        self, owners: Mapping[TopicPartition, str], orphans: Mapping[TopicPartition, Orphan] | None = None
    ) -> None:
        """This is how it is, whatever was before. What is owned now is no orphan."""
        self.is_known = True
        self._own(owners)
        self.orphans = {one: how for one, how in (orphans or {}).items() if one not in owners}

    def _own(self, owners: Mapping[TopicPartition, str]) -> None:
        self._owners = dict(owners)
        self._held = None

    def rename(self, old: str, new: str) -> None:
        """A static member has another id."""
        for partition, orphan in self.orphans.items():
            if orphan.was == old:
                self.orphans[partition] = orphan._replace(was=new)
        self._own({one: new if owner == old else owner for one, owner in self._owners.items()})

    def holders(self) -> set[str]:
        """Everyone who has a partition."""
        return set(self._owners.values())

    def _held_by(self, member_id: str) -> set[TopicPartition]:
        if self._held is None:
            self._held = {}
            for partition, owner in self._owners.items():
                self._held.setdefault(owner, set()).add(partition)
        return self._held.setdefault(member_id, set())

    def lose(self, member_id: str, lost: Lost, since: int) -> None:
        """A member is gone; its partitions have no owner since then."""
        self._release(member_id, set(self._held_by(member_id)), lost, since)

    def _release(self, member_id: str, partitions: set[TopicPartition], lost: Lost, since: int) -> None:
        held = self._held_by(member_id)
        for partition in partitions:
            held.discard(partition)
            del self._owners[partition]
            self.orphans[partition] = Orphan(member_id, lost, since)

    def hold(self, member_id: str, partitions: Collection[TopicPartition], at: int) -> Change:
        """A member of a consumer group has these partitions and no others."""
        change = Change([], 0, [])
        held = self._held_by(member_id)
        self._release(member_id, held.difference(partitions), Lost.REVOKED, at)
        for partition in sorted(set(partitions) - held):
            orphan = self.orphans.pop(partition, None)
            before = orphan.was if orphan is not None else self._owners.get(partition)
            if before != member_id:
                change.moves.append(Move(partition, before, member_id))
            if orphan is not None:
                change.unowned.append(Unowned(partition, *orphan, at, member_id))
            elif before is not None:
                self._held_by(before).discard(partition)
            self._owners[partition] = member_id
            held.add(partition)
        return change

    def count(self) -> int:
        """How many partitions have an owner."""
        return len(self._owners)

    def assign(self, assigned: Mapping[TopicPartition, str], at: int, eager_since: int | None) -> Change:
        """A new assignment. ``eager_since``: when everyone had to give up everything, if they had to."""
        change = Change([], 0, [])
        stayed = 0
        for partition, after in sorted(assigned.items()):
            orphan = self._orphan(partition, eager_since)
            before = orphan.was if orphan is not None else self._owners.get(partition)
            if before == after:
                stayed += 1
            else:
                change.moves.append(Move(partition, before, after))
            if orphan is not None:
                change.unowned.append(Unowned(partition, *orphan, at, after))
        for partition in sorted(self._owners.keys() - assigned.keys()):
            before = self._owners[partition]
            change.moves.append(Move(partition, before, None))
            self.orphans[partition] = Orphan(before, Lost.REVOKED, at if eager_since is None else eager_since)
        self._own(assigned)
        self.is_known = True
        return change._replace(stayed=stayed)

    def _orphan(self, partition: TopicPartition, eager_since: int | None) -> Orphan | None:
        """Since when a partition that is assigned now has no owner; ``None`` if it has one."""
        orphan = self.orphans.pop(partition, None)
        if eager_since is None or (orphan is not None and orphan.since <= eager_since):
            return orphan
        before = orphan.was if orphan is not None else self._owners.get(partition)
        return None if before is None else Orphan(before, Lost.EAGER, eager_since)

    def keep_only(self, topics: Collection[str]) -> None:
        """No member consumes other topics any more: their partitions need no owner."""
        self.orphans = {one: orphan for one, orphan in self.orphans.items() if one.topic in topics}

    def keep_wanted(self, wanted: Collection[TopicPartition]) -> None:
        """No member of a consumer group is to have other partitions: they are not missing an owner."""
        self.orphans = {one: orphan for one, orphan in self.orphans.items() if one in wanted}

    def still_unowned(self) -> list[Unowned]:
        """The partitions that have no owner now."""
        return [Unowned(partition, *orphan, None, None) for partition, orphan in sorted(self.orphans.items())]
