"""Where a member stands in its group: the four states, and the generation it belongs to.

Kafka's ``MemberState`` and ``Generation`` of ``AbstractCoordinator``. The table of transitions is data that
the code asserts, the tests walk and the docs can print.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from kohort.model.ids import Generation, MemberId


class MemberState(Enum):
    """What a member has been told so far."""

    UNJOINED = "not in a generation"
    PREPARING_REBALANCE = "JoinGroup sent, no usable answer yet"
    COMPLETING_REBALANCE = "JoinGroup answered, SyncGroup outstanding"
    STABLE = "SyncGroup answered"

    @property
    def heartbeats(self) -> bool:
        """Whether a member in this state tells the coordinator that it lives.

        While JoinGroup is pending the broker keeps a member without heartbeats.
        """
        return self in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)

    @property
    def is_rebalancing(self) -> bool:
        return self in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)


TRANSITIONS: Mapping[MemberState, frozenset[MemberState]] = {
    MemberState.UNJOINED: frozenset({MemberState.PREPARING_REBALANCE, MemberState.UNJOINED}),
    MemberState.PREPARING_REBALANCE: frozenset(
        {MemberState.COMPLETING_REBALANCE, MemberState.PREPARING_REBALANCE, MemberState.UNJOINED}
    ),
    MemberState.COMPLETING_REBALANCE: frozenset(
        {MemberState.STABLE, MemberState.PREPARING_REBALANCE, MemberState.UNJOINED}
    ),
    MemberState.STABLE: frozenset({MemberState.PREPARING_REBALANCE, MemberState.UNJOINED}),
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
        """Whoever joins like this has lost what it owned: the group may have given it away."""
        return self.generation_id < 0 or not self.member_id

    def softly_reset(self) -> "MemberGeneration":
        """Out of the generation, but not forgotten: the id saves waiting for a ghost to time out."""
        return MemberGeneration(member_id=self.member_id)

    def __str__(self) -> str:
        return f"generation {self.generation_id} as {self.member_id or 'nobody'!r}"


NO_GENERATION = MemberGeneration()
