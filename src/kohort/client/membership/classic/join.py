"""JOIN_GROUP: become a member of the next generation. Kafka's ``joinGroupIfNeeded`` and what it calls.

The loop runs inside poll and never waits: where Kafka's client blocks, it reports "not yet" and goes on with
the next poll. Answers are handled whenever they come.
"""

from collections.abc import Sequence

from kohort.assign.protocol import (
    PROTOCOL_TYPE,
    Subscription,
    encode_subscription,
)
from kohort.client.errors import BrokerError, FencedInstanceIdError, IllegalMemberStateError
from kohort.client.membership.classic.heartbeat import Heartbeats
from kohort.client.membership.classic.rebalance import RebalanceCallbacks
from kohort.client.membership.commands import CallbackDone
from kohort.client.membership.context import ClassicContext, OpenCallback
from kohort.client.membership.discovery import Discovery
from kohort.client.membership.reactions import NextStep, reaction_to, reaction_to_silence
from kohort.client.membership.state import (
    NO_GENERATION,
    ClassicMemberState,
    JoinAttempt,
    JoinFailure,
    MemberGeneration,
)
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import Generation, MemberId
from kohort.wire.apis import APIS, ApiKey
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

STATIC_MEMBERS_SINCE = 5  # the first JoinGroup that can say group.instance.id


class JoinGroup:
    """Joining, from "a rejoin is needed" to a completed assignment."""

    def __init__(
        self,
        context: ClassicContext,
        discovery: Discovery,
        heartbeats: Heartbeats,
        rebalance: RebalanceCallbacks,
    ) -> None:
        self._context = context
        self._discovery = discovery
        self._heartbeats = heartbeats
        self._rebalance = rebalance
        self._leader = rebalance.leader

    def rejoin_needed_or_pending(self) -> bool:
        """Whether the metadata the leader assigned by, or the subscription, is no longer what it was."""
        member = self._context.member
        if reason := self.reason_to_rejoin():
            member.request_rejoin_if_necessary(reason)
        return member.rejoin_needed or member.attempt is not None

    def reason_to_rejoin(self) -> str:
        """Why the assignment is no longer right, by what this member sees itself; "" if it is."""
        member = self._context.member
        snapshot = member.assignment_snapshot
        if snapshot is not None and not snapshot.matches(member.metadata_snapshot):
            return "cached metadata has changed since the last assignment"
        if member.joined_subscription != self._context.subscriptions.subscription.topics:
            return "the subscription has changed since the last join"
        return ""

    def join_group_if_needed(self) -> bool:
        """Whether the member is in a stable generation and has taken over its assignment.

        False while an answer, a commit or a callback is awaited. Raises what cannot be helped; a later call
        tries again.
        """
        context, member = self._context, self._context.member
        while self.rejoin_needed_or_pending():
            if not self._discovery.ensure_coordinator_ready():
                return False
            if member.attempt is None and context.now < member.join_not_before:
                return False
            if member.needs_join_prepare:
                if not self._rebalance.on_join_prepare():
                    return False
                member.needs_join_prepare = False  # even if the callback raises: it is not called twice
                if context.callback is not None:
                    return False
                continue
            attempt = self._initiate_join_group()
            self.resume_leader()
            if not attempt.is_done:
                return False
            if attempt.failure is not None:
                self._join_failed(attempt.failure)
            elif not self._join_succeeded(attempt):
                return False
        return True

    def _join_succeeded(self, attempt: JoinAttempt) -> bool:
        """Take over the assignment. The attempt outlives an exception: the next poll does this again."""
        member = self._context.member
        if member.generation.was_reset or member.state is not ClassicMemberState.STABLE:
            member.reset(NO_GENERATION, f"{member.generation} ended before the assignment was taken over")
            self._forget_attempt()
            return True
        assert attempt.assignment is not None
        if not self._rebalance.on_join_complete(attempt.assignment):
            return False
        self._completed()
        return True

    def _completed(self) -> None:
        self._context.member.needs_join_prepare = True
        self._forget_attempt()

    def called_back(self, callback: OpenCallback, done: CallbackDone) -> None:
        """A callback of the rebalance has ended. Raises what it raised."""
        if self._rebalance.called_back(callback, done):
            self._completed()

    def _join_failed(self, failure: JoinFailure) -> None:
        member = self._context.member
        self._forget_attempt()
        member.rebalances_failed += 1
        if isinstance(failure.error, BrokerError) and failure.error.code == ErrorCode.MEMBER_ID_REQUIRED:
            return  # it has given its own reason to join again
        member.request_rejoin(f"rebalance failed: {failure.error}")
        if failure.then is NextStep.RAISE:
            raise failure.error

    def abandon(self) -> None:
        """The member leaves: an answer to what is in flight comes too late."""
        self._forget_attempt()

    def _forget_attempt(self) -> None:
        self._context.member.attempt = None
        self._context.member.awaits_topics = self._context.member.has_fresh_topics = False

    # --- the request --------------------------------------------------------------------------

    def _initiate_join_group(self) -> JoinAttempt:
        """Kafka's ``initiateJoinGroup``: the attempt under way, or a new one.

        So a poll that was cut short does not send a second JoinGroup.
        """
        member = self._context.member
        if member.attempt is None:
            member.attempt = JoinAttempt()
            member.move_to(ClassicMemberState.PREPARING_REBALANCE)
            self._send_join_group_request(member.attempt)
        return member.attempt

    def _send_join_group_request(self, attempt: JoinAttempt) -> None:
        settings, member = self._context.settings, self._context.member
        sent = member.generation
        request = JoinGroupRequest(
            group_id=settings.group,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=sent.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=self._metadata(),
            reason=member.rejoin_reason or None,
        )
        lowest = 0 if settings.group_instance_id is None else STATIC_MEMBERS_SINCE
        self._context.send(request, attempt, lowest=lowest, timeout_ms=settings.join_timeout_ms)

    def _metadata(self) -> list[JoinGroupRequestProtocol]:
        """What each assignor tells the leader, in order of preference. Remembers the topics joined with."""
        context, member = self._context, self._context.member
        topics = context.subscriptions.subscription.topics
        member.joined_subscription = topics
        return [
            JoinGroupRequestProtocol(
                name=name,
                metadata=encode_subscription(
                    Subscription(
                        tuple(sorted(topics)),
                        assignor.subscription_user_data(topics),
                        context.subscriptions.assignment.partitions,
                        member.generation.generation_id,
                        context.settings.client_rack or None,
                    )
                ),
            )
            for name, assignor in context.assignors.items()
        ]

    # --- the answer ---------------------------------------------------------------------------

    def join_replied(self, attempt: JoinAttempt, sent: MemberGeneration, joined: JoinGroupResponse) -> None:
        """Kafka's ``JoinGroupResponseHandler``."""
        self._discovery.coordinator_answered()
        if attempt is not self._context.member.attempt:
            return  # the member has left since, and may be joining again
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._adopt_member_id(MemberId(joined.member_id))
        if joined.error_code:
            self._refused(attempt, ApiKey.JOIN_GROUP, joined.error_code, sent)
        elif joined.protocol_type not in (None, PROTOCOL_TYPE):
            what = f"join group {self._context.settings.group!r}"
            why = f"it is one of {joined.protocol_type!r}, not of {PROTOCOL_TYPE!r}"
            error = BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, what, why)
            self._fail(attempt, error, NextStep.RAISE)
        elif self._context.member.state is not ClassicMemberState.PREPARING_REBALANCE:
            gone = KohortError("the member left the group while it was joining", retriable=True)
            self._fail(attempt, gone, NextStep.JOIN_LATER)
        else:
            self._joined(attempt, joined)

    def _adopt_member_id(self, member_id: MemberId) -> None:
        """KIP-394: joining needs two requests, so that clients that never come back leave no members."""
        member = self._context.member
        if member.state is ClassicMemberState.PREPARING_REBALANCE:
            member.generation = MemberGeneration(member_id=member_id)
            member.request_rejoin(f"need to re-join with the given member-id: {member_id}")

    def _joined(self, attempt: JoinAttempt, joined: JoinGroupResponse) -> None:
        member = self._context.member
        member.move_to(ClassicMemberState.COMPLETING_REBALANCE)
        member.generation = MemberGeneration(
            Generation(joined.generation_id), MemberId(joined.member_id), joined.protocol_name
        )
        self._heartbeats.enable()
        # The answer to a classic member of a KIP-848 group names no leader: then all are followers.
        if joined.leader == joined.member_id:
            self._on_join_leader(attempt, joined)
        else:
            self._on_join_follower(attempt)

    def _on_join_follower(self, attempt: JoinAttempt) -> None:
        self.send_sync_group_request(attempt, [])

    def _on_join_leader(self, attempt: JoinAttempt, joined: JoinGroupResponse) -> None:
        """Runs code of others, the assignor: what it raises ends the attempt, and surfaces from poll."""
        try:
            assignments = self._leader.perform_assignment(attempt, joined)
        except KohortError as error:
            self._fail(attempt, error, NextStep.RAISE)
        except Exception as error:
            failed = IllegalMemberStateError(f"the assignor failed: {error!r}")
            failed.__cause__ = error
            self._fail(attempt, failed, NextStep.RAISE)
        else:
            if assignments is not None:
                self.send_sync_group_request(attempt, assignments)

    def resume_leader(self) -> None:
        """Let a leader go on when the metadata it waits for is there; give up if its generation is over."""
        attempt = self._context.member.attempt
        if attempt is None or attempt.leads is None:
            return
        joined = attempt.leads
        if not self._is_still_in(joined):
            error = BrokerError(
                ErrorCode.ILLEGAL_GENERATION, "assign partitions in a generation that is over"
            )
            self._fail(attempt, error, NextStep.JOIN_NOW)
        elif self._context.cluster.covers(attempt.needs_topics):
            self._on_join_leader(attempt, joined)

    def _is_still_in(self, joined: JoinGroupResponse) -> bool:
        member = self._context.member
        is_completing = member.state is ClassicMemberState.COMPLETING_REBALANCE
        return is_completing and member.generation.generation_id == joined.generation_id

    # --- SyncGroup: the second half of joining ------------------------------------------------

    def send_sync_group_request(
        self, attempt: JoinAttempt, assignments: Sequence[SyncGroupRequestAssignment]
    ) -> None:
        """Followers bring no assignments, and wait until the leader's have come."""
        settings, sent = self._context.settings, self._context.member.generation
        if self._discovery.coordinator_unknown:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._fail(attempt, BrokerError(code, "sync with the group"), NextStep.JOIN_LATER)
            return
        request = SyncGroupRequest(
            group_id=settings.group,
            generation_id=sent.generation_id,
            member_id=sent.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=sent.protocol_name,
            assignments=list(assignments),
        )
        self._context.send(request, attempt)

    def sync_replied(self, attempt: JoinAttempt, sent: MemberGeneration, synced: SyncGroupResponse) -> None:
        self._discovery.coordinator_answered()
        if attempt is not self._context.member.attempt:
            return  # the member has left since, and may be joining again
        if synced.error_code:
            self._refused(attempt, ApiKey.SYNC_GROUP, synced.error_code, sent)
        else:
            self._synced(attempt, synced)

    def _synced(self, attempt: JoinAttempt, synced: SyncGroupResponse) -> None:
        context, member = self._context, self._context.member
        generation = member.generation
        if synced.protocol_type not in (None, PROTOCOL_TYPE) or _names_another(synced, generation):
            error = BrokerError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"sync with group {context.settings.group!r}",
                f"it answered for {synced.protocol_type!r} {synced.protocol_name!r}, not for "
                f"{PROTOCOL_TYPE!r} {generation.protocol_name!r}",
            )
            self._fail(attempt, error, NextStep.RAISE)
        elif generation.was_reset or member.state is not ClassicMemberState.COMPLETING_REBALANCE:
            # A heartbeat has taken the generation away while the assignment was on its way.
            error = BrokerError(
                ErrorCode.ILLEGAL_GENERATION, "use an assignment of a generation that is over"
            )
            self._fail(attempt, error, NextStep.JOIN_NOW)
        else:
            member.move_to(ClassicMemberState.STABLE)
            member.rejoin_needed, member.rejoin_reason = False, ""
            attempt.assignment = bytes(synced.assignment)
            context.wake_poll()

    # --- what goes wrong with either ----------------------------------------------------------

    def _refused(self, attempt: JoinAttempt, asked: ApiKey, code: int, sent: MemberGeneration) -> None:
        """The answer to a request, sent in a generation, is a code."""
        reaction = reaction_to(asked, code)
        settings = self._context.settings
        error = BrokerError(code, f"join group {settings.group!r} ({APIS[asked].name})")
        error.hint = reaction.hint or error.hint
        if code == ErrorCode.FENCED_INSTANCE_ID:
            error = FencedInstanceIdError(settings.group, settings.group_instance_id)
        if reaction.coordinator_unknown:
            self._discovery.mark_coordinator_unknown(str(error))
        self._context.member.lose(reaction.loss, sent, f"rebalance failed: {error}")
        self._fail(attempt, error, reaction.then)

    def unanswered(self, attempt: JoinAttempt, asked: ApiKey, error: KohortError) -> None:
        """There is no answer at all; the member id survives that."""
        reaction = reaction_to_silence(asked)
        if error.retriable and reaction.coordinator_unknown:
            self._discovery.mark_coordinator_unknown(str(error))
        self._fail(attempt, error, reaction.then if error.retriable else NextStep.RAISE)

    def _fail(self, attempt: JoinAttempt, error: KohortError, then: NextStep) -> None:
        """The attempt is over; the next turn of poll sees what follows."""
        attempt.fail(error, then)
        if then is NextStep.JOIN_LATER:
            self._context.member.join_not_before = self._context.after(
                self._context.settings.retry_backoff_ms
            )
        self._context.wake_poll()


def _names_another(synced: SyncGroupResponse, generation: MemberGeneration) -> bool:
    is_named = synced.protocol_name is not None and not generation.was_reset
    return is_named and synced.protocol_name != generation.protocol_name
