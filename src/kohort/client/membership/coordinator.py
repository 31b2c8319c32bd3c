"""ConsumerCoordinator: what one turn of ``KafkaConsumer.poll`` does about the group.

Read it from the top, as the seed of this project walks through Kafka's client::

    poll → maybe_update_subscription_metadata, invoke_completed_offset_commit_callbacks, poll_heartbeat
         → FIND_COORDINATOR  discovery.ensure_coordinator_ready → lookup_coordinator
         → ensure_active_group
              → JOIN_GROUP   join.join_group_if_needed → rebalance.on_join_prepare → initiate_join_group
                             on_join_leader (leader.perform_assignment) or on_join_follower
              → SYNC_GROUP   sync.send_sync_group_request
              → rebalance.on_join_complete
         → auto_commit.maybe_auto_commit_offsets_async
"""

from kohort.client.membership.commits import AutoCommits, Commits
from kohort.client.membership.committed import CommittedOffsets
from kohort.client.membership.context import (
    CommitPurpose,
    CommittedQuestion,
    MemberContext,
    Pending,
    PendingCommit,
    Step,
    Until,
)
from kohort.client.membership.discovery import Discovery
from kohort.client.membership.errors import IllegalMemberStateError
from kohort.client.membership.heartbeat import Heartbeats, leave_replied, leave_unanswered, maybe_leave_group
from kohort.client.membership.join import JoinGroup, unanswered
from kohort.client.membership.rebalance import Rebalance
from kohort.client.membership.state import ClusterTopics, JoinAttempt
from kohort.client.subscription import SubscriptionError, SubscriptionType
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.model.ids import Instant, TopicName
from kohort.wire.apis import ApiKey
from kohort.wire.messages.find_coordinator import FindCoordinatorResponse
from kohort.wire.messages.heartbeat import HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupResponse
from kohort.wire.messages.offset_commit import OffsetCommitResponse
from kohort.wire.messages.offset_fetch import OffsetFetchResponse
from kohort.wire.messages.sync_group import SyncGroupResponse


class ConsumerCoordinator:
    """The consumer's side of its group: made of the parts, each of which has a file of its own."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self.discovery = Discovery(context)
        self.heartbeats = Heartbeats(context, self.discovery)
        self.commits = Commits(context, self.discovery)
        self.committed = CommittedOffsets(context, self.discovery)
        self.auto_commits = AutoCommits(context, self.commits)
        self.rebalance = Rebalance(context, self.auto_commits)
        self.join = JoinGroup(context, self.discovery, self.heartbeats, self.rebalance)
        self._matched_version = -1  # of the metadata the pattern was matched against
        self._seen: tuple[int, frozenset[TopicName]] | None = None  # behind the snapshot
        context.dispatcher = self

    def poll(self) -> Step[bool]:
        """One turn. Whether the group is active, so that positions may be looked up; never waits.

        Raises what the application has to hear; the next turn tries again.
        """
        subscriptions = self._context.subscriptions
        if subscriptions.subscription.type is SubscriptionType.NONE:
            raise SubscriptionError(
                "the consumer has nothing to poll", hint="call subscribe() or assign() first"
            )
        self.maybe_update_subscription_metadata()
        self._invoke_completed_offset_commit_callbacks()
        if subscriptions.is_group_managed:
            if not self._context.assignors:
                raise IllegalMemberStateError(
                    "a group cannot assign partitions to a consumer without assignors",
                    hint="partition.assignment.strategy is empty",
                )
            self.heartbeats.poll_heartbeat()
            if not self.discovery.ensure_coordinator_ready():
                return False
            if self.join.rejoin_needed_or_pending():
                if not self._has_fresh_topics():
                    return False
                if not (yield from self._ensure_active_group()):
                    return False
        self.auto_commits.maybe_auto_commit_offsets_async()
        return True

    def is_calm(self, now: Instant) -> bool:
        """Whether ``poll`` at this time would find nothing to do in a group that has settled."""
        context, member = self._context, self._context.member
        subscription = context.subscriptions.subscription
        next_commit = self.auto_commits.next_commit()
        return (
            member.has_settled
            and context.subscriptions.is_group_managed
            and not self.discovery.coordinator_unknown
            and not self.heartbeats.has_failed
            and not self.commits.async_commit_fenced
            and (next_commit is None or now < next_commit)
            and (subscription.pattern is None or self._matched_version == context.cluster.version)
            and not self._has_news()
            and not self.join.reason_to_rejoin()
        )

    def _ensure_active_group(self) -> Step[bool]:
        """Kafka's ``ensureActiveGroup``; heartbeats begin by themselves, with the answer to JoinGroup."""
        if not self.discovery.ensure_coordinator_ready():
            return False
        return (yield from self.join.join_group_if_needed())

    def maybe_update_subscription_metadata(self) -> None:
        """Look at newer metadata: which topics match the pattern now, and what a leader would assign by."""
        context, cluster = self._context, self._context.cluster
        if context.subscriptions.subscription.pattern is not None and cluster.asked is None:
            self._update_pattern_subscription()
        if context.subscriptions.is_group_managed and self._has_news():
            self._seen = (cluster.version, context.wanted_topics)
            with_racks = bool(context.settings.client_rack)
            context.member.metadata_snapshot = cluster.snapshot(context.wanted_topics, with_racks=with_racks)

    def _has_news(self) -> bool:
        """Whether the metadata of the group's topics is another than the snapshot was made of."""
        cluster, wanted = self._context.cluster, self._context.wanted_topics
        return self._seen != (cluster.version, wanted) and cluster.covers(wanted)

    def _update_pattern_subscription(self) -> None:
        """Once for each version: a topic the leader saw first must not be dropped by older metadata."""
        context, cluster = self._context, self._context.cluster
        subscription = context.subscriptions.subscription
        if self._matched_version == cluster.version and subscription.topics:
            return
        self._matched_version = cluster.version
        hidden = cluster.internal if context.settings.exclude_internal_topics else frozenset()
        matched = (each for each in cluster.topics if each not in hidden and subscription.matches(each))
        context.subscriptions.set_matched_topics(matched)

    def _invoke_completed_offset_commit_callbacks(self) -> None:
        """The callbacks themselves run in the shell; a fenced commit ends everything from here on."""
        if self.commits.async_commit_fenced:
            raise self.commits.fenced()

    def _has_fresh_topics(self) -> bool:
        """A pattern joins with what matches now: ask once for each join, and wait for the answer."""
        member = self._context.member
        is_pattern = self._context.subscriptions.subscription.pattern is not None
        if not is_pattern or member.has_fresh_topics or member.attempt is not None:
            return True
        member.awaits_topics = True
        self._context.refresh_metadata()
        return False

    def metadata_updated(self, topics: ClusterTopics) -> None:
        """Keep what was learnt; poll acts on it, and so does a leader that waits for it."""
        member = self._context.member
        self._context.cluster = topics
        if member.awaits_topics and topics.asked is None:
            member.awaits_topics, member.has_fresh_topics = False, True
        self.join.resume_leader()
        self._context.wake_poll()

    # --- the other calls of an application ----------------------------------------------------

    def unsubscribe(self) -> Step[None]:
        """Give back and leave. What a callback raised is raised when that is done."""
        try:
            yield from self.rebalance.on_leave_prepare()
        finally:
            self._leave("the consumer unsubscribed from all topics")
            self._context.subscriptions.unsubscribe()

    def close(self, deadline: Instant) -> Step[None]:
        """Commit, give back and leave; raises as ``unsubscribe`` does."""
        last = self.auto_commits.commit_on_close(deadline)
        if last is not None:
            yield Until((last,), deadline)
        if under_way := self.commits.asynchronous():
            yield Until(under_way, deadline)
        self.heartbeats.close()
        try:
            yield from self.rebalance.on_leave_prepare()
        finally:
            if self._context.settings.internal_leave_group_on_close:
                self._leave("the consumer is being closed")
            self.commits.abandon_all()

    def _leave(self, reason: str) -> None:
        if self._context.subscriptions.is_group_managed:
            maybe_leave_group(self._context, self.discovery, reason)
            self.join.abandon()

    # --- what comes back, and who hears of it --------------------------------------------------

    def replied(self, pending: Pending, response: Message) -> None:
        """The answer to a request goes to the part that sent it."""
        match response, pending.about:
            case FindCoordinatorResponse(), None:
                self.discovery.replied(response)
            case JoinGroupResponse(), JoinAttempt() as attempt:
                self.join.replied(attempt, pending.generation, response)
            case SyncGroupResponse(), JoinAttempt() as attempt:
                self.join.sync.replied(attempt, pending.generation, response)
            case HeartbeatResponse(), None:
                self.heartbeats.replied(pending.generation, response)
            case LeaveGroupResponse(), None:
                leave_replied(self._context, response)
            case OffsetCommitResponse(), PendingCommit() as commit:
                self.commits.replied(commit, pending.generation, response)
            case OffsetFetchResponse(), CommittedQuestion() as question:
                self.committed.replied(question, response)
            case _:
                raise AssertionError(f"{type(response).__name__} does not answer {pending.api.name}")

    def unanswered(self, pending: Pending, error: KohortError) -> None:
        """The same for a request that gets no answer."""
        match pending.about:
            case JoinAttempt() as attempt:
                unanswered(self._context, self.discovery, attempt, (pending.api, error))
            case PendingCommit() as commit:
                self.commits.unanswered(commit, error)
            case CommittedQuestion() as question:
                self.committed.unanswered(question, error)
            case None if pending.api is ApiKey.FIND_COORDINATOR:
                self.discovery.unanswered(error)
            case None if pending.api is ApiKey.HEARTBEAT:
                self.heartbeats.unanswered(pending.generation, error)
            case None:
                leave_unanswered(self._context, error)

    def coordinator_found(self) -> None:
        self.heartbeats.restart_session()
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

    def tick(self) -> None:
        """Do what is due, whether or not the application polls."""
        self.heartbeats.tick()
        self.commits.tick()
        self.committed.tick()

    def next_deadline(self) -> Instant | None:
        """When ``tick`` has something to do."""
        times = (
            self.heartbeats.next_deadline(),
            self.commits.next_deadline(),
            self.committed.next_deadline(),
        )
        return min((time for time in times if time is not None), default=None)

    def poll_again_at(self) -> Instant | None:
        """When another turn of poll gets further by the passing of time alone."""
        times = (self._next_step(), self.heartbeats.next_heartbeat())
        return min((time for time in times if time is not None), default=None)

    def _next_step(self) -> Instant | None:
        """What poll waits for: a backoff, the end of patience with a commit, the next auto-commit.

        None where an answer is awaited: that wakes poll by itself.
        """
        member, discovery = self._context.member, self.discovery
        if not self._context.subscriptions.is_group_managed:
            return self.auto_commits.next_commit()
        if discovery.coordinator_unknown:
            return None if discovery.is_looking else discovery.not_before
        if self.rebalance.is_waiting:
            return self.rebalance.next_deadline()
        if member.attempt is not None or member.awaits_topics:
            return None
        return member.join_not_before if member.rejoin_needed else self.auto_commits.next_commit()
