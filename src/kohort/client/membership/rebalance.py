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

from collections.abc import Iterable

from kohort.assign.assignor import Assignor, RebalanceProtocol
from kohort.assign.protocol import Assignment, decode_assignment
from kohort.client.membership.commits import AutoCommits, RebalanceCommit
from kohort.client.membership.context import MemberContext, Step
from kohort.client.membership.effects import CallbackKind, RunCallback
from kohort.client.membership.errors import CallbackFailedError, IllegalMemberStateError
from kohort.client.membership.leader import Leader
from kohort.model.errors import KohortError
from kohort.model.ids import Instant
from kohort.model.topics import TopicPartition

_SHORTEST_ASSIGNMENT = 2  # a version; even one without partitions has it


class InterruptedCallbackError(Exception):
    """A wakeup came out of a callback: it goes to the application as it is, at once."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class Rebalance:
    """Prepare, complete, release. All of it runs inside calls of the application."""

    def __init__(self, context: MemberContext, auto_commits: AutoCommits) -> None:
        self._context = context
        self._auto_commits = auto_commits
        self._leader = Leader(context)
        self._prepare: RebalanceCommit | None = None
        self._revocation: RebalanceCommit | None = None

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

    def on_join_prepare(self) -> Step[bool]:
        """Kafka's ``onJoinPrepare``: commit, then tell the application what it loses.

        False while the commit is on its way.
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
            yield from self._give_up(CallbackKind.LOST, owned, even_nothing=False)
        elif is_eager:
            yield from self._give_up(CallbackKind.REVOKED, owned, even_nothing=True)
        else:
            wanted = context.subscriptions.subscription
            dropped = [each for each in owned if not wanted.matches(each.topic)]
            yield from self._give_up(CallbackKind.REVOKED, dropped, even_nothing=False)
        return True

    def _give_up(
        self, kind: CallbackKind, partitions: Iterable[TopicPartition], *, even_nothing: bool
    ) -> Step[None]:
        """Call back, then let go, whatever the callback did; its error is raised after that."""
        going = set(partitions)
        if not going and not even_nothing:
            return
        try:
            error = yield from self._invoke(kind, going)
        finally:
            # Kafka's client keeps the partitions after a wakeup, though the callback is not repeated.
            assignment = self._context.subscriptions.assignment
            self._context.subscriptions.assign_from_subscribed(set(assignment) - going)
        if error is not None:
            raise _wrapped(error)

    # --- after SyncGroup ----------------------------------------------------------------------

    def on_join_complete(self, blob: bytes) -> Step[bool]:
        """Kafka's ``onJoinComplete``: take over the assignment of this generation.

        False while a last commit is on its way. Callbacks cannot veto: their first error is raised when
        everything is done.
        """
        context, member = self._context, self._context.member
        if not member.is_leader:
            member.assignment_snapshot = None  # only the leader watches partition counts
        assignor = self._leader.lookup_assignor(member.generation.protocol_name)
        assignment = _decode(blob)
        assigned = set(assignment.partitions)
        if any(not context.subscriptions.subscription.matches(each.topic) for each in assigned):
            member.request_rejoin("the assignment has topics that are not subscribed to any more")
            return True
        owned = set(context.subscriptions.assignment)
        errors: list[BaseException | None] = []
        if context.protocol is RebalanceProtocol.COOPERATIVE and owned - assigned:
            if not self._commit_before_revocation(owned - assigned):
                return False
            errors.append((yield from self._invoke(CallbackKind.REVOKED, owned - assigned)))
            member.request_rejoin("need to revoke partitions and re-join")
        self._add_matched_topics(assigned)
        errors.append(self._on_assignment(assignor, assignment))
        self._auto_commits.restart_interval()
        context.subscriptions.assign_from_subscribed(assigned)
        errors.append((yield from self._invoke(CallbackKind.ASSIGNED, assigned - owned)))
        for error in errors:
            if error is not None:
                raise error if isinstance(error, KohortError) else _wrapped(error)
        return True

    def _commit_before_revocation(self, going: set[TopicPartition]) -> bool:
        """What was read since the commit before JoinGroup would be read twice; Kafka's client lets it."""
        if self._revocation is None:
            self._revocation = self._new_commit()
        self._context.subscriptions.mark_pending_revocation(going)
        if not self._auto_commits.commit_before_rebalance(self._revocation, sorted(going)):
            return False
        self._revocation = None
        return True

    def _add_matched_topics(self, assigned: set[TopicPartition]) -> None:
        """A leader with newer metadata may have seen topics that match our pattern before we did."""
        context, member = self._context, self._context.member
        subscription = context.subscriptions.subscription
        added = frozenset(each.topic for each in assigned) - member.joined_subscription
        if subscription.pattern is not None and added:
            context.subscriptions.set_matched_topics(subscription.topics | added)
            member.joined_subscription |= added

    def _on_assignment(self, assignor: Assignor, assignment: Assignment) -> Exception | None:
        try:
            assignor.on_assignment(assignment, self._context.member.generation.generation_id)
        except Exception as error:
            return error
        return None

    # --- on unsubscribe and close -------------------------------------------------------------

    def on_leave_prepare(self) -> Step[None]:
        """Give everything back: lost, not revoked, if others may already have it."""
        context, member = self._context, self._context.member
        self._prepare = self._revocation = None
        if not context.subscriptions.is_group_managed:
            return
        is_lost = member.generation.is_unknown_to_the_group or member.state.is_rebalancing
        kind = CallbackKind.LOST if is_lost else CallbackKind.REVOKED
        yield from self._give_up(kind, context.subscriptions.assignment, even_nothing=False)

    def _invoke(self, kind: CallbackKind, partitions: Iterable[TopicPartition]) -> Step[BaseException | None]:
        """Run a callback; what it raised, unless that was a wakeup."""
        callback = RunCallback(self._context.next_callback_id(), kind, tuple(sorted(partitions)))
        done = yield callback
        assert done is not None, "a callback is answered by CallbackDone"
        if done.interrupted and done.error is not None:
            raise InterruptedCallbackError(done.error)
        return done.error

    def _new_commit(self) -> RebalanceCommit:
        context = self._context
        return RebalanceCommit(context.now, context.after(context.settings.max_poll_interval_ms))


def _decode(blob: bytes) -> Assignment:
    if len(blob) < _SHORTEST_ASSIGNMENT:
        raise IllegalMemberStateError(
            f"the assignment of this member has {len(blob)} bytes: the leader's assignor left it out",
            hint="does an assignor of the group forget members that get nothing?",
        )
    return decode_assignment(blob)


def _wrapped(error: BaseException) -> CallbackFailedError:
    failed = CallbackFailedError(f"a rebalance callback raised {error!r}")
    failed.__cause__ = error
    return failed
