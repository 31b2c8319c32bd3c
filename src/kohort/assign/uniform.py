"""Sticky placement where all members want the same topics: everybody keeps what fits, the rest fills up.

With P partitions and n members, each gets P div n, and P mod n of them one more. Which partitions a member
gives up is chosen by number before topic, so that a shrinking member gives up of all topics alike.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from kohort.assign.members import by_member_id
from kohort.assign.racks import RackMatch
from kohort.model.ids import MemberId
from kohort.model.topics import TopicPartition

Shares = dict[MemberId, list[TopicPartition]]


def place_uniform(
    partitions: Sequence[TopicPartition],
    owned: Mapping[MemberId, Sequence[TopicPartition]],
    racks: RackMatch | None = None,
) -> Shares:
    """Divide ``partitions`` (by topic and number) among the members that ``owned`` has, one or more.

    With ``racks``, members do not keep what is far from them, and get what is near first.
    """
    table = _Table(len(partitions), owned)
    for member in table.shares:
        held = owned[member] if racks is None else [tp for tp in owned[member] if not racks.far(member, tp)]
        table.keep(member, sorted(held, key=lambda tp: (tp.partition, tp.topic)))
    kept = {tp for share in table.shares.values() for tp in share}
    unassigned = [tp for tp in partitions if tp not in kept]
    if racks is not None:
        unassigned = table.fill_nearby(racks.scarcest_first(unassigned), racks)
    table.fill(unassigned)
    table.check()
    return table.shares


class _Table:
    """Members at a table: who still has too little, who has just enough, how many got one more."""

    def __init__(self, count: int, members: Mapping[MemberId, object]) -> None:
        self.shares: Shares = {member: [] for member in by_member_id(members)}
        self._least, self._extras = divmod(count, len(members))
        self._most = self._least + 1 if self._extras else self._least
        self._over = 0  # members that have one more than the least
        self._under: list[MemberId] = []  # less than the least; members come by id, so it is sorted
        self._exact: deque[MemberId] = deque()  # the least, and may get one more; sorted too
        self._cursor = 0

    def keep(self, member: MemberId, held: Sequence[TopicPartition]) -> None:
        """Let a member keep of ``held``, in order, what its quota allows."""
        if len(held) < self._least:
            self.shares[member] += held
            self._under.append(member)
        elif len(held) >= self._most and self._over < self._extras:
            self.shares[member] += held[: self._most]
            self._count_over()
        else:
            self.shares[member] += held[: self._least]
            if self._over < self._extras:
                self._exact.append(member)

    def fill_nearby(self, partitions: Sequence[TopicPartition], racks: RackMatch) -> list[TopicPartition]:
        """Give to members in the rack of a replica, within the quotas; returns what no member took."""
        rest = []
        for tp in partitions:
            if (seat := self._next_near(tp, racks)) is not None:
                self._cursor = seat
                self._give_under(tp)
            elif (member := next((m for m in self._exact if racks.near(m, tp)), None)) is not None:
                self._exact.remove(member)
                self._give_exact(tp, member)
            else:
                rest.append(tp)
        self._cursor = 0
        return rest

    def fill(self, partitions: Sequence[TopicPartition]) -> None:
        """Give to those who have too little, in turn; then one each to those who may have one more."""
        for tp in partitions:
            if self._under:
                self._give_under(tp)
            else:
                self._give_exact(tp, self._exact.popleft())

    def check(self) -> None:
        """The quotas hold, whatever was claimed."""
        sizes = [len(share) for share in self.shares.values()]
        assert all(self._least <= size <= self._most for size in sizes)
        assert not self._extras or sizes.count(self._most) == self._extras

    def _next_near(self, tp: TopicPartition, racks: RackMatch) -> int | None:
        seats = len(self._under)
        turns = ((self._cursor + step) % seats for step in range(seats))
        return next((seat for seat in turns if racks.near(self._under[seat], tp)), None)

    def _give_under(self, tp: TopicPartition) -> None:
        """To the member at the cursor, which moves on to the next one."""
        member = self._under[self._cursor]
        self.shares[member].append(tp)
        if len(self.shares[member]) < self._least:
            self._cursor += 1
        else:
            del self._under[self._cursor]  # its successor is at the cursor now
            if self._over < self._extras:
                self._exact.append(member)
        if self._cursor == len(self._under):
            self._cursor = 0

    def _give_exact(self, tp: TopicPartition, member: MemberId) -> None:
        self.shares[member].append(tp)
        self._count_over()

    def _count_over(self) -> None:
        self._over += 1
        if self._over == self._extras:
            self._exact.clear()
