"""``sticky``: as even as can be, and as little moved as that allows (KIP-54)."""

from collections.abc import Collection
from typing import NamedTuple

from kohort.assign.assignor import Assignments, ClusterView, RebalanceProtocol, Subscriptions
from kohort.assign.claims import Claims, judge
from kohort.assign.members import by_member_id, partitions_of, subscribers
from kohort.assign.mixed import place_mixed
from kohort.assign.protocol import (
    NO_GENERATION,
    Assignment,
    decode_sticky_user_data,
    encode_sticky_user_data,
)
from kohort.assign.racks import rack_match
from kohort.assign.uniform import place_uniform
from kohort.model.ids import Generation, MemberId, TopicName
from kohort.model.topics import TopicPartition


class StickyAssignor:
    """Members tell what they held in their user data: by the time they join they have let go of it."""

    name = "sticky"
    supported_protocols = (RebalanceProtocol.EAGER,)

    def __init__(self) -> None:
        self._held: tuple[TopicPartition, ...] | None = None
        self._generation = NO_GENERATION

    def subscription_user_data(self, topics: Collection[TopicName]) -> bytes | None:
        return None if self._held is None else encode_sticky_user_data(self._held, self._generation)

    def assign(self, cluster: ClusterView, subscriptions: Subscriptions) -> Assignments:
        claims = {member: decode_sticky_user_data(wish.user_data) for member, wish in subscriptions.items()}
        placement = place(cluster, subscriptions, claims)
        return {member: Assignment(tuple(share)) for member, share in placement.shares.items()}

    def on_assignment(self, assignment: Assignment, generation: Generation) -> None:
        self._held = assignment.partitions
        self._generation = generation


class Placement(NamedTuple):
    """What members should have in the end, and what of it another member must let go of first."""

    shares: dict[MemberId, list[TopicPartition]]
    transferring: dict[TopicPartition, MemberId]


def place(cluster: ClusterView, subscriptions: Subscriptions, claims: Claims) -> Placement:
    """Both sticky assignors: ``claims`` says what members held, wherever they said so."""
    if not subscriptions:
        return Placement({}, {})
    wanted = subscribers(cluster, subscriptions, by_member_id(subscriptions))
    holdings = judge(claims, {topic: cluster.partitions[topic] for topic in wanted})
    partitions = partitions_of(cluster, wanted)
    if len({frozenset(wish.topics) for wish in subscriptions.values()}) == 1:
        shares = place_uniform(partitions, holdings.owned, rack_match(cluster, subscriptions, wanted))
    else:
        shares = place_mixed(partitions, wanted, holdings)
    owned = {tp: member for member, held in holdings.owned.items() for tp in held}
    # An unclaimed partition is free. A claimed one is free for its owner alone; where claims of one
    # generation contradict each other, for no member.
    transferring = {
        tp: member
        for member, share in shares.items()
        for tp in share
        if tp in holdings.claimed and owned.get(tp) != member
    }
    return Placement(shares, transferring)
