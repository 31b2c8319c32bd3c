"""ConsumerMembership: what one turn of poll does about a group of the consumer protocol (KIP-848).

poll → poll_heartbeat → FIND_COORDINATOR  discovery.ensure_coordinator_ready
     → ensure_active_group
          → fenced, stale or refused: lost(all), then join again
          → CONSUMER_GROUP_HEARTBEAT  heartbeats.tick, also without poll
          → reconciler.reconcile: commit, revoked, assigned; the next heartbeat acknowledges
"""

from typing import NamedTuple

from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.errors import CallbackFailedError, InterruptedCallbackError
from kohort.client.membership.commands import CallbackDone, CallbackKind
from kohort.client.membership.commits import AutoCommits, RebalanceCommit
from kohort.client.membership.consumer.heartbeat import ConsumerHeartbeats
from kohort.client.membership.context import CallbackStep, ConsumerContext, OpenCallback, Pending
from kohort.client.membership.machine import Membership
from kohort.client.membership.state import ConsumerMemberState, PartitionsById
from kohort.client.settings import Dice
from kohort.client.subscription import Subscriptions
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.model.ids import Instant, MemberId, Partition
from kohort.model.topics import TopicPartition
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse


class Reconciliation(NamedTuple):
    """A target between its callbacks, as far as its topics have names."""

    target: PartitionsById
    partitions: frozenset[TopicPartition]
    by_id: PartitionsById
    owned: frozenset[TopicPartition]


class Reconciler:
    """Kafka's ``maybeReconcile`` and what it calls."""

    def __init__(self, context: ConsumerContext, auto_commits: AutoCommits) -> None:
        self._context = context
        self._auto_commits = auto_commits
        self._commit: RebalanceCommit | None = None
        self._current: Reconciliation | None = None
        self._going: frozenset[TopicPartition] = frozenset()  # nothing of these is handed out any more
        self._given_up: PartitionsById | None = None  # a target whose callback raised
        self._asked_at = -1  # the version of the metadata that lacked a topic

    @property
    def is_revoking(self) -> bool:
        return bool(self._going)

    def next_deadline(self) -> Instant | None:
        """When a poll goes on although no commit was answered."""
        commit = self._commit
        if commit is None:
            return None
        return commit.not_before if commit.attempt is None else commit.deadline

    def reconcile(self) -> None:
        """Take the next step towards the target; a callback may be open afterwards."""
        context, member = self._context, self._context.member
        assert member.target is not None
        if member.target is self._given_up:
            return
        by_id = self._resolved(member.target)
        if by_id == member.owned:
            if member.acknowledges is not member.target:
                self.reset()
                member.reconciled_for(member.target, by_id)
            return  # the rest, if there is one, has no names yet
        names = context.cluster.ids
        partitions = frozenset(
            TopicPartition(names[topic_id], Partition(number))
            for topic_id, numbers in by_id.items()
            for number in numbers
        )
        owned = frozenset(context.subscriptions.assignment)
        going = owned - partitions
        self._mark(going)
        if not self._has_committed(owned):
            return
        self._commit = None
        self._current = Reconciliation(member.target, partitions, by_id, owned)
        if going:
            context.call_back(CallbackKind.REVOKED, going, CallbackStep.REVOKE)
        else:
            self._take_over(self._current)

    def _resolved(self, target: PartitionsById) -> PartitionsById:
        context, known = self._context, self._context.cluster.ids
        found = {topic_id: numbers for topic_id, numbers in target.items() if topic_id in known}
        context.has_unknown_ids = len(found) < len(target) and _is_remote(context)
        if len(found) < len(target) and self._asked_at != context.cluster.version:
            self._asked_at = context.cluster.version
            context.refresh_metadata()
        return found

    def _has_committed(self, owned: frozenset[TopicPartition]) -> bool:
        if self._commit is None:
            limit = self._context.settings.max_poll_interval_ms
            self._commit = RebalanceCommit(self._context.now, self._context.after(limit))
        return self._auto_commits.commit_before_rebalance(self._commit, sorted(owned))

    def _take_over(self, current: Reconciliation) -> None:
        subscriptions = self._context.subscriptions
        if _is_remote(self._context):
            subscriptions.set_matched_topics(each.topic for each in current.partitions)
        self._mark(frozenset())
        self._auto_commits.restart_interval()
        subscriptions.assign_from_subscribed(current.partitions)
        added = current.partitions - current.owned
        subscriptions.await_callback(added)
        self._context.call_back(CallbackKind.ASSIGNED, added, CallbackStep.ASSIGN)

    def release(self) -> None:
        """Say goodbye to everything on unsubscribe and close."""
        context = self._context
        self.reset()
        if context.subscriptions.is_group_managed and context.subscriptions.assignment:
            is_lost = not context.member.state.is_in_group
            kind = CallbackKind.LOST if is_lost else CallbackKind.REVOKED
            context.call_back(kind, context.subscriptions.assignment, CallbackStep.RELEASE)

    def reset(self) -> None:
        """What was under way is over: with the membership, or because the target is what is owned again."""
        self._commit = self._current = self._given_up = None
        self._mark(frozenset())
        self._context.subscriptions.await_callback(())
        self._context.has_unknown_ids = False

    def _mark(self, going: frozenset[TopicPartition]) -> None:
        self._going = going
        self._context.subscriptions.mark_pending_revocation(going)

    def called_back(self, callback: OpenCallback, done: CallbackDone) -> None:
        """Go on after a callback. Raises what it raised; then a target waits for the next one.

        As by Kafka's client: the coordinator removes a member that does not acknowledge in time.
        """
        if done.interrupted and done.error is not None:
            raise InterruptedCallbackError(done.error)
        current, self._current = self._current, None
        is_current = current is not None and self._context.member.state is ConsumerMemberState.RECONCILING
        if done.error is not None:
            self._given_up = current.target if current is not None else None
            raise CallbackFailedError(done.error)
        if callback.step is CallbackStep.REVOKE:
            subscriptions = self._context.subscriptions
            subscriptions.assign_from_subscribed(set(subscriptions.assignment) - callback.partitions)
            self._going = frozenset()
            if current is not None and is_current:
                self._current = current
                self._take_over(current)
        elif callback.step is CallbackStep.ASSIGN:
            self._context.subscriptions.await_callback(())
            if current is not None and is_current:
                self._context.member.reconciled_for(current.target, current.by_id)


def _is_remote(context: ConsumerContext) -> bool:
    return context.subscriptions.subscription.remote_pattern is not None


class ConsumerMembership(Membership):
    """A member of the consumer protocol; Kafka's ``ConsumerMembershipManager``."""

    heartbeats: ConsumerHeartbeats

    def __init__(
        self,
        settings: ConsumerSettings,
        member_id: MemberId,
        subscriptions: Subscriptions,
        *,
        dice: Dice,
        now: Instant,
    ) -> None:
        """``member_id``: one that no other member has."""
        context = ConsumerContext(settings, member_id, subscriptions, dice, now)
        super().__init__(context)
        self._context: ConsumerContext = context
        self.heartbeats = ConsumerHeartbeats(context, self.discovery, self.commits)
        self.reconciler = Reconciler(context, self.auto_commits)

    @property
    def state(self) -> ConsumerMemberState:
        return self._context.member.state

    def enforce_rebalance(self, reason: str) -> None:
        self._context.note("enforce_rebalance does nothing: the coordinator decides", is_warning=True)

    # --- poll ---------------------------------------------------------------------------------

    def poll_group(self) -> bool:
        self.heartbeats.poll_heartbeat()
        return self.ensure_active_group()

    def ensure_active_group(self) -> bool:
        context, member = self._context, self._context.member
        if not member.state.sends_heartbeats:
            if context.subscriptions.assignment:
                context.call_back(CallbackKind.LOST, context.subscriptions.assignment, CallbackStep.PREPARE)
                return False
            self.reconciler.reset()
            self.heartbeats.join()
        if not self.discovery.ensure_coordinator_ready():
            return False
        self.heartbeats.tick()
        if member.state is ConsumerMemberState.RECONCILING:
            self.reconciler.reconcile()
            self.heartbeats.tick()
        elif self.reconciler.is_revoking:
            self.reconciler.reset()
        return context.callback is None and member.state.is_in_group

    def end_callback(self, done: CallbackDone) -> None:
        callback = self.let_go()
        try:
            self.reconciler.called_back(callback, done)
        finally:
            self.heartbeats.tick()

    def group_is_calm(self) -> bool:
        return not self.heartbeats.is_urgent and not self.reconciler.is_revoking

    # --- unsubscribe and close ----------------------------------------------------------------

    def release(self) -> None:
        self.reconciler.release()

    def leave(self, reason: str) -> None:
        if self._context.subscriptions.is_group_managed:
            self.heartbeats.leave(ConsumerMemberState.UNSUBSCRIBED)

    # --- answers and time ---------------------------------------------------------------------

    def group_replied(self, pending: Pending, response: Message) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResponse), f"{response} answers {pending.api.name}"
        self.heartbeats.replied(pending, response)

    def group_unanswered(self, pending: Pending, error: KohortError) -> None:
        self.heartbeats.unanswered(pending, error)

    def coordinator_found(self) -> None:
        super().coordinator_found()
        if not self.is_closed:
            self.heartbeats.tick()

    def next_step(self) -> Instant | None:
        """A lookup, the end of patience with a commit, the next auto-commit; and so early that a long poll
        does not let max.poll.interval.ms expire."""
        if self._context.subscriptions.is_group_managed and self.discovery.coordinator_unknown:
            return None if self.discovery.is_looking else self.discovery.not_before
        waits_for = self.reconciler.next_deadline() or self.auto_commits.next_commit()
        return min(time for time in (waits_for, self.heartbeats.next_poll()) if time is not None)
