"""What becomes of a commit: refused before it is sent, or judged by its answer."""

from collections.abc import Mapping

from kohort.client.errors import BrokerError
from kohort.client.membership.context import Context
from kohort.client.membership.discovery import Discovery
from kohort.client.membership.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    RebalanceInProgressError,
    TopicAuthorizationFailedError,
)
from kohort.client.membership.reactions import Asked, Reaction, Then, reaction_to
from kohort.client.membership.state import MemberGeneration, MemberState
from kohort.client.subscription import OffsetAndMetadata
from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition
from kohort.wire.messages.offset_commit import OffsetCommitResponse


class CommitJudge:
    """Turns states and codes into the error a commit ends with, and lets the member learn from it."""

    def __init__(self, context: Context, discovery: Discovery) -> None:
        self._context = context
        self._discovery = discovery
        self._what = f"commit offsets of group {context.settings.group!r}"

    def refusal(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> KohortError | None:
        """Why this need not be sent. Between "rejoin needed" and JoinGroup a member is still STABLE."""
        for partition, committed in offsets.items():
            if committed.offset < 0:
                return KohortError(f"cannot commit offset {committed.offset} of {partition}: it is negative")
        state = self._context.member.state
        if not self._context.subscriptions.is_group_managed or state is MemberState.STABLE:
            return None
        group_id = self._context.settings.group
        return RebalanceInProgressError(group_id) if state.is_rebalancing else CommitFailedError(group_id)

    def judge(self, response: OffsetCommitResponse, sent: MemberGeneration) -> KohortError | None:
        """The first failing partition decides, but of topics one may not use all are named."""
        unauthorized: set[str] = set()
        for topic in response.topics:
            for row in topic.partitions:
                if not row.error_code:
                    continue
                reaction = reaction_to(Asked.OFFSET_COMMIT, row.error_code)
                if reaction.then is not Then.FAIL_TOPICS:
                    return self._react(reaction, row.error_code, sent)
                unauthorized.add(topic.name)
        return TopicAuthorizationFailedError(self._what, unauthorized) if unauthorized else None

    def _react(self, reaction: Reaction, code: int, sent: MemberGeneration) -> KohortError:
        context, member = self._context, self._context.member
        error = self._error(reaction, code, sent)
        if reaction.coordinator_unknown:
            self._discovery.mark_coordinator_unknown(str(error))
        if not context.subscriptions.is_group_managed:
            return error
        if reaction.rejoin:
            member.request_rejoin("an offset commit found the group rebalancing")
            context.wake_poll()
        # Kafka resets here even if a newer generation is stable; that one has nothing to do with this commit.
        if member.lose(reaction.loss, sent, f"an offset commit was refused: {BrokerError(code, 'commit')}"):
            context.wake_poll()
        return error

    def _error(self, reaction: Reaction, code: int, sent: MemberGeneration) -> KohortError:
        settings, member = self._context.settings, self._context.member
        has_changed = sent != member.generation
        match reaction.then:
            case Then.FAIL_REBALANCING:
                return RebalanceInProgressError(settings.group)
            case Then.FAIL_FENCED if not has_changed:
                return FencedInstanceIdError(settings.group, settings.group_instance_id)
            case Then.FAIL_EXPELLED | Then.FAIL_FENCED:
                if has_changed and member.state is MemberState.PREPARING_REBALANCE:
                    return RebalanceInProgressError(settings.group)
                return CommitFailedError(settings.group)
            case _:
                error = BrokerError(code, self._what)
                error.retriable = reaction.then is Then.RETRY
                error.hint = reaction.hint or error.hint
                return error
