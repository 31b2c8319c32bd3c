"""Leaving: one LeaveGroup that is never repeated, and a member that starts from nothing afterwards."""

from typing import cast

from kohort.client.errors import BrokerError
from kohort.client.membership.context import Context, Pending
from kohort.client.membership.discovery import Discovery
from kohort.client.membership.effects import Destination
from kohort.client.membership.member import LONGEST_REASON
from kohort.client.membership.state import NO_GENERATION, MemberState
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity


def maybe_leave_group(context: Context, discovery: Discovery, reason: str) -> None:
    """Tell the coordinator, if it knows this member and can be told; forget the membership in any case.

    A static member says nothing: it may be back before its session expires, and nobody else is to rebalance.
    """
    member, settings = context.member, context.settings
    is_known = member.state is not MemberState.UNJOINED and bool(member.generation.member_id)
    if settings.group_instance_id is None and is_known and not discovery.coordinator_unknown:
        member_id = member.generation.member_id
        request = LeaveGroupRequest(
            group_id=settings.group,
            member_id=member_id,
            members=[MemberIdentity(member_id=member_id, reason=reason[:LONGEST_REASON])],
        )
        context.send(
            request,
            Pending(
                Destination.COORDINATOR,
                lambda response: _note_refusal(context, response),
                lambda error: _note_silence(context, error),
            ),
        )
    member.reset(NO_GENERATION, reason)


def _note_refusal(context: Context, response: Message) -> None:
    left = cast(LeaveGroupResponse, response)
    code = left.error_code or next((each.error_code for each in left.members if each.error_code), 0)
    if code:
        context.note(f"leaving was refused: {BrokerError(code, 'leave')}", is_warning=True)


def _note_silence(context: Context, error: KohortError) -> None:
    context.note(f"leaving was not answered: {error}")
