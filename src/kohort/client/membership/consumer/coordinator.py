"""ConsumerCoordinator: what one turn of poll does about a group of the consumer protocol (KIP-848).

poll → poll_heartbeat → FIND_COORDINATOR  discovery.ensure_coordinator_ready
     → ensure_active_group
          → fenced, stale or refused: lost(all), then join again
          → CONSUMER_GROUP_HEARTBEAT  heartbeats.tick, also without poll
          → reconciler.reconcile: commit, revoked, assigned; the next heartbeat acknowledges
"""

from kohort.client.membership.commands import CallbackDone
from kohort.client.membership.consumer.heartbeat import ConsumerHeartbeats
from kohort.client.membership.consumer.reconcile import Reconciler
from kohort.client.membership.consumer.state import ConsumerMemberState
from kohort.client.membership.context import CallbackStep, ConsumerContext, Pending
from kohort.client.membership.coordinator import AbstractCoordinator
from kohort.client.membership.effects import CallbackKind
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.model.ids import Instant
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse


class ConsumerCoordinator(AbstractCoordinator):
    """A member of the consumer protocol; Kafka's ``ConsumerMembershipManager``."""

    def __init__(self, context: ConsumerContext) -> None:
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

    def is_calm(self, now: Instant) -> bool:
        next_commit = self.auto_commits.next_commit()
        return (
            self._context.member.has_settled
            and self._context.subscriptions.is_group_managed
            and not self.discovery.coordinator_unknown
            and not self.heartbeats.has_failed
            and not self.heartbeats.is_urgent
            and not self.reconciler.is_revoking
            and not self.commits.async_commit_fenced
            and (next_commit is None or now < next_commit)
            and not self._has_newer_matches()
        )

    def restart_poll_timer(self) -> None:
        self.heartbeats.restart_poll()

    # --- unsubscribe and close ----------------------------------------------------------------

    def release(self) -> None:
        self.reconciler.release()

    def leave(self, reason: str) -> None:
        if self._context.subscriptions.is_group_managed:
            self.heartbeats.leave(ConsumerMemberState.UNSUBSCRIBED)

    def stop_heartbeats(self) -> None:
        self.heartbeats.close()

    # --- answers and time ---------------------------------------------------------------------

    def group_replied(self, pending: Pending, response: Message) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResponse), f"{response} answers {pending.api.name}"
        self.heartbeats.replied(pending, response)

    def group_unanswered(self, pending: Pending, error: KohortError) -> None:
        self.heartbeats.unanswered(pending, error)

    def coordinator_found(self) -> None:
        super().coordinator_found()
        self.heartbeats.tick()

    def tick_group(self) -> None:
        self.heartbeats.tick()

    def group_deadline(self) -> Instant | None:
        return self.heartbeats.next_deadline()

    def poll_again_at(self) -> Instant | None:
        """A lookup, the end of patience with a commit, the next auto-commit; and so early that a long poll
        does not let max.poll.interval.ms expire."""
        if self._context.subscriptions.is_group_managed and self.discovery.coordinator_unknown:
            return None if self.discovery.is_looking else self.discovery.not_before
        waits_for = self.reconciler.next_deadline() or self.auto_commits.next_commit()
        return min(time for time in (waits_for, self.heartbeats.next_poll()) if time is not None)
