"""The application's part of a rebalance: which callback runs when, and what is committed before.

| event                            | EAGER                    | COOPERATIVE                              |
|----------------------------------|--------------------------|------------------------------------------|
| before JoinGroup, still a member | revoked(all, maybe none) | revoked(those of dropped topics), if any |
| before JoinGroup, after a reset  | lost(all), if any        | lost(all), if any                        |
| join complete                    | assigned(all)            | revoked(owned - assigned), if any;       |
|                                  |                          | assigned(assigned - owned, maybe none);  |
|                                  |                          | after a revocation join again            |
| unsubscribe, close               | revoked(all), if any; lost(all) if reset or in mid-rebalance        |

The assignment changes after revoked and lost, so that a listener can still read positions and commit, and
before assigned, so that it can seek.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, assert_never

from kohort.assign.assignor import Assignor, ClusterView, RebalanceProtocol
from kohort.assign.cooperative import check_hand_over
from kohort.assign.protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from kohort.client.errors import (
    CallbackFailedError,
    IllegalMemberStateError,
    InterruptedCallbackError,
)
from kohort.client.membership.commands import CallbackDone, CallbackKind
from kohort.client.membership.commits import AutoCommits, RebalanceCommit
from kohort.client.membership.context import CallbackStep, ClassicContext, OpenCallback
from kohort.client.membership.state import JoinAttempt
from kohort.model.errors import KohortError
from kohort.model.ids import InstanceId, Instant, MemberId, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequestAssignment

COOPERATIVE_BUILT_IN = "cooperative-sticky"
BUILT_IN = frozenset({"range", "roundrobin", "sticky", COOPERATIVE_BUILT_IN})


class GroupLeader:
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


_SHORTEST_ASSIGNMENT = 2  # a version; even one without partitions has it


class TakingOver(NamedTuple):
    """An assignment between its callbacks, with what went wrong so far."""

    assignor: Assignor
    assignment: Assignment
    owned: frozenset[TopicPartition]
    errors: list[BaseException]


class RebalanceCallbacks:
    """Prepare, complete, release. All of it runs inside calls of the application."""

    def __init__(self, context: ClassicContext, auto_commits: AutoCommits) -> None:
        self._context = context
        self._auto_commits = auto_commits
        self.leader = GroupLeader(context)
        self._prepare: RebalanceCommit | None = None
        self._revocation: RebalanceCommit | None = None
        self._taking_over: TakingOver | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a rebalance is held up by a commit."""
        return self._prepare is not None or self._revocation is not None

    def next_deadline(self) -> Instant | None:
        """When a poll goes on although no commit was answered."""
        waiting = [each for each in (self._prepare, self._revocation) if each is not None]
        times = [each.not_before if each.attempt is None else each.deadline for each in waiting]
        return min(times, default=None)

    # --- before JoinGroup ---------------------------------------------------------------------

    def on_join_prepare(self) -> bool:
        """Kafka's ``onJoinPrepare``: commit, then tell the application what it loses.

        False while the commit is on its way; afterwards a callback may be open.
        """
        context, member = self._context, self._context.member
        is_eager = context.protocol is RebalanceProtocol.EAGER
        if self._prepare is None:
            self._prepare = self._new_commit()
        if is_eager and self._auto_commits.is_enabled:
            context.subscriptions.mark_pending_revocation(context.subscriptions.assignment)
        if not self._auto_commits.commit_before_rebalance(self._prepare, context.subscriptions.assignment):
            return False
        self._prepare = None
        member.is_leader = False
        member.group_subscription = frozenset()
        owned = context.subscriptions.assignment.partitions
        if member.generation.is_unknown_to_the_group:
            kind, going = CallbackKind.LOST, owned
        elif is_eager:
            kind, going = CallbackKind.REVOKED, owned
        else:
            wanted = context.subscriptions.subscription
            kind, going = (
                CallbackKind.REVOKED,
                tuple(each for each in owned if not wanted.matches(each.topic)),
            )
        if going or (is_eager and kind is CallbackKind.REVOKED):
            context.call_back(kind, going, CallbackStep.PREPARE)
        return True

    # --- after SyncGroup ----------------------------------------------------------------------

    def on_join_complete(self, blob: bytes) -> bool:
        """Kafka's ``onJoinComplete``: take over the assignment of this generation.

        True if there is nothing to take over. False while a last commit or a callback is on its way; after
        the last callback ``called_back`` says that all is done.
        """
        context, member = self._context, self._context.member
        if not member.is_leader:
            member.assignment_snapshot = None  # only the leader watches partition counts
        assignor = self.leader.lookup_assignor(member.generation.protocol_name)
        assignment = _decode(blob)
        if any(not context.subscriptions.subscription.matches(each.topic) for each in assignment.partitions):
            member.request_rejoin("the assignment has topics that are not subscribed to any more")
            return True
        owned = frozenset(context.subscriptions.assignment)
        going = owned.difference(assignment.partitions)
        if context.protocol is not RebalanceProtocol.COOPERATIVE or not going:
            self._take_over(TakingOver(assignor, assignment, owned, []))
        elif self._commit_before_revocation(going):
            self._taking_over = TakingOver(assignor, assignment, owned, [])
            context.call_back(CallbackKind.REVOKED, going, CallbackStep.REVOKE)
        return False

    def _take_over(self, taken: TakingOver) -> None:
        assigned = taken.assignment.partitions
        self._taking_over = taken
        self._add_matched_topics(assigned)
        try:
            taken.assignor.on_assignment(taken.assignment, self._context.member.generation.generation_id)
        except Exception as error:
            taken.errors.append(error)
        self._auto_commits.restart_interval()
        self._context.subscriptions.assign_from_subscribed(assigned)
        self._context.call_back(CallbackKind.ASSIGNED, set(assigned) - taken.owned, CallbackStep.ASSIGN)

    def _commit_before_revocation(self, going: frozenset[TopicPartition]) -> bool:
        """What was read since the commit before JoinGroup would be read twice; Kafka's client lets it."""
        if self._revocation is None:
            self._revocation = self._new_commit()
        self._context.subscriptions.mark_pending_revocation(going)
        if not self._auto_commits.commit_before_rebalance(self._revocation, sorted(going)):
            return False
        self._revocation = None
        return True

    def _add_matched_topics(self, assigned: Iterable[TopicPartition]) -> None:
        """A leader with newer metadata may have seen topics that match our pattern before we did."""
        context, member = self._context, self._context.member
        subscription = context.subscriptions.subscription
        added = frozenset(each.topic for each in assigned) - member.joined_subscription
        if subscription.pattern is not None and added:
            context.subscriptions.set_matched_topics(subscription.topics | added)
            member.joined_subscription |= added

    # --- on unsubscribe and close -------------------------------------------------------------

    def on_leave_prepare(self) -> None:
        """Give everything back: lost, not revoked, if others may already have it."""
        context, member = self._context, self._context.member
        self._prepare = self._revocation = None
        owned = context.subscriptions.assignment
        if not context.subscriptions.is_group_managed or not owned:
            return
        is_lost = member.generation.is_unknown_to_the_group or member.state.is_rebalancing
        kind = CallbackKind.LOST if is_lost else CallbackKind.REVOKED
        context.call_back(kind, owned, CallbackStep.RELEASE)

    # --- callbacks ----------------------------------------------------------------------------

    def called_back(self, callback: OpenCallback, done: CallbackDone) -> bool:
        """Go on after a callback; whether an assignment is taken over completely.

        Callbacks cannot veto: what they raise is raised when the step is done, and a wakeup at once.
        """
        if done.interrupted and done.error is not None:
            raise InterruptedCallbackError(done.error)
        match callback.step:
            case CallbackStep.PREPARE | CallbackStep.RELEASE:
                if done.error is not None:
                    raise CallbackFailedError(done.error)
                return False
            case CallbackStep.REVOKE | CallbackStep.ASSIGN:
                assert self._taking_over is not None
                if done.error is not None:
                    self._taking_over.errors.append(done.error)
            case _:
                assert_never(callback.step)
        if callback.step is CallbackStep.REVOKE:
            self._context.member.request_rejoin("need to revoke partitions and re-join")
            self._take_over(self._taking_over)
            return False
        for error in self._taking_over.errors:
            raise error if isinstance(error, KohortError) else CallbackFailedError(error)
        return True

    def _new_commit(self) -> RebalanceCommit:
        context = self._context
        return RebalanceCommit(context.now, context.after(context.settings.max_poll_interval_ms))


def _decode(blob: bytes) -> Assignment:
    if len(blob) < _SHORTEST_ASSIGNMENT:
        raise IllegalMemberStateError(
            f"the assignment of this member has {len(blob)} bytes: the leader's assignor left it out",
            hint="check the assignors of the group: one of them leaves out members without partitions",
        )
    return decode_assignment(blob)
