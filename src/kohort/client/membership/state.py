"""What a member of either protocol knows: state, generation, the attempt to join, its target. No I/O."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kohort.client.errors import CommitFailedError, RebalanceInProgressError
from kohort.client.membership.reactions import MembershipLoss, NextStep
from kohort.client.metadata import Metadata
from kohort.model.errors import KohortError
from kohort.model.ids import Generation, Instant, MemberId, TopicId, TopicName
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequestAssignment


class ClassicMemberState(Enum):
    """How far a member is in its group."""

    UNJOINED = "not in a generation"
    PREPARING_REBALANCE = "JoinGroup sent, no usable answer yet"
    COMPLETING_REBALANCE = "JoinGroup answered, SyncGroup outstanding"
    STABLE = "SyncGroup answered"

    @property
    def is_rebalancing(self) -> bool:
        return self in (ClassicMemberState.PREPARING_REBALANCE, ClassicMemberState.COMPLETING_REBALANCE)


HEARTBEATING = frozenset({ClassicMemberState.COMPLETING_REBALANCE, ClassicMemberState.STABLE})
"""The states in which a member sends heartbeats: while JoinGroup is pending the broker needs none."""

TRANSITIONS: Mapping[ClassicMemberState, frozenset[ClassicMemberState]] = {
    ClassicMemberState.UNJOINED: frozenset(
        {ClassicMemberState.PREPARING_REBALANCE, ClassicMemberState.UNJOINED}
    ),
    ClassicMemberState.PREPARING_REBALANCE: frozenset(
        {
            ClassicMemberState.COMPLETING_REBALANCE,
            ClassicMemberState.PREPARING_REBALANCE,
            ClassicMemberState.UNJOINED,
        }
    ),
    ClassicMemberState.COMPLETING_REBALANCE: frozenset(
        {ClassicMemberState.STABLE, ClassicMemberState.PREPARING_REBALANCE, ClassicMemberState.UNJOINED}
    ),
    ClassicMemberState.STABLE: frozenset(
        {ClassicMemberState.PREPARING_REBALANCE, ClassicMemberState.UNJOINED}
    ),
}
"""What may follow what; to itself where a second attempt, or a second reset, changes nothing."""


class MemberGeneration(NamedTuple):
    """Which generation, as whom, with which assignor. Every request remembers the one it was sent in."""

    generation_id: Generation = Generation(-1)
    member_id: MemberId = MemberId("")
    protocol_name: str | None = None

    @property
    def was_reset(self) -> bool:
        """In no generation. The member id may have been kept."""
        return self.generation_id < 0 and self.protocol_name is None

    @property
    def is_unknown_to_the_group(self) -> bool:
        """A member that joins like this has lost what it owned: the group may have given it away."""
        return self.generation_id < 0 or not self.member_id

    def softly_reset(self) -> "MemberGeneration":
        """Out of the generation, but not forgotten: the id saves waiting for a ghost to time out."""
        return MemberGeneration(member_id=self.member_id)

    def __str__(self) -> str:
        return f"generation {self.generation_id} as {self.member_id or 'no member'!r}"


NO_GENERATION = MemberGeneration()


Shape = tuple[frozenset[str], ...]
"""A topic: for each of its partitions, in order, the racks of the replicas."""


@dataclass(frozen=True, slots=True)
class ClusterTopics:
    """Topics as a member sees them. ``version`` grows with every update.

    ``asked`` are the topics the last request was about (None: all): only of these is it known that they do
    not exist when they are missing.
    """

    version: int = 0
    topics: Mapping[TopicName, Shape] = field(default_factory=dict)
    internal: frozenset[TopicName] = frozenset()
    asked: frozenset[TopicName] | None = frozenset()
    ids: Mapping[TopicId, TopicName] = field(default_factory=dict)

    def covers(self, wanted: Iterable[TopicName]) -> bool:
        """Whether something is known of all of these, if only that they are not there."""
        return self.asked is None or all(each in self.asked or each in self.topics for each in wanted)

    def snapshot(self, wanted: Iterable[TopicName], *, with_racks: bool) -> "MetadataSnapshot":
        """What of these topics a change of counts as a reason to rebalance."""
        no_rack: frozenset[str] = frozenset()
        shapes = {
            name: self.topics[name] if with_racks else (no_rack,) * len(self.topics[name])
            for name in sorted(wanted)
            if name in self.topics
        }
        return MetadataSnapshot(self.version, shapes)


@dataclass(frozen=True, slots=True)
class MetadataSnapshot:
    """Partition counts, and racks if this consumer has one, at a version of the metadata."""

    version: int
    shapes: Mapping[TopicName, Shape]

    def matches(self, other: "MetadataSnapshot") -> bool:
        """Leaders may have changed; counts, topics and racks have not."""
        return self.version == other.version or self.shapes == other.shapes


def cluster_topics(
    metadata: Metadata, version: int, asked: Iterable[TopicName] | None = None
) -> ClusterTopics:
    """The same from the metadata of the client; ``asked`` as in ClusterTopics."""
    racks = {node.node_id: node.rack for node in metadata.nodes.values()}
    shapes = {
        name: tuple(
            frozenset(rack for node in one.replicas if (rack := racks.get(node)))  # type: ignore[call-overload]  # replicas are plain numbers
            for one in topic.partitions
        )
        for name, topic in metadata.topics.items()
    }
    internal = frozenset(name for name, topic in metadata.topics.items() if topic.is_internal)
    ids = {topic.topic_id: name for name, topic in metadata.topics.items()}
    return ClusterTopics(version, shapes, internal, None if asked is None else frozenset(asked), ids)


LONGEST_REASON = 255  # KIP-800


class JoinFailure(NamedTuple):
    """Why an attempt to join came to nothing, and what follows: JOIN_NOW, JOIN_LATER or RAISE."""

    error: KohortError
    then: NextStep


class JoinAttempt:
    """Kafka's join future: one JoinGroup and its SyncGroup, until join-complete has run to its end."""

    __slots__ = ("assigned", "assignment", "failure", "leads", "needs_topics")

    def __init__(self) -> None:
        self.assignment: bytes | None = None  # what SyncGroup brought
        self.failure: JoinFailure | None = None
        self.leads: JoinGroupResponse | None = None  # the leader waits for metadata of ``needs_topics``
        self.needs_topics: frozenset[TopicName] = frozenset()
        self.assigned: list[SyncGroupRequestAssignment] | None = None  # ready, but for newer metadata

    @property
    def is_done(self) -> bool:
        return self.assignment is not None or self.failure is not None

    def fail(self, error: KohortError, then: NextStep) -> None:
        self.leads = None
        self.failure = JoinFailure(error, then)


class AbstractMember(ABC):
    """What commits, and those who look on, need to know of a member of either protocol."""

    __slots__ = ("generation", "group_subscription", "is_leader", "rebalances_failed", "rejoin_needed")

    def __init__(self, generation: MemberGeneration = NO_GENERATION) -> None:
        self.generation = generation
        self.group_subscription: frozenset[TopicName] = frozenset()  # topics that others read
        self.is_leader = False
        self.rejoin_needed = True
        self.rebalances_failed = 0

    @property
    @abstractmethod
    def has_settled(self) -> bool:
        """In the group, with its assignment taken over, and nothing left to be done about that."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """For the log."""

    @property
    def is_preparing_rebalance(self) -> bool:
        return False

    @property
    def known_epoch(self) -> Generation | None:
        """The epoch that an OffsetFetch names; classic members name none."""
        return None

    @abstractmethod
    def commit_refusal(self, group_id: str) -> KohortError | None:
        """Why this member cannot commit now."""

    @abstractmethod
    def request_rejoin(self, reason: str) -> None:
        """Join again at the next poll."""

    @abstractmethod
    def lose(self, loss: MembershipLoss, sent: MemberGeneration, reason: str) -> bool:
        """Forget what a reaction says; whether there was a reset. Nothing is lost if ``sent`` is stale."""


class ClassicProtocolMember(AbstractMember):
    """A member of a classic group."""

    __slots__ = (
        "assignment_snapshot",
        "attempt",
        "awaits_topics",
        "has_fresh_topics",
        "join_not_before",
        "joined_subscription",
        "metadata_snapshot",
        "needs_join_prepare",
        "rejoin_reason",
        "state",
    )

    def __init__(self, now: Instant) -> None:
        super().__init__()
        self.state = ClassicMemberState.UNJOINED
        self.rejoin_reason = ""
        self.needs_join_prepare = True
        self.attempt: JoinAttempt | None = None
        self.join_not_before = now
        self.joined_subscription: frozenset[TopicName] = frozenset()
        self.metadata_snapshot = MetadataSnapshot(0, {})
        self.assignment_snapshot: MetadataSnapshot | None = None  # what the leader assigned by
        self.awaits_topics = False  # a pattern joins only with what there is now
        self.has_fresh_topics = False

    def __repr__(self) -> str:
        return f"<ClassicProtocolMember {self.state.name}, {self.generation}>"

    @property
    def has_settled(self) -> bool:
        """In a generation, with its assignment taken over, and no reason known to join again."""
        return self.state is ClassicMemberState.STABLE and self.attempt is None and not self.rejoin_needed

    @property
    def state_name(self) -> str:
        return self.state.name

    @property
    def is_preparing_rebalance(self) -> bool:
        return self.state is ClassicMemberState.PREPARING_REBALANCE

    def commit_refusal(self, group_id: str) -> KohortError | None:
        """Between "rejoin needed" and JoinGroup a member is still STABLE, and may commit."""
        if self.state is ClassicMemberState.STABLE:
            return None
        return (
            RebalanceInProgressError(group_id) if self.state.is_rebalancing else CommitFailedError(group_id)
        )

    def move_to(self, state: ClassicMemberState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state.name} is not followed by {state.name}"
        self.state = state

    def request_rejoin(self, reason: str) -> None:
        """Join again at the next poll; state and generation stay until JoinGroup is sent."""
        self.rejoin_needed = True
        self.rejoin_reason = reason[:LONGEST_REASON]

    def request_rejoin_if_necessary(self, reason: str) -> None:
        """The same, unless there already is a reason."""
        if not self.rejoin_needed:
            self.request_rejoin(reason)

    def reset(self, generation: MemberGeneration, reason: str) -> None:
        """Out of the group, as ``generation``; the next poll says so to the application and joins again."""
        self.move_to(ClassicMemberState.UNJOINED)
        self.generation = generation
        self.needs_join_prepare = True
        self.request_rejoin(reason)

    def lose(self, loss: MembershipLoss, sent: MemberGeneration, reason: str) -> bool:
        if loss is MembershipLoss.NOTHING or sent != self.generation:
            return False
        kept = sent.softly_reset() if loss is MembershipLoss.GENERATION else NO_GENERATION
        self.reset(kept, reason)
        return True


JOIN_EPOCH = Generation(0)
LEAVE_EPOCH = Generation(-1)
LEAVE_FOR_A_WHILE_EPOCH = Generation(-2)  # of a static member

PartitionsById = Mapping[TopicId, frozenset[int]]
"""An assignment as the coordinator sends it. Topics without partitions are left out."""


class ConsumerMemberState(Enum):
    """How far a member is in its group; the names of Kafka's ``ClassicMemberState``."""

    UNSUBSCRIBED = "not in the group"
    JOINING = "a heartbeat with epoch 0 is to be sent, or on its way"
    RECONCILING = "the target is not what the member owns"
    ACKNOWLEDGING = "reconciled; the next heartbeat says so"
    STABLE = "owns its target"
    FENCED = "the group has removed it: the application has to hear of it before it joins again"
    STALE = "left because the application did not poll for max.poll.interval.ms"
    FATAL = "refused: the next poll raises, a later one tries again"

    @property
    def is_in_group(self) -> bool:
        return self in (
            ConsumerMemberState.RECONCILING,
            ConsumerMemberState.ACKNOWLEDGING,
            ConsumerMemberState.STABLE,
        )

    @property
    def sends_heartbeats(self) -> bool:
        return self is ConsumerMemberState.JOINING or self.is_in_group


_S = ConsumerMemberState
_OUT = frozenset({_S.UNSUBSCRIBED, _S.FENCED, _S.STALE, _S.FATAL})
CONSUMER_TRANSITIONS: Mapping[ConsumerMemberState, frozenset[ConsumerMemberState]] = {
    _S.UNSUBSCRIBED: frozenset({_S.UNSUBSCRIBED, _S.JOINING}),
    _S.JOINING: frozenset({_S.RECONCILING}) | _OUT,
    _S.RECONCILING: frozenset({_S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE}) | _OUT,
    _S.ACKNOWLEDGING: frozenset({_S.RECONCILING, _S.STABLE}) | _OUT,
    _S.STABLE: frozenset({_S.RECONCILING}) | _OUT,
    _S.FENCED: frozenset({_S.JOINING, _S.UNSUBSCRIBED}),
    _S.STALE: frozenset({_S.JOINING, _S.UNSUBSCRIBED}),
    _S.FATAL: frozenset({_S.JOINING, _S.UNSUBSCRIBED}),
}


class SentFields(NamedTuple):
    """What the last heartbeat said about this member."""

    topics: frozenset[TopicName]
    pattern: str | None
    owned_changes: int


class ConsumerProtocolMember(AbstractMember):
    """The member id is made by the client and kept as long as it runs (KIP-1082)."""

    __slots__ = ("acknowledges", "owned", "owned_changes", "state", "target")

    def __init__(self, member_id: MemberId) -> None:
        super().__init__(MemberGeneration(JOIN_EPOCH, member_id))
        self.state = ConsumerMemberState.UNSUBSCRIBED
        self.target: PartitionsById | None = None  # None: no assignment has come since it joined
        self.owned: PartitionsById | None = None  # reconciled, or (None) nothing since it joined
        self.owned_changes = 0  # one for each reconciliation, even one that changed nothing
        self.acknowledges: PartitionsById | None = None  # the target of the last reconciliation

    def __repr__(self) -> str:
        return f"<ConsumerProtocolMember {self.state.name}, {self.generation}>"

    @property
    def epoch(self) -> Generation:
        return self.generation.generation_id

    @property
    def known_epoch(self) -> Generation | None:
        return self.epoch if self.epoch > JOIN_EPOCH else None

    @property
    def has_settled(self) -> bool:
        return self.state is ConsumerMemberState.STABLE

    @property
    def state_name(self) -> str:
        return self.state.name

    def move_to(self, state: ConsumerMemberState) -> None:
        assert state in CONSUMER_TRANSITIONS[self.state], f"{self.state.name} is not followed by {state.name}"
        self.state = state

    def join(self) -> None:
        """Begin to join; with nothing owned."""
        self.move_to(ConsumerMemberState.JOINING)
        self._forget(JOIN_EPOCH)

    def leave_group(self, state: ConsumerMemberState, epoch: Generation = JOIN_EPOCH) -> None:
        """Out of the group: by itself, or because the group removed it."""
        self.move_to(state)
        self._forget(epoch)

    def _forget(self, epoch: Generation) -> None:
        self.generation = self.generation._replace(generation_id=epoch)
        self.target = self.owned = self.acknowledges = None

    def heard(self, epoch: int, assignment: PartitionsById | None) -> None:
        """A heartbeat was answered; an assignment comes along if it has changed."""
        self.generation = self.generation._replace(generation_id=Generation(epoch))
        if assignment is not None and assignment != self.target:
            self.target = assignment
            self.move_to(ConsumerMemberState.RECONCILING)

    def reconciled_for(self, target: PartitionsById, owned: PartitionsById) -> None:
        """The application knows what it owns now; the coordinator hears it with the next heartbeat.

        Even if nothing has changed: without that it waits for partitions which it takes for owned.
        """
        self.owned, self.acknowledges = owned, target
        self.owned_changes += 1
        self.move_to(ConsumerMemberState.ACKNOWLEDGING)

    def acknowledged(self) -> None:
        """The heartbeat that says what is owned was sent."""
        is_done = self.owned == self.target
        self.move_to(ConsumerMemberState.STABLE if is_done else ConsumerMemberState.RECONCILING)

    def commit_refusal(self, group_id: str) -> KohortError | None:
        return None if self.state.is_in_group else CommitFailedError(group_id)

    def request_rejoin(self, reason: str) -> None:
        """Only the coordinator decides when the group rebalances."""

    def lose(self, loss: MembershipLoss, sent: MemberGeneration, reason: str) -> bool:
        """A commit that is refused changes nothing: heartbeats say whether the member was removed."""
        return False
