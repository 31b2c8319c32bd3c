"""Heartbeats, and the three timers of a member: they run apart from poll.

| timer     | length                                      | restarted by                                    |
|-----------|---------------------------------------------|-------------------------------------------------|
| heartbeat | heartbeat.interval.ms; after a failure less | sending one; a failure; JoinGroup success       |
| session   | session.timeout.ms                          | an answer; coordinator found; JoinGroup success |
| poll      | max.poll.interval.ms                        | every poll; JoinGroup success                   |
"""

from kohort.client.errors import BrokerError, FencedInstanceIdError
from kohort.client.membership.context import ClassicContext
from kohort.client.membership.discovery import Discovery, PollTimer
from kohort.client.membership.reactions import (
    MembershipLoss,
    NextStep,
    Reaction,
    reaction_to,
    reaction_to_silence,
)
from kohort.client.membership.state import (
    HEARTBEATING,
    LONGEST_REASON,
    NO_GENERATION,
    ClassicMemberState,
    MemberGeneration,
)
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import Instant
from kohort.wire.apis import ApiKey
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity


def maybe_leave_group(context: ClassicContext, discovery: Discovery, reason: str) -> None:
    """Tell the coordinator, if it is known and knows this member; forget the membership in any case.

    A static member says nothing: it may be back before its session expires, without a rebalance.
    """
    member, settings = context.member, context.settings
    is_known = member.state is not ClassicMemberState.UNJOINED and bool(member.generation.member_id)
    if settings.group_instance_id is None and is_known and not discovery.coordinator_unknown:
        member_id = member.generation.member_id
        request = LeaveGroupRequest(
            group_id=settings.group,
            member_id=member_id,
            members=[MemberIdentity(member_id=member_id, reason=reason[:LONGEST_REASON])],
        )
        context.send(request)
    member.reset(NO_GENERATION, reason)


def leave_replied(context: ClassicContext, left: LeaveGroupResponse) -> None:
    code = left.error_code or next((each.error_code for each in left.members if each.error_code), 0)
    if code:
        context.note(f"leaving was refused: {BrokerError(code, 'leave')}", is_warning=True)


def leave_unanswered(context: ClassicContext, error: KohortError) -> None:
    context.note(f"leaving was not answered: {error}")


class Heartbeats(PollTimer):
    """Kafka's heartbeat thread as deadlines: ``tick`` does what is due."""

    def __init__(self, context: ClassicContext, discovery: Discovery) -> None:
        super().__init__(context, discovery)
        self._context = context
        self._enabled = False
        self._session_until = context.now

    @property
    def is_beating(self) -> bool:
        return self._enabled and self._context.member.state in HEARTBEATING

    def enable(self) -> None:
        """JoinGroup was answered: from here on the coordinator expects to hear of this member."""
        settings = self._context.settings
        self._enabled = True
        self._failures = 0
        self._heartbeat_at = self._context.after(settings.heartbeat_interval_ms)
        self.restart_session()
        self.restart_poll()

    def poll_heartbeat(self) -> None:
        super().poll_heartbeat()
        self.tick()

    def tick(self) -> None:
        """Do what is due. Only the broker decides about membership: a session that ended without an answer
        costs the coordinator, not the generation."""
        if not self.is_beating:
            return
        now = self._context.now
        if not self._discovery.coordinator_unknown and now >= self._session_until:
            self._discovery.mark_coordinator_unknown("no heartbeat was answered within session.timeout.ms")
        if now >= self._poll_until:
            self._expire_poll()
        elif self._discovery.coordinator_unknown:
            self._discovery.lookup_coordinator()
        elif now >= self._heartbeat_at:
            self._send_heartbeat_request()

    def next_deadline(self) -> Instant | None:
        if not self.is_beating:
            return None
        if not self._discovery.coordinator_unknown:
            return min(self._poll_until, self._session_until, self._heartbeat_at)
        return self.until_found()

    def next_heartbeat(self) -> Instant | None:
        """When poll should not wait any longer for records; None while no coordinator is known."""
        is_due = self.is_beating and not self._discovery.coordinator_unknown
        return self._heartbeat_at if is_due else None

    def _expire_poll(self) -> None:
        maybe_leave_group(self._context, self._discovery, self.note_expiry())
        self._enabled = False

    def _send_heartbeat_request(self) -> None:
        settings, sent = self._context.settings, self._context.member.generation
        self._heartbeat_at = self._context.after(settings.heartbeat_interval_ms)
        request = HeartbeatRequest(
            group_id=settings.group,
            generation_id=sent.generation_id,
            member_id=sent.member_id,
            group_instance_id=settings.group_instance_id,
        )
        self._context.send(request)

    def replied(self, sent: MemberGeneration, response: HeartbeatResponse) -> None:
        code = response.error_code
        self._discovery.coordinator_answered()
        self._react(reaction_to(ApiKey.HEARTBEAT, code), sent, _reason(code))

    def unanswered(self, sent: MemberGeneration, error: KohortError) -> None:
        if error.retriable:
            self._react(reaction_to_silence(ApiKey.HEARTBEAT), sent, str(error))
        else:
            self._fatal, self._enabled = error, False
            self._context.wake_poll()

    def _react(self, reaction: Reaction, sent: MemberGeneration, reason: str) -> None:
        member = self._context.member
        if reaction.coordinator_unknown:
            self._discovery.mark_coordinator_unknown(reason)
        if reaction.rejoin and member.state is ClassicMemberState.STABLE:
            member.request_rejoin(reason)
            self._context.wake_poll()
        was_reset = member.lose(reaction.loss, sent, reason)
        if was_reset:
            self._context.wake_poll()
        if reaction.then is NextStep.RAISE and was_reset:
            settings = self._context.settings
            self._fatal = FencedInstanceIdError(settings.group, settings.group_instance_id)
        # An error about a generation that is over is an echo: it says that the coordinator lives.
        is_echo = reaction.loss is not MembershipLoss.NOTHING and not was_reset
        if reaction.then is NextStep.RECEIVED or is_echo:
            self._failures = 0
            self.restart_session()
        else:
            self._heartbeat_at = self._context.after_backoff(self._failures)
            self._failures += 1

    def restart_session(self) -> None:
        self._session_until = self._context.after(self._context.settings.session_timeout_ms)


def _reason(code: int) -> str:
    if code == ErrorCode.REBALANCE_IN_PROGRESS:
        return "the group is already rebalancing"
    return str(BrokerError(code, "heartbeat"))
