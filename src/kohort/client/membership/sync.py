"""SYNC_GROUP: hand in (as the leader) and receive the assignment. Kafka's ``SyncGroupResponseHandler``."""

from collections.abc import Sequence
from functools import partial
from typing import cast

from kohort.assign.protocol import PROTOCOL_TYPE
from kohort.client.errors import BrokerError
from kohort.client.membership.context import Context, Pending
from kohort.client.membership.discovery import Discovery
from kohort.client.membership.effects import Destination
from kohort.client.membership.failures import fail_attempt, refused, unanswered
from kohort.client.membership.member import JoinAttempt
from kohort.client.membership.reactions import Asked, Then
from kohort.client.membership.state import MemberGeneration, MemberState
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse


class SyncGroup:
    """The second half of joining."""

    def __init__(self, context: Context, discovery: Discovery) -> None:
        self._context = context
        self._discovery = discovery

    def send_sync_group_request(
        self, attempt: JoinAttempt, assignments: Sequence[SyncGroupRequestAssignment]
    ) -> None:
        """Followers bring no assignments, and wait until the leader's have come."""
        settings, sent = self._context.settings, self._context.member.generation
        if self._discovery.coordinator_unknown:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            fail_attempt(self._context, attempt, BrokerError(code, "sync with the group"), Then.JOIN_LATER)
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
        pending = Pending(
            Destination.COORDINATOR,
            partial(self._replied, attempt, sent),
            lambda error: unanswered(self._context, self._discovery, attempt, (Asked.SYNC_GROUP, error)),
        )
        self._context.send(request, pending)

    def _replied(self, attempt: JoinAttempt, sent: MemberGeneration, response: Message) -> None:
        synced = cast(SyncGroupResponse, response)
        self._discovery.coordinator_answered()
        if attempt is not self._context.member.attempt:
            return  # the member has left since, and may be joining again
        if synced.error_code:
            refused(self._context, self._discovery, attempt, (Asked.SYNC_GROUP, synced.error_code, sent))
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
            fail_attempt(context, attempt, error, Then.RAISE)
        elif generation.was_reset or member.state is not MemberState.COMPLETING_REBALANCE:
            # A heartbeat has taken the generation away while the assignment was on its way.
            error = BrokerError(
                ErrorCode.ILLEGAL_GENERATION, "use an assignment of a generation that is over"
            )
            fail_attempt(context, attempt, error, Then.JOIN_NOW)
        else:
            member.move_to(MemberState.STABLE)
            member.rejoin_needed, member.rejoin_reason = False, ""
            attempt.assignment = bytes(synced.assignment)
            context.wake_poll()


def _names_another(synced: SyncGroupResponse, generation: MemberGeneration) -> bool:
    is_named = synced.protocol_name is not None and not generation.was_reset
    return is_named and synced.protocol_name != generation.protocol_name
