"""What an assignor is: the contract of the built-in ones and of those users bring."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from kohort.assign.protocol import Assignment, Subscription
from kohort.model.ids import Generation, MemberId, TopicName

Rack = str
Subscriptions = Mapping[MemberId, Subscription]
Assignments = dict[MemberId, Assignment]


class RebalanceProtocol(IntEnum):
    """How partitions change hands: all let go first, or only of what moves (KIP-429). Higher is better."""

    EAGER = 0
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The partitions there are, as the leader's metadata tells.

    ``partitions`` counts the partitions of each topic; a topic that is missing, or has none, is not
    assigned. ``racks`` holds, for each partition of a topic in order, the racks of all its replicas, online
    or not; topics (and partitions at the end) without known racks may be left out.
    """

    partitions: Mapping[TopicName, int]
    racks: Mapping[TopicName, Sequence[frozenset[Rack]]] = field(default_factory=dict)


class Assignor(Protocol):
    """Divides the partitions of a group's topics among its members.

    An instance belongs to one consumer. Every member calls ``subscription_user_data`` before it joins and
    ``on_assignment`` when it has got its share; the leader alone calls ``assign``.
    """

    @property
    def name(self) -> str:
        """What members of a group agree on: the name of the protocol in JoinGroup."""
        ...

    @property
    def supported_protocols(self) -> Collection[RebalanceProtocol]:
        """The ways of changing hands this assignor's results are safe for."""
        ...

    def subscription_user_data(self, topics: Collection[TopicName]) -> bytes | None:
        """What to tell the leader beyond topics, owned partitions, generation and rack."""
        ...

    def assign(self, cluster: ClusterView, subscriptions: Subscriptions) -> Mapping[MemberId, Assignment]:
        """An assignment for each member, possibly empty. The same input must give the same result."""
        ...

    def on_assignment(self, assignment: Assignment, generation: Generation) -> None:
        """Learn what this member got, and in which generation."""
        ...
