"""What the group has committed: OffsetFetch, repeated until its deadline."""

from collections.abc import Mapping

from kohort.client.committed_offsets import (
    OFFSETS_BY_NAME,
    FetchedRow,
    fetched_code,
    fetched_rows,
    offset_fetch_request,
)
from kohort.client.errors import BrokerError
from kohort.client.membership.commands import FetchCommitted
from kohort.client.membership.context import CommittedQuestion, MemberContext
from kohort.client.membership.discovery import Discovery
from kohort.client.membership.effects import CommittedFetched
from kohort.client.membership.errors import OffsetFetchTimeoutError, TopicAuthorizationFailedError
from kohort.client.membership.reactions import Then, reaction_to, reaction_to_silence
from kohort.client.subscription import OffsetAndMetadata
from kohort.model.errors import KohortError
from kohort.model.ids import Instant
from kohort.model.topics import TopicPartition
from kohort.wire.apis import ApiKey
from kohort.wire.messages.offset_fetch import (
    OffsetFetchResponse,
)


class CommittedOffsets:
    """The questions that are not answered yet."""

    def __init__(self, context: MemberContext, discovery: Discovery) -> None:
        self._context = context
        self._discovery = discovery
        self._questions: list[CommittedQuestion] = []

    def fetch(self, command: FetchCommitted) -> None:
        self._questions.append(CommittedQuestion(command, self._context.now))
        self.tick()

    def tick(self) -> None:
        """Give up what is late, send what is due, look for the coordinator as long as a call waits."""
        for question in list(self._questions):
            if self._context.now >= question.command.deadline:
                late = OffsetFetchTimeoutError(self._context.settings.group, question.error)
                late.__cause__ = question.error
                self._finish(question, {}, late)
            elif not question.is_in_flight and self._context.now >= question.retry_at:
                self._send_or_look_up(question)

    def next_deadline(self) -> Instant | None:
        times = [each.command.deadline for each in self._questions]
        for each in self._questions:
            if not each.is_in_flight and not self._discovery.coordinator_unknown:
                times.append(each.retry_at)
            elif not each.is_in_flight and not self._discovery.is_looking:
                times.append(max(each.retry_at, self._discovery.not_before))
        return min(times, default=None)

    def _send_or_look_up(self, question: CommittedQuestion) -> None:
        if self._discovery.coordinator_unknown:
            self._discovery.lookup_coordinator()
            return
        question.is_in_flight = True
        partitions = sorted(question.command.partitions)
        request = offset_fetch_request(self._context.settings.group, partitions, require_stable=True)
        self._context.send(request, question, highest=OFFSETS_BY_NAME)

    def lookup_failed(self, error: KohortError) -> None:
        for question in [each for each in self._questions if not each.is_in_flight]:
            question.error = error
            if not error.retriable:
                self._finish(question, {}, error)

    def unanswered(self, question: CommittedQuestion, error: KohortError) -> None:
        if not error.retriable:
            self._finish(question, {}, error)
            return
        if reaction_to_silence(ApiKey.OFFSET_FETCH).coordinator_unknown:
            self._discovery.mark_coordinator_unknown(str(error))
        self._try_later(question, error)

    def replied(self, question: CommittedQuestion, fetched: OffsetFetchResponse) -> None:
        self._discovery.coordinator_answered()
        if code := fetched_code(fetched):
            self._failed(question, code)
            return
        rows = dict(fetched_rows(fetched))
        failed = [each.error_code for each in rows.values() if each.error_code]
        if failed:
            self._failed(question, failed[0], rows)
        else:
            offsets = {each: _offset(rows.get(each)) for each in question.command.partitions}
            self._finish(question, offsets, None)

    def _failed(
        self, question: CommittedQuestion, code: int, rows: Mapping[TopicPartition, FetchedRow] | None = None
    ) -> None:
        what = f"fetch committed offsets of group {self._context.settings.group!r}"
        reaction = reaction_to(ApiKey.OFFSET_FETCH, code)
        error = BrokerError(code, what)
        if reaction.coordinator_unknown:
            self._discovery.mark_coordinator_unknown(str(error))
        if reaction.then is Then.RETRY:
            self._try_later(question, error)
        elif reaction.then is Then.FAIL_TOPICS:
            topics = {each.topic for each, row in (rows or {}).items() if row.error_code == code}
            self._finish(question, {}, TopicAuthorizationFailedError(what, topics))
        else:
            error.retriable, error.hint = False, reaction.hint or error.hint
            self._finish(question, {}, error)

    def _try_later(self, question: CommittedQuestion, error: KohortError) -> None:
        question.error, question.is_in_flight = error, False
        question.retry_at = self._context.after_backoff(question.failures)
        question.failures += 1

    def _finish(
        self,
        question: CommittedQuestion,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | None],
        error: KohortError | None,
    ) -> None:
        if question in self._questions:
            self._questions.remove(question)
            self._context.emit(CommittedFetched(question.command.fetch_id, offsets, error))


def _offset(row: FetchedRow | None) -> OffsetAndMetadata | None:
    if row is None or row.committed_offset < 0:
        return None
    return OffsetAndMetadata(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
