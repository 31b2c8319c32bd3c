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
4. Change ``Subscriptions`` (subscribe) first, then say ``SubscriptionReplaced``; unsubscribe through
   ``Unsubscribe``, because leaving comes first.
"""

from abc import ABC, abstractmethod
from typing import assert_never

from kohort.assign.assignor import RebalanceProtocol
from kohort.client.errors import InterruptedCallbackError
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
    SubscriptionReplaced,
    Unsubscribe,
    Unsubscribed,
)
from kohort.client.membership.commits import AutoCommits, Commits, CommittedOffsets
from kohort.client.membership.context import (
    CallbackStep,
    CommitPurpose,
    CommittedQuestion,
    MemberContext,
    OpenCallback,
    Pending,
    PendingCommit,
)
from kohort.client.membership.discovery import Discovery, PollTimer
from kohort.client.membership.state import (
    ClassicMemberState,
    ClusterTopics,
    ConsumerMemberState,
    MemberGeneration,
)
from kohort.client.subscription import SubscriptionError, SubscriptionType
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.model.ids import Instant, TopicName
from kohort.wire.apis import ApiKey
from kohort.wire.messages.find_coordinator import FindCoordinatorResponse
from kohort.wire.messages.offset_commit import OffsetCommitResponse
from kohort.wire.messages.offset_fetch import OffsetFetchResponse


class Membership(ABC):
    """One consumer in one group. Not thread-safe: one command at a time.

    Here is what members of both protocols have in common: calls of the application, the search for the
    coordinator, commits, one turn of poll. ``ClassicMembership`` and ``ConsumerMembership`` add what is
    between a member and its group. Their methods never wait: they say "not yet".
    """

    protocol = RebalanceProtocol.COOPERATIVE
    heartbeats: PollTimer

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self.discovery = Discovery(context)
        self.commits = Commits(context, self.discovery)
        self.committed = CommittedOffsets(context, self.discovery)
        self.auto_commits = AutoCommits(context, self.commits)
        self._matched_version = -1  # of the metadata the pattern was matched against
        context.dispatcher = self
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
    @abstractmethod
    def state(self) -> ClassicMemberState | ConsumerMemberState:
        """How far the member is in its group."""

    @property
    def generation(self) -> MemberGeneration:
        """The generation, member id and assignor; what ``group_metadata`` of a consumer tells."""
        return self._context.member.generation

    @property
    def coordinator(self) -> CoordinatorNode | None:
        return self.discovery.node

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
        """Do a poll that has nothing to do, as most have; return False, and do nothing, for any other.

        The same as a ``handle(Poll())`` whose only effect is ``Polled(True)``, at a fraction of its price.
        """
        if self._call is not None or self._is_closed:
            return False
        due = self.next_deadline()
        if (due is not None and now >= due) or not (self._is_calm(now) and self.group_is_calm()):
            return False
        self._context.now = now
        self.heartbeats.restart_poll()
        return True

    def next_deadline(self) -> Instant | None:
        """When ``advance`` has something to do."""
        times: list[Instant | None] = []
        if not self._is_closed:
            parts = (self.heartbeats, self.commits, self.committed)
            times = [each.next_deadline() for each in parts]
        if self._last_commits is not None and isinstance(self._call, Close):
            times.append(self._call.deadline)
        return min((time for time in times if time is not None), default=None)

    def poll_again_at(self) -> Instant | None:
        """When a turn of poll gets further by the passing of time alone; None: never."""
        return None if self._is_closed else self.next_step()

    def _start(self, now: Instant) -> None:
        assert now >= self._context.now, "time does not run backwards"
        self._context.now = now
        if not self._is_closed:
            self.heartbeats.tick()
            self.commits.tick()
            self.committed.tick()

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
                self.discovery.connection_lost(command.refusal)
            case MetadataUpdated():
                self.metadata_updated(command.topics)
            case Commit():
                self.commits.commit(command)
            case FetchCommitted():
                self.committed.fetch(command)
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
            self.replied(pending, command.response)
        else:
            self.unanswered(pending, command.error)

    def _call_of_application(
        self,
        command: Poll | Unsubscribe | Close | AutoCommitIfDue | SubscriptionReplaced | EnforceRebalance,
    ) -> None:
        match command:
            case Poll() | Unsubscribe() | Close():
                self._begin(command)
            case AutoCommitIfDue():
                self.auto_commits.maybe_auto_commit_offsets_async()
            case SubscriptionReplaced():
                if (
                    not self._context.cluster.covers(self._context.wanted_topics)
                    or self.wanted_topics is None
                ):
                    self._context.refresh_metadata()
                self._context.wake_poll()
            case EnforceRebalance():
                self.enforce_rebalance(command.reason or "rebalance enforced by the application")
                self._context.wake_poll()
            case _:
                assert_never(command)

    # --- calls of the application -------------------------------------------------------------

    def _begin(self, call: Poll | Unsubscribe | Close) -> None:
        """Start a call. One that was left in the middle (its task was cancelled) is given up."""
        if self._context.callback is not None:
            self.let_go()
            self._forget_group()
        self._call, self._last_commits = call, None
        match call:
            case Poll():
                self._poll(None)
            case Unsubscribe():
                self._release()
            case Close():
                last = self.auto_commits.commit_on_close(call.deadline)
                under_way = self.commits.asynchronous()
                self._last_commits = under_way if last is None else (last, *under_way)

    def _poll(self, done: CallbackDone | None) -> None:
        """A turn, or the rest of one after a callback."""
        try:
            active = self.take_turn() if done is None else self._called_back_in_turn(done)
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
            self._release()

    def _release(self) -> None:
        """The last step of unsubscribe and close: give back, then leave.

        Heartbeats go on until the callback has returned, however long that takes.
        """
        self.heartbeats.stop_poll_timer()
        self.release()
        if self._context.callback is None:
            self._left(None)

    def _called_back(self, done: CallbackDone) -> None:
        if isinstance(self._call, Poll):
            self._poll(done)
            return
        error: BaseException | None = None
        try:
            self.end_callback(done)
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
                self.leave("the consumer unsubscribed from all topics")
                self._context.subscriptions.unsubscribe()
            case Close():
                if self._context.settings.internal_leave_group_on_close:
                    self.leave("the consumer is being closed")
                self.commits.abandon_all()
            case Poll() | None:
                return

    def _end(self, effect: Polled | Raised | Unsubscribed | Closed) -> None:
        self._call = None
        self._context.emit(effect)

    def enforce_rebalance(self, reason: str) -> None:
        self._context.member.request_rejoin(reason)

    # --- a turn of poll ---------------------------------------------------------------------------

    def take_turn(self) -> bool:
        """One turn. Whether the group is active, so that positions may be looked up.

        False while an answer, a commit or a callback is awaited. Raises what the application has to hear;
        the next turn tries again.
        """
        subscriptions = self._context.subscriptions
        if subscriptions.subscription.type is SubscriptionType.NONE:
            raise SubscriptionError(
                "the consumer has nothing to poll", hint="call subscribe() or assign() first"
            )
        self.maybe_update_subscription_metadata()
        if self.commits.async_commit_fenced:  # ends everything from here on
            raise self.commits.fenced()
        return self._end_turn(not subscriptions.is_group_managed or self.poll_group())

    def _called_back_in_turn(self, done: CallbackDone) -> bool:
        """The rest of a turn of poll, after a callback."""
        self.end_callback(done)
        return self._end_turn(self._context.callback is None and self.ensure_active_group())

    def _end_turn(self, is_active: bool) -> bool:
        if is_active:
            self.auto_commits.maybe_auto_commit_offsets_async()
        return is_active

    @abstractmethod
    def poll_group(self) -> bool:
        """The part of ``poll`` that is about the group."""

    @abstractmethod
    def ensure_active_group(self) -> bool:
        """As far as the group gets now: whether the member has its assignment."""

    @abstractmethod
    def end_callback(self, done: CallbackDone) -> None:
        """A callback has ended: do what follows. Raises what it raised."""

    @abstractmethod
    def group_is_calm(self) -> bool:
        """Whether the protocol of the group leaves nothing to do for ``poll``, if the member has settled."""

    def _is_calm(self, now: Instant) -> bool:
        """The same for what both protocols have: coordinator, commits, subscription."""
        context, next_commit = self._context, self.auto_commits.next_commit()
        return (
            context.member.has_settled
            and context.subscriptions.is_group_managed
            and not self.discovery.coordinator_unknown
            and not self.heartbeats.has_failed
            and not self.commits.async_commit_fenced
            and (next_commit is None or now < next_commit)
            and not self._has_newer_matches()
        )

    def maybe_update_subscription_metadata(self) -> None:
        """Look at newer metadata: which topics match the pattern now."""
        if self._has_newer_matches():
            self._update_pattern_subscription()

    def _has_newer_matches(self) -> bool:
        context = self._context
        subscription = context.subscriptions.subscription
        return (
            subscription.pattern is not None
            and context.cluster.asked is None
            and not (self._matched_version == context.cluster.version and subscription.topics)
        )

    def _update_pattern_subscription(self) -> None:
        """Once for each version: a topic the leader saw first must not be dropped by older metadata."""
        context, cluster = self._context, self._context.cluster
        subscription = context.subscriptions.subscription
        self._matched_version = cluster.version
        hidden = cluster.internal if context.settings.exclude_internal_topics else frozenset()
        matched = (each for each in cluster.topics if each not in hidden and subscription.matches(each))
        context.subscriptions.set_matched_topics(matched)

    def metadata_updated(self, topics: ClusterTopics) -> None:
        """Keep what was learnt; poll acts on it."""
        self._context.cluster = topics
        self._context.wake_poll()

    # --- unsubscribe and close ----------------------------------------------------------------

    @abstractmethod
    def release(self) -> None:
        """Give everything back: opens a callback, unless there is nothing to give back."""

    @abstractmethod
    def leave(self, reason: str) -> None:
        """Tell the coordinator, if it is known, and forget the membership."""

    def let_go(self) -> OpenCallback:
        """The callback is over, or its call was given up: what it said goodbye to is gone.

        Kafka's client keeps the partitions after a wakeup, though the callback is not repeated.
        """
        callback, self._context.callback = self._context.callback, None
        assert callback is not None
        if callback.step in (CallbackStep.PREPARE, CallbackStep.RELEASE):
            subscriptions = self._context.subscriptions
            subscriptions.assign_from_subscribed(set(subscriptions.assignment) - callback.partitions)
        return callback

    # --- what comes back, and who hears of it --------------------------------------------------

    def replied(self, pending: Pending, response: Message) -> None:
        """The answer to a request goes to the part that sent it."""
        match response, pending.about:
            case FindCoordinatorResponse(), None:
                self.discovery.replied(response)
            case OffsetCommitResponse(), PendingCommit() as commit:
                self.commits.replied(commit, pending.generation, response)
            case OffsetFetchResponse(), CommittedQuestion() as question:
                self.committed.replied(question, response)
            case _:
                self.group_replied(pending, response)

    def unanswered(self, pending: Pending, error: KohortError) -> None:
        """The same for a request that gets no answer."""
        match pending.about:
            case PendingCommit() as commit:
                self.commits.unanswered(commit, error)
            case CommittedQuestion() as question:
                self.committed.unanswered(question, error)
            case None if pending.api is ApiKey.FIND_COORDINATOR:
                self.discovery.unanswered(error)
            case _:
                self.group_unanswered(pending, error)

    @abstractmethod
    def group_replied(self, pending: Pending, response: Message) -> None:
        """The answer to a request of the group protocol."""

    @abstractmethod
    def group_unanswered(self, pending: Pending, error: KohortError) -> None:
        """The same for one that gets no answer."""

    def coordinator_found(self) -> None:
        self.commits.send_waiting()
        self.committed.send_waiting()

    def lookup_failed(self, error: KohortError) -> None:
        self.commits.lookup_failed(error)
        self.committed.lookup_failed(error)

    def commit_done(self, commit: PendingCommit) -> None:
        if commit.purpose in (CommitPurpose.SYNC, CommitPurpose.ASYNC):
            self.commits.tell(commit)
        else:
            self.auto_commits.done(commit)

    def beat_now(self) -> None:
        self.heartbeats.beat_now()

    # --- time ---------------------------------------------------------------------------------

    @abstractmethod
    def next_step(self) -> Instant | None:
        """When another turn of poll gets further by the passing of time alone."""
