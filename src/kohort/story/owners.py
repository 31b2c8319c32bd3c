"""Who has which partition, and since when nobody has: followed through a group's history."""

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
        self._held: dict[str, list[TopicPartition]] | None = None  # the same by owner, once it is needed

    def forget(self) -> None:
        """Something was missed: what is known may be wrong."""
        self.is_known = False
        self._own({})
        self.orphans = {}

    def begin(self, owners: Mapping[TopicPartition, str]) -> None:
        """This is how it is, whatever was before."""
        self.is_known = True
        self._own(owners)
        self.orphans = {}

    def _own(self, owners: Mapping[TopicPartition, str]) -> None:
        self._owners = dict(owners)
        self._held = None

    def rename(self, old: str, new: str) -> None:
        """A static member has another id."""
        self._own({one: new if owner == old else owner for one, owner in self._owners.items()})

    def holders(self) -> set[str]:
        """Everyone who has a partition."""
        return set(self._owners.values())

    def lose(self, member_id: str, lost: Lost, since: int) -> None:
        """A member is gone; nobody has worked on its partitions since then."""
        if self._held is None:
            self._held = {}
            for partition, owner in self._owners.items():
                self._held.setdefault(owner, []).append(partition)
        for partition in self._held.pop(member_id, ()):
            del self._owners[partition]
            self.orphans[partition] = Orphan(member_id, lost, since)

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
        """Since when nobody has had a partition that is assigned now; ``None`` if somebody has."""
        orphan = self.orphans.pop(partition, None)
        if eager_since is None or (orphan is not None and orphan.since <= eager_since):
            return orphan
        before = orphan.was if orphan is not None else self._owners.get(partition)
        return None if before is None else Orphan(before, Lost.EAGER, eager_since)

    def keep_only(self, topics: Collection[str]) -> None:
        """Nobody consumes other topics any more: their partitions are not missing an owner."""
        self.orphans = {one: orphan for one, orphan in self.orphans.items() if one.topic in topics}

    def still_unowned(self) -> list[Unowned]:
        """The partitions that have no owner now."""
        return [Unowned(partition, *orphan, None, None) for partition, orphan in sorted(self.orphans.items())]
