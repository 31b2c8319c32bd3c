"""The door of a group member: ``Membership``. It does no I/O, reads no clock and rolls no dice of its own.

How a shell drives it:

1. ``effects = membership.handle(command, now)``, one command at a time, and ``membership.advance(now)``
   whenever ``membership.next_deadline()`` has come, whether or not the application polls: heartbeats, the
   expiry of max.poll.interval.ms, retries of commits and lookups happen there.
2. Carry out the effects in order (``kohort.client.membership.effects`` says how). A ``Send`` is answered
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
from kohort.client.membership.commands import (
    AutoCommitIfDue,
    CallbackDone,
    CallbackId,
    Close,
    Command,
    Commit,
    ConnectionLost,
    EnforceRebalance,
    FetchCommitted,
    MetadataUpdated,
    Poll,
    ReplyReceived,
    RequestFailed,
    SubscriptionChanged,
    Unsubscribe,
)
from kohort.client.membership.context import MemberContext, Step, Until
from kohort.client.membership.coordinator import ConsumerCoordinator
from kohort.client.membership.effects import (
    Closed,
    CoordinatorNode,
    Effect,
    Polled,
    Raised,
    RunCallback,
    Unsubscribed,
)
from kohort.client.membership.rebalance import InterruptedCallbackError
from kohort.client.membership.settings import MemberSettings
from kohort.client.membership.state import MemberGeneration, MemberState
from kohort.client.settings import Dice
from kohort.client.subscription import Subscriptions
from kohort.model.errors import KohortError
from kohort.model.ids import Instant, TopicName


class Membership:
    """One consumer in one group. Not thread-safe: one command at a time."""

    def __init__(
        self,
        settings: MemberSettings,
        assignors: Sequence[Assignor],
        subscriptions: Subscriptions,
        *,
        dice: Dice,
        now: Instant,
    ) -> None:
        """``assignors`` in order of preference, instances of this consumer's own. Raises
        AssignorChoiceError if they have no rebalance protocol in common."""
        self._context = MemberContext(settings, assignors, subscriptions, dice, now)
        self._coordinator = ConsumerCoordinator(self._context)
        self._call: Step[None] | None = None  # of the application: poll, unsubscribe or close
        self._waits_for: CallbackId | Until | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        node = self.coordinator
        known = "no coordinator" if node is None else f"coordinator {node.node_id}"
        group_id = self._context.settings.group
        return f"<Membership of {group_id!r}: {self.state.name}, {self.generation}, {known}>"

    # --- what one sees ------------------------------------------------------------------------

    @property
    def state(self) -> MemberState:
        return self._context.member.state

    @property
    def generation(self) -> MemberGeneration:
        """The generation, member id and assignor; what ``group_metadata`` of a consumer tells."""
        return self._context.member.generation

    @property
    def protocol(self) -> RebalanceProtocol:
        """EAGER or COOPERATIVE: by the own assignors, not by the one the group selected."""
        return self._context.protocol

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
        is_pattern = self._context.subscriptions.subscription.pattern is not None
        return None if is_pattern else self._context.wanted_topics

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
        self._coordinator.heartbeats.restart_poll()
        return True

    def next_deadline(self) -> Instant | None:
        """When ``advance`` has something to do."""
        times = [] if self._is_closed else [self._coordinator.next_deadline()]
        if isinstance(self._waits_for, Until):
            times.append(self._waits_for.deadline)
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
        wait = self._waits_for
        if isinstance(wait, Until) and (wait.is_over or self._context.now >= wait.deadline):
            self._resume(None)
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
                if self._waits_for == command.callback_id:
                    self._resume(command)
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
            case Poll():
                self._begin(self._poll())
            case Unsubscribe():
                self._begin(self._unsubscribe())
            case Close():
                self._begin(self._close(command.deadline))
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
                reason = command.reason or "rebalance enforced by the application"
                self._context.member.request_rejoin(reason)
                self._context.wake_poll()
            case _:
                assert_never(command)

    # --- calls of the application -------------------------------------------------------------

    def _begin(self, call: Step[None]) -> None:
        """Start a call. One that was left in the middle (its task was cancelled) is abandoned."""
        if self._call is not None:
            self._waits_for = None
            self._call.close()
        self._call = call
        self._resume(None)

    def _resume(self, done: CallbackDone | None) -> None:
        assert self._call is not None
        self._waits_for = None
        try:
            wait = self._call.send(done)
        except StopIteration:
            self._call = None
            return
        if isinstance(wait, RunCallback):
            self._waits_for = wait.callback_id
            self._context.emit(wait)
        else:
            self._waits_for = wait

    def _poll(self) -> Step[None]:
        try:
            active = yield from self._coordinator.poll()
        except KohortError as error:
            self._context.emit(Raised(error))
        except InterruptedCallbackError as interrupted:
            self._context.emit(Raised(interrupted.error))
        else:
            self._context.emit(Polled(active))

    def _unsubscribe(self) -> Step[None]:
        error = yield from _error_of(self._coordinator.unsubscribe())
        self._context.emit(Unsubscribed(error))

    def _close(self, deadline: Instant) -> Step[None]:
        error = yield from _error_of(self._coordinator.close(deadline))
        self._is_closed = True
        self._context.emit(Closed(error))


def _error_of(call: Step[None]) -> Step[BaseException | None]:
    """Run a call to its end; what it raised."""
    try:
        yield from call
    except KohortError as error:
        return error
    except InterruptedCallbackError as interrupted:
        return interrupted.error
    return None
