"""``cooperative-sticky``: as ``sticky``, but members go on reading what does not move (KIP-429)."""

from collections.abc import Collection, Mapping

from kohort.assign.assignor import Assignments, ClusterView, RebalanceProtocol, Subscriptions
from kohort.assign.protocol import (
    NO_GENERATION,
    Assignment,
    StickyUserData,
    Subscription,
    decode_generation,
    encode_generation,
)
from kohort.assign.sticky import place
from kohort.model.errors import KohortError
from kohort.model.ids import Generation, MemberId, TopicName
from kohort.model.topics import TopicPartition


class UnsafeAssignmentError(KohortError):
    """An assignor gave a partition to one member while another still reads it."""


class CooperativeStickyAssignor:
    """What moves is withheld for one round: its owner lets go and joins again, the next round places it."""

    name = "cooperative-sticky"
    supported_protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def subscription_user_data(self, topics: Collection[TopicName]) -> bytes:
        return encode_generation(self._generation)

    def assign(self, cluster: ClusterView, subscriptions: Subscriptions) -> Assignments:
        claims = {member: _claim(wish) for member, wish in subscriptions.items()}
        shares, transferring = place(cluster, subscriptions, claims)
        return {
            member: Assignment(tuple(tp for tp in share if tp not in transferring))
            for member, share in shares.items()
        }

    def on_assignment(self, assignment: Assignment, generation: Generation) -> None:
        self._generation = generation


def check_hand_over(subscriptions: Subscriptions, assignments: Mapping[MemberId, Assignment]) -> None:
    """Refuse, with UnsafeAssignmentError, what gives a member something another member has yet to let go of.

    For the leader of a cooperative group to call on what any assignor but ``cooperative-sticky`` came up
    with.
    """
    added: dict[TopicPartition, MemberId] = {}
    revoked: dict[TopicPartition, MemberId] = {}
    for member, wish in subscriptions.items():
        before, after = set(wish.owned), set(assignments[member].partitions)
        added.update(dict.fromkeys(after - before, member))
        revoked.update(dict.fromkeys(before - after, member))
    crossing = min(added.keys() & revoked.keys(), default=None)
    if crossing is not None:
        raise UnsafeAssignmentError(
            f"{crossing} was assigned to {added[crossing]!r} while {revoked[crossing]!r} still owns it",
            hint="a cooperative assignor must leave such a partition out for one round",
        )


def _claim(wish: Subscription) -> StickyUserData:
    generation = decode_generation(wish.user_data) if wish.generation is None else wish.generation
    return StickyUserData(wish.owned, generation)
