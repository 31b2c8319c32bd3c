"""``roundrobin``: all partitions dealt out like cards, skipping who did not ask for the topic."""

from collections.abc import Collection
from itertools import cycle

from kohort.assign.assignor import Assignments, ClusterView, RebalanceProtocol, Subscriptions
from kohort.assign.members import partitions_of, static_first, subscribers
from kohort.assign.protocol import Assignment
from kohort.model.ids import Generation, MemberId, TopicName
from kohort.model.topics import TopicPartition


class RoundRobinAssignor:
    """Even where all members want the same topics; with mixed subscriptions it can be far from even."""

    name = "roundrobin"
    supported_protocols = (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, topics: Collection[TopicName]) -> bytes | None:
        return None

    def assign(self, cluster: ClusterView, subscriptions: Subscriptions) -> Assignments:
        order = static_first(subscriptions)
        wanted = subscribers(cluster, subscriptions, order)
        asked = {topic: set(members) for topic, members in wanted.items()}
        hands: dict[MemberId, list[TopicPartition]] = {member: [] for member in order}
        turns = cycle(order)
        for partition in partitions_of(cluster, wanted):
            takers = asked[partition.topic]  # never empty: the topic is known because a member asked for it
            member = next(turns)
            while member not in takers:
                member = next(turns)
            hands[member].append(partition)
        return {member: Assignment(tuple(hand)) for member, hand in hands.items()}

    def on_assignment(self, assignment: Assignment, generation: Generation) -> None:
        """Nothing to remember: the next round is dealt afresh."""
