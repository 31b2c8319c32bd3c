"""ClassicMembership: what one turn of ``KafkaConsumer.poll`` does about the group.

Read it from the top, as the seed of this project walks through Kafka's client::

    poll → maybe_update_subscription_metadata, poll_heartbeat
         → FIND_COORDINATOR  discovery.ensure_coordinator_ready → lookup_coordinator
         → ensure_active_group
              → JOIN_GROUP   join.join_group_if_needed → rebalance.on_join_prepare → initiate_join_group
                             on_join_leader (leader.perform_assignment) or on_join_follower
              → SYNC_GROUP   join.send_sync_group_request
              → rebalance.on_join_complete
         → auto_commits.maybe_auto_commit_offsets_async
"""

from collections.abc import Sequence

from kohort.assign.assignor import Assignor
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.errors import IllegalMemberStateError
from kohort.client.membership.classic.heartbeat import (
    Heartbeats,
    leave_replied,
    leave_unanswered,
    maybe_leave_group,
)
from kohort.client.membership.classic.join import JoinGroup
from kohort.client.membership.classic.rebalance import RebalanceCallbacks
from kohort.client.membership.commands import CallbackDone
from kohort.client.membership.context import ClassicContext, Pending
from kohort.client.membership.machine import Membership
from kohort.client.membership.state import (
    ClassicMemberState,
    ClusterTopics,
    JoinAttempt,
)
from kohort.client.settings import Dice
from kohort.client.subscription import Subscriptions
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.model.ids import Instant, TopicName
from kohort.wire.apis import ApiKey
from kohort.wire.messages.heartbeat import HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupResponse
from kohort.wire.messages.sync_group import SyncGroupResponse


class ClassicMembership(Membership):
    """A member of the classic protocol: made of the parts, each of which has a file of its own."""

    heartbeats: Heartbeats

    def __init__(
        self,
        settings: ConsumerSettings,
        assignors: Sequence[Assignor],
        subscriptions: Subscriptions,
        *,
        dice: Dice,
        now: Instant,
    ) -> None:
        """Assignors in order of preference, instances of this consumer's own; AssignorChoiceError if they
        have no rebalance protocol in common."""
        context = ClassicContext(settings, assignors, subscriptions, dice, now)
        super().__init__(context)
        self.protocol = context.protocol
        self._context: ClassicContext = context
        self.heartbeats = Heartbeats(context, self.discovery)
        self.rebalance = RebalanceCallbacks(context, self.auto_commits)
        self.join = JoinGroup(context, self.discovery, self.heartbeats, self.rebalance)
        self._seen: tuple[int, frozenset[TopicName]] | None = None  # behind the snapshot

    @property
    def state(self) -> ClassicMemberState:
        return self._context.member.state

    def poll_group(self) -> bool:
        if not self._context.assignors:
            raise IllegalMemberStateError(
                "a group cannot assign partitions to a consumer without assignors",
                hint="partition.assignment.strategy is empty",
            )
        self.heartbeats.poll_heartbeat()
        if not self.discovery.ensure_coordinator_ready():
            return False
        if self.join.rejoin_needed_or_pending() and not self._has_fresh_topics():
            return False
        return self.ensure_active_group()

    def ensure_active_group(self) -> bool:
        """Kafka's ``ensureActiveGroup``; heartbeats begin by themselves, with the answer to JoinGroup."""
        return self.join.join_group_if_needed()

    def end_callback(self, done: CallbackDone) -> None:
        self.join.called_back(self.let_go(), done)

    def group_is_calm(self) -> bool:
        return not self._has_news() and not self.join.reason_to_rejoin()

    def maybe_update_subscription_metadata(self) -> None:
        """Look at newer metadata: which topics match the pattern now, and what a leader would assign by."""
        super().maybe_update_subscription_metadata()
        context, cluster = self._context, self._context.cluster
        if context.subscriptions.is_group_managed and self._has_news():
            self._seen = (cluster.version, context.wanted_topics)
            with_racks = bool(context.settings.client_rack)
            context.member.metadata_snapshot = cluster.snapshot(context.wanted_topics, with_racks=with_racks)

    def _has_news(self) -> bool:
        """Whether the metadata of the group's topics is another than the snapshot was made of."""
        cluster, wanted = self._context.cluster, self._context.wanted_topics
        return self._seen != (cluster.version, wanted) and cluster.covers(wanted)

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
        super().metadata_updated(topics)
        if member.awaits_topics and topics.asked is None:
            member.awaits_topics, member.has_fresh_topics = False, True
        self.join.resume_leader()

    def release(self) -> None:
        self.rebalance.on_leave_prepare()

    def leave(self, reason: str) -> None:
        if self._context.subscriptions.is_group_managed:
            maybe_leave_group(self._context, self.discovery, reason)
            self.join.abandon()

    def group_replied(self, pending: Pending, response: Message) -> None:
        match response, pending.about:
            case JoinGroupResponse(), JoinAttempt() as attempt:
                self.join.join_replied(attempt, pending.generation, response)
            case SyncGroupResponse(), JoinAttempt() as attempt:
                self.join.sync_replied(attempt, pending.generation, response)
            case HeartbeatResponse(), None:
                self.heartbeats.replied(pending.generation, response)
            case LeaveGroupResponse(), None:
                leave_replied(self._context, response)
            case _:
                raise AssertionError(f"{type(response).__name__} does not answer {pending.api.name}")

    def group_unanswered(self, pending: Pending, error: KohortError) -> None:
        if isinstance(pending.about, JoinAttempt):
            self.join.unanswered(pending.about, pending.api, error)
        elif pending.api is ApiKey.HEARTBEAT:
            self.heartbeats.unanswered(pending.generation, error)
        else:
            leave_unanswered(self._context, error)

    def coordinator_found(self) -> None:
        self.heartbeats.restart_session()
        super().coordinator_found()

    def next_step(self) -> Instant | None:
        times = (self._waits_for(), self.heartbeats.next_heartbeat())
        return min((time for time in times if time is not None), default=None)

    def _waits_for(self) -> Instant | None:
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
