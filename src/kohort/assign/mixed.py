"""Sticky placement where members want different topics: all keep what they hold, then the fullest give.

A partition moves only from a member to one that has at least two fewer. So every move makes the group more
even, moving ends, and there is never a reason to go back to how it was (which the reference checks at its
end).
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from kohort.assign.claims import Holdings
from kohort.assign.members import by_member_id
from kohort.model.ids import MemberId, TopicName
from kohort.model.topics import TopicPartition

Seat = int
"""A member, by its place in the order of member ids: the lower seat wins a tie."""


def place_mixed(
    partitions: Sequence[TopicPartition],
    wanted: Mapping[TopicName, Sequence[MemberId]],
    holdings: Holdings,
) -> dict[MemberId, list[TopicPartition]]:
    """Divide ``partitions`` (by topic and number) among members; ``wanted`` says who may get a topic."""
    members = by_member_id(holdings.owned)
    seats = {member: seat for seat, member in enumerate(members)}
    takers = {topic: tuple(sorted(seats[member] for member in wanted[topic])) for topic in wanted}
    asked = {topic: set(those) for topic, those in takers.items()}

    held = [(tp, seats[member]) for member, owned in holdings.owned.items() for tp in owned]
    kept = {tp: seat for tp, seat in held if seat in asked[tp.topic]}
    rarest_first = sorted(partitions, key=lambda tp: len(takers[tp.topic]))
    unassigned = [tp for tp in rarest_first if tp not in kept]
    previous = {
        tp: seats[member] for tp, member in holdings.previous.items() if seats[member] in asked[tp.topic]
    }
    balance = _Balance(kept, takers, len(members))
    balance.place(unassigned)
    if len(kept) == len(held):  # no member must give up anything: perhaps moving what is new is enough
        balance.spread(_movable(unassigned, takers), previous)
    balance.spread(_movable(rarest_first, takers), previous)

    shares: dict[MemberId, list[TopicPartition]] = {member: [] for member in members}
    for tp in partitions:
        shares[members[balance.owner[tp]]].append(tp)
    return shares


def _movable(
    partitions: Iterable[TopicPartition], takers: Mapping[TopicName, Sequence[Seat]]
) -> list[TopicPartition]:
    return [tp for tp in partitions if len(takers[tp.topic]) > 1]


class _Balance:
    """Who has what, and how many each has, while partitions move."""

    def __init__(
        self,
        owner: dict[TopicPartition, Seat],
        takers: Mapping[TopicName, tuple[Seat, ...]],
        members: int,
    ) -> None:
        self.owner = dict(owner)
        self._takers = takers
        self._sizes = [0] * members
        for seat in owner.values():
            self._sizes[seat] += 1
        self._emptiest: dict[TopicName, Seat] = {}  # of its takers; forgotten with every change
        self._movements = _Movements()

    def place(self, partitions: Iterable[TopicPartition]) -> None:
        """Give each partition to the taker who has least."""
        for tp in partitions:
            seat = self._least(tp.topic)
            self.owner[tp] = seat
            self._sizes[seat] += 1
            self._emptiest.clear()

    def spread(self, partitions: Sequence[TopicPartition], previous: Mapping[TopicPartition, Seat]) -> None:
        """Move partitions from the full to the empty until no move is left that evens things out."""
        while max(self._sizes) - min(self._sizes) > 1 and self._pass_over(partitions, previous):
            pass

    def _pass_over(
        self, partitions: Sequence[TopicPartition], previous: Mapping[TopicPartition, Seat]
    ) -> bool:
        # The reference looks before each partition whether the whole is balanced, and stops; since balanced
        # means that no partition can move, walking on changes nothing and costs less than looking.
        moved = False
        for tp in partitions:
            enough = self._sizes[self.owner[tp]] - 1
            before = previous.get(tp)
            target = before if before is not None and self._sizes[before] < enough else self._least(tp.topic)
            if self._sizes[target] < enough:
                self._move(tp, target)
                moved = True
        return moved

    def _least(self, topic: TopicName) -> Seat:
        seat = self._emptiest.get(topic)
        if seat is None:
            seat = self._emptiest[topic] = min(self._takers[topic], key=self._sizes.__getitem__)
        return seat

    def _move(self, tp: TopicPartition, target: Seat) -> None:
        """Take one partition from the owner of ``tp`` and give the target one, without two crossing.

        If a partition of the topic has gone from the target to where ``tp`` comes from, it goes back instead.
        The reference then leaves a ``tp`` that has moved before where it is, although its owner has too many;
        here that ``tp`` goes back as well, so that the owner always ends with one less.
        """
        holder = self.owner[tp]
        source = self._movements.source(tp, holder)
        twin = self._movements.smallest(tp.topic, target, source)
        if twin is None:
            self._transfer(tp, target)
            return
        if source != holder:
            self._transfer(tp, source)
        self._transfer(twin, target)

    def _transfer(self, tp: TopicPartition, target: Seat) -> None:
        holder = self.owner[tp]
        self._movements.record(tp, holder, target)
        self.owner[tp] = target
        self._sizes[holder] -= 1
        self._sizes[target] += 1
        self._emptiest.clear()


class _Movements:
    """Where each moved partition came from and is now."""

    def __init__(self) -> None:
        self._routes: dict[TopicPartition, tuple[Seat, Seat]] = {}
        self._travellers: dict[tuple[TopicName, Seat, Seat], set[TopicPartition]] = {}

    def source(self, tp: TopicPartition, holder: Seat) -> Seat:
        """Where the partition was at first."""
        return self._routes[tp][0] if tp in self._routes else holder

    def smallest(self, topic: TopicName, source: Seat, target: Seat) -> TopicPartition | None:
        """A partition of the topic that has gone from source to target: the one with the smallest number."""
        return min(self._travellers.get((topic, source, target), ()), default=None, key=itemgetter(1))

    def record(self, tp: TopicPartition, holder: Seat, target: Seat) -> None:
        """One that is back where it was has not moved."""
        source = self.source(tp, holder)
        if tp in self._routes:
            self._travellers[tp.topic, source, holder].discard(tp)
            del self._routes[tp]
        if source != target:
            self._routes[tp] = (source, target)
            self._travellers.setdefault((tp.topic, source, target), set()).add(tp)
