"""What members of both protocols have in common: the search for the coordinator, commits, one turn of poll.

``classic`` and ``consumer`` add what is between the member and its group. ``Membership`` is the door.
"""

from abc import ABC, abstractmethod

from kohort.client.membership.commands import CallbackDone
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
from kohort.client.membership.discovery import Discovery
from kohort.client.membership.state import ClusterTopics, ConsumerMemberState, MemberState
from kohort.client.subscription import SubscriptionError, SubscriptionType
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.model.ids import Instant
from kohort.wire.apis import ApiKey
from kohort.wire.messages.find_coordinator import FindCoordinatorResponse
from kohort.wire.messages.offset_commit import OffsetCommitResponse
from kohort.wire.messages.offset_fetch import OffsetFetchResponse


class AbstractCoordinator(ABC):
    """The consumer's side of its group. ``poll`` and ``called_back`` never wait: they say "not yet"."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self.discovery = Discovery(context)
        self.commits = Commits(context, self.discovery)
        self.committed = CommittedOffsets(context, self.discovery)
        self.auto_commits = AutoCommits(context, self.commits)
        self._matched_version = -1  # of the metadata the pattern was matched against
        context.dispatcher = self

    @property
    @abstractmethod
    def state(self) -> MemberState | ConsumerMemberState:
        """How far the member is in its group."""

    def enforce_rebalance(self, reason: str) -> None:
        self._context.member.request_rejoin(reason)

    # --- poll ---------------------------------------------------------------------------------

    def poll(self) -> bool:
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

    def called_back(self, done: CallbackDone) -> bool:
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
    def is_calm(self, now: Instant) -> bool:
        """Whether ``poll`` at this time would find nothing to do in a group that has settled."""

    @abstractmethod
    def restart_poll_timer(self) -> None:
        """The application lives: max.poll.interval.ms begins again."""

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

    @abstractmethod
    def stop_heartbeats(self) -> None:
        """The consumer is closed."""

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
        self.committed.tick()

    def lookup_failed(self, error: KohortError) -> None:
        self.commits.lookup_failed(error)
        self.committed.lookup_failed(error)

    def commit_done(self, commit: PendingCommit) -> None:
        if commit.purpose in (CommitPurpose.SYNC, CommitPurpose.ASYNC):
            self.commits.tell(commit)
        else:
            self.auto_commits.done(commit)

    # --- time ---------------------------------------------------------------------------------

    @abstractmethod
    def tick_group(self) -> None:
        """Do what is due in the group, whether or not the application polls."""

    @abstractmethod
    def group_deadline(self) -> Instant | None:
        """When ``tick_group`` has something to do."""

    @abstractmethod
    def poll_again_at(self) -> Instant | None:
        """When another turn of poll gets further by the passing of time alone."""

    def tick(self) -> None:
        """Do what is due, whether or not the application polls."""
        self.tick_group()
        self.commits.tick()
        self.committed.tick()

    def next_deadline(self) -> Instant | None:
        """When ``tick`` has something to do."""
        times = (self.group_deadline(), self.commits.next_deadline(), self.committed.next_deadline())
        return min((time for time in times if time is not None), default=None)
