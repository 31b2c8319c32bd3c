"""The door of a group member: ``Membership``. It does no I/O, reads no clock and rolls no dice of its own.

How a shell drives it:

1. ``effects = membership.handle(command, now)``, one command at a time, and ``membership.advance(now)``
   whenever ``membership.next_deadline()`` has come, whether or not the application polls: heartbeats, the
   expiry of max.poll.interval.ms, retries of commits and lookups happen there.
2. Carry out the effects in order (``kohort.client.membership.commands`` says how). A ``Send`` is answered
   later by ``ReplyReceived`` or ``RequestFailed``; a ``RunCallback`` by ``CallbackDone``.
3. In the application's ``poll``: ``handle(Poll())`` and carry out effects, of every ``CallbackDone`` too,
   until ``Polled`` or ``Raised`` comes. Then wait for records until ``WakePoll`` comes, ``poll_again_at`` is
   reached or the caller's time is up, and take the next turn. Callbacks come out of turns of poll,
   ``Unsubscribe`` and ``Close`` only, and nothing else waits for them: heartbeats go on.
4. Change ``Subscriptions`` (subscribe) first, then say ``SubscriptionChanged``; unsubscribe through
   ``Unsubscribe``, because leaving comes first.
"""

from collections.abc import Sequence
from typing import assert_never

from kohort.assign.assignor import Assignor, RebalanceProtocol
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.errors import InterruptedCallbackError
from kohort.client.membership.classic.coordinator import ClassicCoordinator
from kohort.client.membership.commands import (
    AutoCommitIfDue,
    CallbackDone,
    Close,
    Closed,
    Command,
    Commit,
    ConnectionLost,
    CoordinatorNode,
    Effect,
    EnforceRebalance,
    FetchCommitted,
    MetadataUpdated,
    Poll,
    Polled,
    Raised,
    ReplyReceived,
    RequestFailed,
    SubscriptionChanged,
    Unsubscribe,
    Unsubscribed,
)
from kohort.client.membership.consumer.coordinator import ConsumerCoordinator
from kohort.client.membership.context import ClassicContext, ConsumerContext, MemberContext, PendingCommit
from kohort.client.membership.coordinator import AbstractCoordinator
from kohort.client.membership.state import ConsumerMemberState, MemberGeneration, MemberState
from kohort.client.settings import Dice
from kohort.client.subscription import Subscriptions
from kohort.model.errors import KohortError
from kohort.model.ids import Instant, MemberId, TopicName


class Membership:
    """One consumer in one group. Not thread-safe: one command at a time."""

    def __init__(
        self,
        settings: ConsumerSettings,
        joins_with: Sequence[Assignor] | MemberId,
        subscriptions: Subscriptions,
        *,
        dice: Dice,
        now: Instant,
    ) -> None:
        """``joins_with``: in the classic protocol assignors in order of preference, instances of this
        consumer's own; in the consumer protocol a member id that no other member has. Raises
        AssignorChoiceError if assignors have no rebalance protocol in common."""
        self.protocol = RebalanceProtocol.COOPERATIVE
        self._context: MemberContext
        self._coordinator: AbstractCoordinator
        if isinstance(joins_with, str):
            consumer = ConsumerContext(settings, joins_with, subscriptions, dice, now)
            self._context, self._coordinator = consumer, ConsumerCoordinator(consumer)
        else:
            classic = ClassicContext(settings, joins_with, subscriptions, dice, now)
            self._context, self._coordinator = classic, ClassicCoordinator(classic)
            self.protocol = classic.protocol
        self._call: Poll | Unsubscribe | Close | None = None  # of the application, until it is answered
        self._last_commits: tuple[PendingCommit, ...] | None = None  # that a ``Close`` waits for
        self._is_closed = False

    def __repr__(self) -> str:
        node = self.coordinator
        known = "no coordinator" if node is None else f"coordinator {node.node_id}"
        group_id = self._context.settings.group
        return f"<Membership of {group_id!r}: {self._context.member.state_name}, {self.generation}, {known}>"

    # --- what one sees ------------------------------------------------------------------------

    @property
    def state(self) -> MemberState | ConsumerMemberState:
        return self._coordinator.state

    @property
    def generation(self) -> MemberGeneration:
        """The generation, member id and assignor; what ``group_metadata`` of a consumer tells."""
        return self._context.member.generation

    @property
    def coordinator(self) -> CoordinatorNode | None:
        return self._coordinator.discovery.node

    @property
    def is_leader(self) -> bool:
        return self._context.member.is_leader

    @property
    def rejoin_needed(self) -> bool:
        return self._context.member.rejoin_needed

    @property
    def has_settled(self) -> bool:
        """In a generation, with its assignment taken over, and no reason known to join again."""
        return self._context.member.has_settled

    @property
    def is_closed(self) -> bool:
        """Whether a ``Close`` has been carried out to its end."""
        return self._is_closed

    @property
    def rebalances_failed(self) -> int:
        """How many attempts to join came to nothing so far."""
        return self._context.member.rebalances_failed

    @property
    def wanted_topics(self) -> frozenset[TopicName] | None:
        """What every metadata request must ask for (None: all topics), besides what others need."""
        return None if self._context.needs_all_topics else self._context.wanted_topics

    # --- what one does ------------------------------------------------------------------------

    def handle(self, command: Command, now: Instant) -> list[Effect]:
        """Take one command; what is due by ``now`` is done first."""
        self._start(now)
        self._dispatch(command)
        return self._finish()

    def advance(self, now: Instant) -> list[Effect]:
        """Do what is due."""
        self._start(now)
        return self._finish()

    def poll_calmly(self, now: Instant) -> bool:
        """Take a turn of poll in which nothing is to be done, as most are; False, and nothing, if it is none.

        The same as a ``handle(Poll())`` whose only effect is ``Polled(True)``, at a fraction of its price.
        """
        if self._call is not None or self._is_closed:
            return False
        due = self._coordinator.next_deadline()
        if (due is not None and now >= due) or not self._coordinator.is_calm(now):
            return False
        self._context.now = now
        self._coordinator.restart_poll_timer()
        return True

    def next_deadline(self) -> Instant | None:
        """When ``advance`` has something to do."""
        times = [] if self._is_closed else [self._coordinator.next_deadline()]
        if self._last_commits is not None and isinstance(self._call, Close):
            times.append(self._call.deadline)
        return min((time for time in times if time is not None), default=None)

    def poll_again_at(self) -> Instant | None:
        """When a turn of poll gets further by the passing of time alone; None: never."""
        return None if self._is_closed else self._coordinator.poll_again_at()

    def _start(self, now: Instant) -> None:
        assert now >= self._context.now, "time does not run backwards"
        self._context.now = now
        if not self._is_closed:
            self._coordinator.tick()

    def _finish(self) -> list[Effect]:
        if self._last_commits is not None:
            self._close_when_committed(self._last_commits)
        effects, self._context.effects = self._context.effects, []
        return effects

    def _dispatch(self, command: Command) -> None:
        match command:
            case ReplyReceived() | RequestFailed():
                self._answer(command)
            case ConnectionLost():
                self._coordinator.discovery.connection_lost()
            case MetadataUpdated():
                self._coordinator.metadata_updated(command.topics)
            case Commit():
                self._coordinator.commits.commit(command)
            case FetchCommitted():
                self._coordinator.committed.fetch(command)
            case CallbackDone():
                callback = self._context.callback
                if callback is not None and callback.callback_id == command.callback_id:
                    self._called_back(command)
            case _:
                self._call_of_application(command)

    def _answer(self, command: ReplyReceived | RequestFailed) -> None:
        pending = self._context.requests.pop(command.request_id, None)
        if pending is None:
            return  # given up with the coordinator it was sent to
        if isinstance(command, ReplyReceived):
            self._coordinator.replied(pending, command.response)
        else:
            self._coordinator.unanswered(pending, command.error)

    def _call_of_application(
        self,
        command: Poll | Unsubscribe | Close | AutoCommitIfDue | SubscriptionChanged | EnforceRebalance,
    ) -> None:
        match command:
            case Poll() | Unsubscribe() | Close():
                self._begin(command)
            case AutoCommitIfDue():
                self._coordinator.auto_commits.maybe_auto_commit_offsets_async()
            case SubscriptionChanged():
                if (
                    not self._context.cluster.covers(self._context.wanted_topics)
                    or self.wanted_topics is None
                ):
                    self._context.refresh_metadata()
                self._context.wake_poll()
            case EnforceRebalance():
                self._coordinator.enforce_rebalance(command.reason or "rebalance enforced by the application")
                self._context.wake_poll()
            case _:
                assert_never(command)

    # --- calls of the application -------------------------------------------------------------

    def _begin(self, call: Poll | Unsubscribe | Close) -> None:
        """Start a call. One that was left in the middle (its task was cancelled) is given up."""
        if self._context.callback is not None:
            self._coordinator.let_go()
            self._forget_group()
        self._call, self._last_commits = call, None
        match call:
            case Poll():
                self._poll(None)
            case Unsubscribe():
                self._release()
            case Close():
                last = self._coordinator.auto_commits.commit_on_close(call.deadline)
                under_way = self._coordinator.commits.asynchronous()
                self._last_commits = under_way if last is None else (last, *under_way)

    def _poll(self, done: CallbackDone | None) -> None:
        """A turn, or the rest of one after a callback."""
        try:
            active = self._coordinator.poll() if done is None else self._coordinator.called_back(done)
        except KohortError as error:
            self._end(Raised(error))
        except InterruptedCallbackError as interrupted:
            self._end(Raised(interrupted.error))
        else:
            if self._context.callback is None:
                self._end(Polled(active))

    def _close_when_committed(self, last: tuple[PendingCommit, ...]) -> None:
        assert isinstance(self._call, Close)
        if all(each.is_done for each in last) or self._context.now >= self._call.deadline:
            self._last_commits = None
            self._coordinator.stop_heartbeats()
            self._release()

    def _release(self) -> None:
        """The last step of unsubscribe and close: give back, then leave."""
        self._coordinator.release()
        if self._context.callback is None:
            self._left(None)

    def _called_back(self, done: CallbackDone) -> None:
        if isinstance(self._call, Poll):
            self._poll(done)
            return
        error: BaseException | None = None
        try:
            self._coordinator.end_callback(done)
        except KohortError as failed:
            error = failed
        except InterruptedCallbackError as interrupted:
            error = interrupted.error
        self._left(error)

    def _left(self, error: BaseException | None) -> None:
        is_close = isinstance(self._call, Close)
        self._forget_group()
        self._is_closed = is_close
        self._end(Closed(error) if is_close else Unsubscribed(error))

    def _forget_group(self) -> None:
        """Leave, if the call is one that does."""
        match self._call:
            case Unsubscribe():
                self._coordinator.leave("the consumer unsubscribed from all topics")
                self._context.subscriptions.unsubscribe()
            case Close():
                if self._context.settings.internal_leave_group_on_close:
                    self._coordinator.leave("the consumer is being closed")
                self._coordinator.commits.abandon_all()
            case Poll() | None:
                return

    def _end(self, effect: Polled | Raised | Unsubscribed | Closed) -> None:
        self._call = None
        self._context.emit(effect)
