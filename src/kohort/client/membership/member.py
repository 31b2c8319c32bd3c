"""What a member knows of itself and its group; changed by the parts of the machine, never by the shell."""

from typing import NamedTuple

from kohort.client.membership.reactions import Loss, Then
from kohort.client.membership.snapshot import MetadataSnapshot
from kohort.client.membership.state import NO_GENERATION, TRANSITIONS, MemberGeneration, MemberState
from kohort.model.errors import KohortError
from kohort.model.ids import Instant, TopicName
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequestAssignment

LONGEST_REASON = 255  # KIP-800


class JoinFailure(NamedTuple):
    """Why an attempt to join came to nothing, and what follows: JOIN_NOW, JOIN_LATER or RAISE."""

    error: KohortError
    then: Then


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

    def fail(self, error: KohortError, then: Then) -> None:
        self.leads = None
        self.failure = JoinFailure(error, then)


class Member:
    """The group as this member sees it."""

    __slots__ = (
        "assignment_snapshot",
        "attempt",
        "awaits_topics",
        "generation",
        "group_subscription",
        "has_fresh_topics",
        "is_leader",
        "join_not_before",
        "joined_subscription",
        "metadata_snapshot",
        "needs_join_prepare",
        "rebalances_failed",
        "rejoin_needed",
        "rejoin_reason",
        "state",
    )

    def __init__(self, now: Instant) -> None:
        self.state = MemberState.UNJOINED
        self.generation = NO_GENERATION
        self.rejoin_needed = True
        self.rejoin_reason = ""
        self.needs_join_prepare = True
        self.attempt: JoinAttempt | None = None
        self.join_not_before = now
        self.joined_subscription: frozenset[TopicName] = frozenset()
        self.is_leader = False
        self.group_subscription: frozenset[TopicName] = frozenset()
        self.metadata_snapshot = MetadataSnapshot(0, {})
        self.assignment_snapshot: MetadataSnapshot | None = None  # what the leader assigned by
        self.awaits_topics = False  # a pattern joins only with what there is now
        self.has_fresh_topics = False
        self.rebalances_failed = 0

    def __repr__(self) -> str:
        return f"<Member {self.state.name}, {self.generation}>"

    def move_to(self, state: MemberState) -> None:
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
        self.move_to(MemberState.UNJOINED)
        self.generation = generation
        self.needs_join_prepare = True
        self.request_rejoin(reason)

    def lose(self, loss: Loss, sent: MemberGeneration, reason: str) -> bool:
        """Forget what a reaction says; whether there was a reset. Nothing is lost if ``sent`` is stale."""
        if loss is Loss.NOTHING or sent != self.generation:
            return False
        kept = sent.softly_reset() if loss is Loss.GENERATION else NO_GENERATION
        self.reset(kept, reason)
        return True
