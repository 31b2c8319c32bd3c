"""How an attempt to join fails: what the table of reactions says, done to the member and to the attempt."""

from kohort.client.errors import BrokerError
from kohort.client.membership.context import Context
from kohort.client.membership.discovery import Discovery
from kohort.client.membership.errors import FencedInstanceIdError
from kohort.client.membership.member import JoinAttempt
from kohort.client.membership.reactions import Asked, Then, reaction_to, reaction_to_silence
from kohort.client.membership.state import MemberGeneration
from kohort.model.errors import ErrorCode, KohortError


def fail_attempt(context: Context, attempt: JoinAttempt, error: KohortError, then: Then) -> None:
    """The attempt is over; the next turn of poll sees what follows."""
    attempt.fail(error, then)
    if then is Then.JOIN_LATER:
        context.member.join_not_before = context.after(context.settings.retry_backoff_ms)
    context.wake_poll()


def refused(
    context: Context,
    discovery: Discovery,
    attempt: JoinAttempt,
    answer: tuple[Asked, int, MemberGeneration],
) -> None:
    """JoinGroup or SyncGroup, sent in a generation, were answered with a code."""
    asked, code, sent = answer
    reaction = reaction_to(asked, code)
    error = _error(context, asked, code, reaction.hint)
    if reaction.coordinator_unknown:
        discovery.mark_coordinator_unknown(str(error))
    context.member.lose(reaction.loss, sent, f"rebalance failed: {error}")
    fail_attempt(context, attempt, error, reaction.then)


def unanswered(
    context: Context, discovery: Discovery, attempt: JoinAttempt, silence: tuple[Asked, KohortError]
) -> None:
    """They were not answered at all; the member id survives that."""
    asked, error = silence
    if not error.retriable:
        fail_attempt(context, attempt, error, Then.RAISE)
        return
    reaction = reaction_to_silence(asked)
    if reaction.coordinator_unknown:
        discovery.mark_coordinator_unknown(str(error))
    fail_attempt(context, attempt, error, reaction.then)


def _error(context: Context, asked: Asked, code: int, hint: str) -> BrokerError:
    settings = context.settings
    if code == ErrorCode.FENCED_INSTANCE_ID:
        return FencedInstanceIdError(settings.group, settings.group_instance_id)
    error = BrokerError(code, f"join group {settings.group!r} ({asked.value})")
    error.hint = hint or error.hint
    return error
