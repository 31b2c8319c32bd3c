"""ConsumerGroupHeartbeat: joins, acknowledges, leaves, and says that the member lives.

| timer     | length                                         | restarted by              |
|-----------|------------------------------------------------|---------------------------|
| heartbeat | what the coordinator says; at once while the   | sending one               |
|           | member joins, acknowledges or has changed its  |                           |
|           | subscription; after a failure with backoff     |                           |
| poll      | max.poll.interval.ms                           | every poll; joining       |

A request says what has changed since the last one that was answered; after any failure it says everything.
"""

from kohort.client.errors import (
    ApiNotServedError,
    BrokerError,
    ConsumerGroupsNotServedError,
    FencedInstanceIdError,
)
from kohort.client.membership.commits import Commits
from kohort.client.membership.context import ConsumerContext, Pending
from kohort.client.membership.discovery import Discovery, PollTimer
from kohort.client.membership.reactions import MembershipLoss, NextStep, reaction_to, reaction_to_silence
from kohort.client.membership.state import (
    LEAVE_EPOCH,
    LEAVE_FOR_A_WHILE_EPOCH,
    ConsumerMemberState,
    MemberGeneration,
    PartitionsById,
    SentFields,
)
from kohort.client.subscription import ConsumerSubscription
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import Instant, TopicId, TopicName
from kohort.wire.apis import ApiKey
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_PATTERNS_SINCE = 1  # the first version with regular expressions


class ConsumerHeartbeats(PollTimer):
    """Kafka's ``ConsumerHeartbeatRequestManager`` as deadlines: ``tick`` does what is due."""

    def __init__(self, context: ConsumerContext, discovery: Discovery, commits: Commits) -> None:
        super().__init__(context, discovery)
        self._context = context
        self._commits = commits
        self._sent: SentFields | None = None
        self._in_flight: SentFields | None = None
        self._has_had_pattern = False
        self._not_before = context.now

    # --- time ---------------------------------------------------------------------------------

    @property
    def is_urgent(self) -> bool:
        """Whether the coordinator has to hear something before the interval is over."""
        member = self._context.member
        if member.state in (ConsumerMemberState.JOINING, ConsumerMemberState.ACKNOWLEDGING):
            return True
        wanted = self._context.subscriptions.subscription
        sent = self._sent
        return sent is None or (sent.topics, sent.pattern) != (_names(wanted), wanted.remote_pattern)

    def next_poll(self) -> Instant:
        """When a poll that waits for records says again that the application lives."""
        return Instant(self._poll_until - self._context.settings.max_poll_interval_ms // 2)

    def tick(self) -> None:
        """Do what is due. Only the coordinator decides about membership: there is no session here."""
        if not self._context.member.state.sends_heartbeats:
            return
        now = self._context.now
        if now >= self._poll_until:
            self.note_expiry()
            self.leave(ConsumerMemberState.STALE)
        elif self._discovery.coordinator_unknown:
            self._discovery.lookup_coordinator()
        elif self._in_flight is None and now >= self._due():
            self._send_heartbeat()

    def _due(self) -> Instant:
        return self._not_before if self.is_urgent else max(self._not_before, self._heartbeat_at)

    def next_deadline(self) -> Instant | None:
        if not self._context.member.state.sends_heartbeats:
            return None
        if self._discovery.coordinator_unknown:
            return self.until_found()
        return self._poll_until if self._in_flight is not None else min(self._poll_until, self._due())

    # --- requests -----------------------------------------------------------------------------

    def _send_heartbeat(self) -> None:
        """Also what was said before, if there was no answer to it."""
        context, member, settings = self._context, self._context.member, self._context.settings
        wanted = context.subscriptions.subscription
        before, now = self._sent, SentFields(_names(wanted), wanted.remote_pattern, member.owned_changes)
        is_full = before is None or member.state is ConsumerMemberState.JOINING
        request = self._request(member.epoch)
        if is_full:
            request.rebalance_timeout_ms = settings.max_poll_interval_ms
            request.rack_id = settings.client_rack or None
            request.server_assignor = settings.group_remote_assignor
        if is_full or before is None or before.topics != now.topics:
            request.subscribed_topic_names = sorted(now.topics)
        if now.pattern is not None and (is_full or before is None or before.pattern != now.pattern):
            request.subscribed_topic_regex = now.pattern
            self._has_had_pattern = True
        elif now.pattern is None and is_full and self._has_had_pattern:
            request.subscribed_topic_regex = ""  # a static member that is back takes over its old one
        if is_full or before is None or before.owned_changes != now.owned_changes:
            request.topic_partitions = [
                TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
                for topic_id, numbers in sorted((member.owned or {}).items())
            ]
        self._sent = self._in_flight = now
        self._heartbeat_at = context.after(context.heartbeat_interval_ms)
        context.send(request, now, lowest=_PATTERNS_SINCE if now.pattern is not None else 0)
        if member.state is ConsumerMemberState.ACKNOWLEDGING:
            member.acknowledged()
            context.wake_poll()

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        settings = self._context.settings
        return ConsumerGroupHeartbeatRequest(
            group_id=settings.group,
            member_id=self._context.member.generation.member_id,
            member_epoch=epoch,
            instance_id=settings.group_instance_id,
            topic_partitions=None,
        )

    def leave(self, state: ConsumerMemberState) -> None:
        """Tell the coordinator, if it is known and may know this member. A static member may come back."""
        context, member = self._context, self._context.member
        is_known = member.state.is_in_group or (
            member.state is ConsumerMemberState.JOINING and self._in_flight is not None
        )
        is_static = context.settings.group_instance_id is not None
        epoch = LEAVE_FOR_A_WHILE_EPOCH if is_static else LEAVE_EPOCH
        if is_known and not self._discovery.coordinator_unknown:
            context.send(self._request(epoch))
        member.leave_group(state, epoch)
        self._forget()

    def join(self) -> None:
        """Begin to join: the next heartbeat says everything, with epoch 0."""
        self._context.member.join()
        self._forget()
        self.restart_poll()

    def _forget(self) -> None:
        self._sent = self._in_flight = None

    # --- answers ------------------------------------------------------------------------------

    def replied(self, pending: Pending, response: ConsumerGroupHeartbeatResponse) -> None:
        self._discovery.coordinator_answered()
        if pending.about is None or pending.about is not self._in_flight:
            return  # about leaving, or a membership that is over
        self._in_flight = None
        if response.error_code:
            self._refused(response.error_code, response.error_message, pending.generation)
            return
        self._failures, self._not_before = 0, self._context.now
        self._context.heartbeat_interval_ms = response.heartbeat_interval_ms
        self._heartbeat_at = self._context.after(response.heartbeat_interval_ms)
        before = self._context.member.state
        self._context.member.heard(response.member_epoch, _assigned(response.assignment))
        if self._context.member.state is not before:
            self._context.wake_poll()

    def unanswered(self, pending: Pending, error: KohortError) -> None:
        if pending.about is None or pending.about is not self._in_flight:
            return
        self._in_flight = self._sent = None
        if error.retriable:
            if reaction_to_silence(ApiKey.CONSUMER_GROUP_HEARTBEAT).coordinator_unknown:
                self._discovery.mark_coordinator_unknown(str(error))
            self._back_off()
            return
        if isinstance(error, ApiNotServedError):
            error = self._not_served(error)
        self._fail(error)

    def _refused(self, code: int, message: str | None, sent: MemberGeneration) -> None:
        settings, member = self._context.settings, self._context.member
        self._sent = None
        reaction = reaction_to(ApiKey.CONSUMER_GROUP_HEARTBEAT, code)
        error: KohortError = BrokerError(code, f"be a member of group {settings.group!r}", message)
        error.hint = reaction.hint or error.hint
        is_gone = code == ErrorCode.GROUP_ID_NOT_FOUND
        if reaction.coordinator_unknown:
            self._discovery.mark_coordinator_unknown(str(error))
            self._back_off()  # Kafka's client does not: a broker whose log loads slowly gets many requests
        elif reaction.then is NextStep.BEAT_LATER:
            self._back_off()
        elif reaction.loss is MembershipLoss.NOTHING:
            self._fatal = error
            self._back_off()
            self._context.wake_poll()
        elif reaction.then is NextStep.JOIN_NOW or (is_gone and sent.generation_id > 0):
            self._context.note(f"the group has removed this member, which joins again: {error}")
            member.leave_group(ConsumerMemberState.FENCED)
            self._not_before = self._context.now
            self._out()
        else:
            if code == ErrorCode.FENCED_INSTANCE_ID:
                error = FencedInstanceIdError(settings.group, settings.group_instance_id)
            elif code == ErrorCode.UNSUPPORTED_VERSION:
                error = self._not_served(error)
            self._fail(error)

    def _not_served(self, error: KohortError) -> KohortError:
        node = self._discovery.node
        where = "the coordinator" if node is None else f"broker {node.node_id} at {node.host}:{node.port}"
        refused = ConsumerGroupsNotServedError(self._context.settings.group, where)
        refused.__cause__ = error
        return refused

    def _fail(self, error: KohortError) -> None:
        self._fatal = error
        self._context.member.leave_group(ConsumerMemberState.FATAL)
        self._back_off()
        self._out()

    def _out(self) -> None:
        self._context.member.rebalances_failed += 1
        self._forget()
        self._commits.expelled()
        self._context.wake_poll()

    def _back_off(self) -> None:
        self._not_before = self._context.after_backoff(self._failures)
        self._failures += 1


def _names(wanted: ConsumerSubscription) -> frozenset[TopicName]:
    """The names to send; topics that a broker's regular expression found are no names."""
    return frozenset() if wanted.remote_pattern is not None else wanted.topics


def _assigned(assignment: Assignment | None) -> PartitionsById | None:
    if assignment is None:
        return None
    return {
        TopicId(each.topic_id): frozenset(each.partitions)
        for each in assignment.topic_partitions
        if each.partitions
    }
