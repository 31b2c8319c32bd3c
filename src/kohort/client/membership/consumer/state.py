"""What a member of the consumer protocol knows: its state and epoch, its target and what it owns. No I/O."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from kohort.client.membership.errors import CommitFailedError
from kohort.client.membership.reactions import Loss
from kohort.client.membership.state import AbstractMember, MemberGeneration
from kohort.model.errors import KohortError
from kohort.model.ids import Generation, MemberId, TopicId, TopicName

JOIN_EPOCH = Generation(0)
LEAVE_EPOCH = Generation(-1)
LEAVE_FOR_A_WHILE_EPOCH = Generation(-2)  # of a static member

PartitionsById = Mapping[TopicId, frozenset[int]]
"""An assignment as the coordinator sends it. Topics without partitions are left out."""


class ConsumerMemberState(Enum):
    """How far a member is in its group; the names of Kafka's ``MemberState``."""

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
TRANSITIONS: Mapping[ConsumerMemberState, frozenset[ConsumerMemberState]] = {
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
    """What the coordinator was last told about this member."""

    topics: frozenset[TopicName]
    pattern: str | None
    owned_changes: int


class ConsumerMember(AbstractMember):
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
        return f"<ConsumerMember {self.state.name}, {self.generation}>"

    @property
    def epoch(self) -> Generation:
        return self.generation.generation_id

    @property
    def has_settled(self) -> bool:
        return self.state is ConsumerMemberState.STABLE

    @property
    def state_name(self) -> str:
        return self.state.name

    def move_to(self, state: ConsumerMemberState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state.name} is not followed by {state.name}"
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

    def lose(self, loss: Loss, sent: MemberGeneration, reason: str) -> bool:
        """A commit that is refused changes nothing: heartbeats say whether the member was removed."""
        return False
