"""``range``: each topic cut into as many stretches as it has subscribers.

Topics with equally many partitions and the same subscribers are co-partitioned: one member reads the same
partition numbers of all of them. Where racks are known, members get partitions with a replica nearby, as
long as balance and co-partitioning allow.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from kohort.assign.assignor import Assignments, ClusterView, Rack, RebalanceProtocol, Subscriptions
from kohort.assign.members import static_first, subscribers
from kohort.assign.protocol import Assignment
from kohort.assign.racks import member_racks, racks_matter, topic_racks
from kohort.model.ids import Generation, MemberId, Partition, TopicName
from kohort.model.topics import TopicPartition


class RangeAssignor:
    """The default of most clients. The remainder of every topic favours the first members."""

    name = "range"
    supported_protocols = (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, topics: Collection[TopicName]) -> bytes | None:
        return None

    def assign(self, cluster: ClusterView, subscriptions: Subscriptions) -> Assignments:
        order = static_first(subscriptions)
        wanted = subscribers(cluster, subscriptions, order)
        cuts = [_Cut(topic, cluster.partitions[topic], members) for topic, members in wanted.items()]
        if cluster.racks:
            _match_racks(cuts, cluster, member_racks(subscriptions))
        for cut in cuts:
            cut.deal_the_rest()
        shares: dict[MemberId, list[TopicPartition]] = {member: [] for member in order}
        for cut in cuts:
            for member, numbers in cut.taken.items():
                shares[member] += [TopicPartition(cut.topic, number) for number in sorted(numbers)]
        return {member: Assignment(tuple(share)) for member, share in shares.items()}

    def on_assignment(self, assignment: Assignment, generation: Generation) -> None:
        """Nothing to remember: the same members get the same stretches again."""


class _Cut:
    """One topic while it is divided: what is left of it, who has how much room."""

    __slots__ = ("_each", "_extras", "left", "members", "taken", "topic")

    def __init__(self, topic: TopicName, count: int, members: Sequence[MemberId]) -> None:
        self.topic = topic
        self.members = members
        self.left = [Partition(number) for number in range(count)]
        self.taken: dict[MemberId, list[Partition]] = {}
        self._each, self._extras = divmod(count, len(members))

    def room(self, member: MemberId) -> int:
        """How many more the member may take: the first members to ask get the extra ones."""
        quota = self._each + 1 if self._extras else self._each
        return max(0, quota - len(self.taken.get(member, ())))

    def give(self, member: MemberId, numbers: Sequence[Partition]) -> None:
        """Hand over partitions that were taken from ``left``, no more of them than there is room."""
        share = self.taken.setdefault(member, [])
        share += numbers
        if len(share) > self._each:
            self._extras -= 1

    def deal_the_rest(self) -> None:
        start = 0
        for member in self.members:
            if start == len(self.left):
                break
            room = self.room(member)
            if room:
                self.give(member, self.left[start : start + room])
                start += room
        self.left.clear()


def _match_racks(cuts: Iterable[_Cut], cluster: ClusterView, racks: Mapping[MemberId, Rack]) -> None:
    """Give partitions to members near them, in topics that are co-partitioned to the same member."""
    near = {cut.topic: topic_racks(cluster, cut.topic) for cut in cuts}
    matters = {
        cut.topic: racks_matter({racks[member] for member in cut.members if member in racks}, near[cut.topic])
        for cut in cuts
    }
    if not any(matters.values()):
        return
    alike: dict[tuple[tuple[MemberId, ...], int], list[_Cut]] = {}
    for cut in cuts:  # a member has one rack, so equal subscribers have equal racks
        alike.setdefault((tuple(cut.members), len(cut.left)), []).append(cut)
    for together in alike.values():
        if len(together) > 1:
            _match_together(together, near, racks)
        elif matters[together[0].topic]:
            _match_alone(together[0], near[together[0].topic], racks)


def _match_together(
    cuts: Sequence[_Cut], near: Mapping[TopicName, Sequence[frozenset[Rack]]], racks: Mapping[MemberId, Rack]
) -> None:
    rest: list[Partition] = []
    for number in cuts[0].left:
        common = frozenset.intersection(*(near[cut.topic][number] for cut in cuts))
        # All cuts have given the same so far: who has room in one has room in all.
        fits = (m for m in cuts[0].members if (m not in racks or racks[m] in common) and cuts[0].room(m))
        member = next(fits, None)
        if member is None:
            rest.append(number)
        else:
            for cut in cuts:
                cut.give(member, [number])
    for cut in cuts:
        cut.left = list(rest)


def _match_alone(cut: _Cut, near: Sequence[frozenset[Rack]], racks: Mapping[MemberId, Rack]) -> None:
    for member in cut.members:
        rack = racks.get(member)
        fits = [number for number in cut.left if rack is None or rack in near[number]][: cut.room(member)]
        if fits:
            cut.give(member, fits)
            given = set(fits)
            cut.left = [number for number in cut.left if number not in given]
