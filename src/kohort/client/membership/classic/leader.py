"""The leader's work between JoinGroup and SyncGroup: who gets which partitions.

The assignor decides; this file finds it, reads what the members want, waits for metadata of all their topics
(asynchronously: heartbeats go on) and checks what comes out.
"""

from collections.abc import Mapping
from dataclasses import replace

from kohort.assign.assignor import Assignor, ClusterView, RebalanceProtocol
from kohort.assign.cooperative import check_hand_over
from kohort.assign.protocol import Assignment, Subscription, decode_subscription, encode_assignment
from kohort.client.membership.context import ClassicContext
from kohort.client.membership.errors import IllegalMemberStateError
from kohort.client.membership.state import JoinAttempt
from kohort.model.ids import InstanceId, MemberId, TopicName
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequestAssignment

COOPERATIVE_BUILT_IN = "cooperative-sticky"
BUILT_IN = frozenset({"range", "roundrobin", "sticky", COOPERATIVE_BUILT_IN})


class Leader:
    """Kafka's ``onJoinLeader`` as far as it goes without sending anything."""

    def __init__(self, context: ClassicContext) -> None:
        self._context = context

    def perform_assignment(
        self, attempt: JoinAttempt, joined: JoinGroupResponse
    ) -> list[SyncGroupRequestAssignment] | None:
        """What to send with SyncGroup, or None while metadata is awaited (then ask again).

        Raises IllegalMemberStateError, or what decoding or the assignor raise.
        """
        if attempt.assigned is None:
            subscriptions = _read(joined)
            topics = frozenset(topic for each in subscriptions.values() for topic in each.topics)
            if not self._knows(attempt, joined, topics):
                return None
            self._context.member.is_leader = True
            if joined.skip_assignment:  # KIP-814: a static leader is back, and nothing has changed
                attempt.assigned = []
            else:
                assignments = self._assign(joined.protocol_name, subscriptions)
                topics |= _topics_of(joined.protocol_name, assignments)
                attempt.assigned = [
                    SyncGroupRequestAssignment(member_id=each, assignment=encode_assignment(assigned))
                    for each, assigned in sorted(assignments.items())
                ]
            if not self._knows(attempt, joined, topics):
                return None
        self._remember_snapshot()
        return attempt.assigned

    def _knows(self, attempt: JoinAttempt, joined: JoinGroupResponse, topics: frozenset[TopicName]) -> bool:
        """Whether metadata covers the group's topics; if not, it is asked for and the attempt waits."""
        self._context.member.group_subscription = topics
        attempt.leads, attempt.needs_topics = None, topics
        if self._context.cluster.covers(self._context.wanted_topics):
            return True
        attempt.leads = joined
        self._context.refresh_metadata()
        return False

    def _assign(
        self, protocol_name: str | None, subscriptions: Mapping[MemberId, Subscription]
    ) -> Mapping[MemberId, Assignment]:
        assignor = self.lookup_assignor(protocol_name)
        topics = self._context.cluster.topics
        view = ClusterView({name: len(shape) for name, shape in topics.items()}, topics)
        assignments = assignor.assign(view, subscriptions)
        is_cooperative = self._context.protocol is RebalanceProtocol.COOPERATIVE
        if is_cooperative and assignor.name != COOPERATIVE_BUILT_IN:
            check_hand_over(subscriptions, assignments)
        return assignments

    def lookup_assignor(self, protocol_name: str | None) -> Assignor:
        """The assignor the group has agreed on; IllegalMemberStateError if it is none of ours."""
        found = self._context.assignors.get(protocol_name or "")
        if found is None:
            raise IllegalMemberStateError(
                f"the coordinator selected the assignor {protocol_name!r}, which this consumer does not have",
                hint=f"it offered {', '.join(self._context.assignors)}; see partition.assignment.strategy",
            )
        return found

    def _remember_snapshot(self) -> None:
        """From now on only the leader watches whether these topics change."""
        context, member = self._context, self._context.member
        with_racks = bool(context.settings.client_rack)
        member.metadata_snapshot = context.cluster.snapshot(context.wanted_topics, with_racks=with_racks)
        member.assignment_snapshot = member.metadata_snapshot


def _read(joined: JoinGroupResponse) -> dict[MemberId, Subscription]:
    return {
        MemberId(each.member_id): replace(
            decode_subscription(each.metadata),
            instance_id=None if each.group_instance_id is None else InstanceId(each.group_instance_id),
        )
        for each in joined.members
    }


def _topics_of(protocol_name: str | None, assignments: Mapping[MemberId, Assignment]) -> frozenset[TopicName]:
    """Topics a custom assignor gave out; the built-in ones give out only what was asked for."""
    if protocol_name in BUILT_IN:
        return frozenset()
    return frozenset(each.topic for assigned in assignments.values() for each in assigned.partitions)
