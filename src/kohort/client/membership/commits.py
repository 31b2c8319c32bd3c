"""Commits: of the application (sync and async), on the interval, before a rebalance, at the end.

Each is a ``PendingCommit``, which is sent when the coordinator is known, in the order of the calls. Commits
of a group's member carry its generation, and only a STABLE member has one.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from kohort.client.committed_offsets import (
    OFFSETS_BY_NAME,
    FetchedRow,
    fetched_code,
    fetched_rows,
    offset_commit_request,
    offset_fetch_request,
)
from kohort.client.errors import (
    BrokerError,
    CommitFailedError,
    CommitTimeoutError,
    FencedInstanceIdError,
    OffsetFetchTimeoutError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
    TopicAuthorizationFailedError,
)
from kohort.client.membership.commands import Commit, CommitDone, CommittedFetched, FetchCommitted
from kohort.client.membership.context import (
    CallStage,
    CommitPurpose,
    CommittedQuestion,
    MemberContext,
    PendingCall,
    PendingCommit,
)
from kohort.client.membership.discovery import Discovery
from kohort.client.membership.reactions import NextStep, Reaction, reaction_to, reaction_to_silence
from kohort.client.membership.state import MemberGeneration
from kohort.client.subscription import OffsetAndMetadata
from kohort.model.errors import KohortError
from kohort.model.ids import Instant
from kohort.model.topics import TopicPartition
from kohort.wire.apis import ApiKey
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchResponse,
)


def commit_request(
    context: MemberContext, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> OffsetCommitRequest:
    """The request: as a member, or with manual assignment from outside the membership."""
    request = offset_commit_request(context.settings.group, offsets)
    if context.subscriptions.is_group_managed:
        request.generation_id_or_member_epoch = context.member.generation.generation_id
        request.member_id = context.member.generation.member_id
        request.group_instance_id = context.settings.group_instance_id
    return request


Offsets = Mapping[TopicPartition, OffsetAndMetadata]


C = TypeVar("C", bound=PendingCall)


class CoordinatorCalls(ABC, Generic[C]):
    """Calls of one kind that are not over yet, in their order: sent, repeated and given up in one way."""

    api: ApiKey

    def __init__(self, context: MemberContext, discovery: Discovery) -> None:
        self._context = context
        self._discovery = discovery
        self._pending: list[C] = []

    @abstractmethod
    def _send(self, call: C) -> None:
        """Send it to the coordinator, which is known."""

    @abstractmethod
    def _finish(self, call: C, error: KohortError | None) -> None:
        """It is over; tell the one who waits."""

    @abstractmethod
    def _late(self, last: KohortError | None) -> KohortError:
        """What a call ends with that did not succeed in time."""

    def submit(self, call: C) -> None:
        """Send it as soon as the coordinator is known."""
        self._pending.append(call)
        self._send_or_wait(call)

    def _at(self, stage: CallStage) -> list[C]:
        return [each for each in self._pending if each.stage is stage]

    def tick(self) -> None:
        """Give up what is late, repeat what is due, look for the coordinator as long as a call waits."""
        now = self._context.now
        for call in list(self._pending):
            if call.deadline is not None and now >= call.deadline:
                late = self._late(call.error)
                late.__cause__ = call.error
                self._finish(call, late)
            elif call.stage is CallStage.BACKING_OFF and now >= call.retry_at:
                self._send_or_wait(call)
        if self._at(CallStage.WAITING):
            self._discovery.lookup_coordinator()

    def next_deadline(self) -> Instant | None:
        times = [each.deadline for each in self._pending if each.deadline is not None]
        times += [each.retry_at for each in self._at(CallStage.BACKING_OFF)]
        if self._at(CallStage.WAITING) and not self._discovery.is_looking:
            times.append(self._discovery.not_before)
        return min(times, default=None)

    def _send_or_wait(self, call: C) -> None:
        if self._discovery.coordinator_unknown:
            call.stage = CallStage.WAITING
            self._discovery.lookup_coordinator()
        else:
            self._send(call)

    def send_waiting(self) -> None:
        for call in self._at(CallStage.WAITING):
            self._send_or_wait(call)

    def lookup_failed(self, error: KohortError) -> None:
        for call in self._at(CallStage.WAITING):
            call.error = error
            if call.deadline is None or not error.retriable:
                self._finish(call, error)

    def unanswered(self, call: C, error: KohortError) -> None:
        if error.retriable and reaction_to_silence(self.api).coordinator_unknown:
            self._discovery.mark_coordinator_unknown(str(error))
        self._settle(call, error)

    def _settle(self, call: C, error: KohortError | None) -> None:
        if call.is_done:
            return  # it was late, and was reported as that
        if error is None or not error.retriable or call.deadline is None:
            self._finish(call, error)
            return
        call.error = error
        call.stage = CallStage.BACKING_OFF
        call.retry_at = self._context.after_backoff(call.failures)
        call.failures += 1


class Commits(CoordinatorCalls[PendingCommit]):
    """All commits of one consumer that are not over yet, in the order of the calls."""

    api = ApiKey.OFFSET_COMMIT

    def __init__(self, context: MemberContext, discovery: Discovery) -> None:
        super().__init__(context, discovery)
        self._what = f"commit offsets of group {context.settings.group!r}"
        self.async_commit_fenced = False

    # --- of the application -------------------------------------------------------------------

    def commit(self, command: Commit) -> None:
        """``commit_sync`` and ``commit_async``."""
        assignment = self._context.subscriptions.assignment
        offsets = assignment.committable() if command.offsets is None else dict(command.offsets)
        purpose = CommitPurpose.ASYNC if command.deadline is None else CommitPurpose.SYNC
        commit = PendingCommit(offsets, command.deadline, purpose, command.commit_id)
        if self.async_commit_fenced:
            self._finish(commit, self.fenced())
        elif offsets:
            self.submit(commit)
        else:
            self._await_earlier(commit)

    def fenced(self) -> FencedInstanceIdError:
        settings = self._context.settings
        return FencedInstanceIdError(settings.group, settings.group_instance_id)

    def tell(self, commit: PendingCommit) -> None:
        """Tell the application how its commit ended."""
        assert commit.commit_id is not None
        error = commit.error
        if commit.purpose is CommitPurpose.ASYNC and error is not None and error.retriable:
            wrapped = RetriableCommitFailedError(self._context.settings.group)
            wrapped.__cause__ = error
            error = wrapped
        self._context.emit(CommitDone(commit.commit_id, commit.offsets, error))

    def _await_earlier(self, commit: PendingCommit) -> None:
        """Nothing to commit: a sync commit is over when all asynchronous ones before it are."""
        earlier = self.asynchronous()
        if commit.deadline is None or not earlier:
            self._finish(commit, None)
        else:
            self._pending.append(commit)
            commit.stage, commit.after = CallStage.IN_FLIGHT, earlier

    # --- any commit ---------------------------------------------------------------------------

    def asynchronous(self) -> tuple[PendingCommit, ...]:
        """The commits under way that no call waits for."""
        return tuple(each for each in self._pending if each.deadline is None)

    def expelled(self) -> None:
        """The member was fenced: what it could not commit so far may be others' by now."""
        for commit in self._at(CallStage.BACKING_OFF):
            self._finish(commit, CommitFailedError(self._context.settings.group))

    def abandon_all(self) -> None:
        """The consumer is closed: nothing is sent any more, and no commit is reported."""
        self._pending.clear()

    def _late(self, last: KohortError | None) -> KohortError:
        return CommitTimeoutError(self._context.settings.group, last)

    def _send(self, commit: PendingCommit) -> None:
        refusal = self._refusal(commit.offsets)
        if refusal is not None:
            self._finish(commit, refusal)
            return
        commit.stage = CallStage.IN_FLIGHT
        self._context.send(commit_request(self._context, commit.offsets), commit, highest=OFFSETS_BY_NAME)

    def replied(self, commit: PendingCommit, sent: MemberGeneration, response: OffsetCommitResponse) -> None:
        self._discovery.coordinator_answered()
        self._settle(commit, self._judged(response, sent))

    def _finish(self, commit: PendingCommit, error: KohortError | None) -> None:
        commit.stage, commit.error = CallStage.DONE, error
        if commit in self._pending:
            self._pending.remove(commit)
        if commit.deadline is None and isinstance(error, FencedInstanceIdError):
            self.async_commit_fenced = True
        self._context.dispatcher.commit_done(commit)
        for later in [each for each in self._pending if each.after]:
            if not later.is_done and all(each.is_done for each in later.after):
                self._finish(later, None)

    # --- how it ends, and what the member learns from it ---------------------------------------

    def _refusal(self, offsets: Offsets) -> KohortError | None:
        """Why this need not be sent."""
        for partition, committed in offsets.items():
            if committed.offset < 0:
                return KohortError(f"cannot commit offset {committed.offset} of {partition}: it is negative")
        if not self._context.subscriptions.is_group_managed:
            return None
        return self._context.member.commit_refusal(self._context.settings.group)

    def _judged(self, response: OffsetCommitResponse, sent: MemberGeneration) -> KohortError | None:
        """The first failing partition decides, but of topics one may not use all are named."""
        unauthorized: set[str] = set()
        for topic in response.topics:
            for row in topic.partitions:
                if not row.error_code:
                    continue
                reaction = reaction_to(ApiKey.OFFSET_COMMIT, row.error_code)
                if reaction.then is not NextStep.FAIL_TOPICS:
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
            case NextStep.FAIL_REBALANCING:
                return RebalanceInProgressError(settings.group)
            case NextStep.FAIL_FENCED if not has_changed:
                return FencedInstanceIdError(settings.group, settings.group_instance_id)
            case NextStep.FAIL_EXPELLED | NextStep.FAIL_FENCED:
                if has_changed and member.is_preparing_rebalance:
                    return RebalanceInProgressError(settings.group)
                return CommitFailedError(settings.group)
            case NextStep.FAIL_STALE if member.generation.is_unknown_to_the_group:
                return CommitFailedError(settings.group)
            case _:
                error = BrokerError(code, self._what)
                error.retriable = reaction.then in (NextStep.RETRY, NextStep.FAIL_STALE)
                error.hint = reaction.hint or error.hint
                return error


class RebalanceCommit:
    """The commit before partitions go: repeated with newer positions until it is settled or time is up."""

    __slots__ = ("attempt", "deadline", "not_before")

    def __init__(self, now: Instant, deadline: Instant) -> None:
        self.attempt: PendingCommit | None = None
        self.not_before = now
        self.deadline = deadline


class AutoCommits:
    """enable.auto.commit, in all its places. Does nothing when that is off."""

    def __init__(self, context: MemberContext, commits: Commits) -> None:
        self._context = context
        self._commits = commits
        self._next = context.after(context.settings.auto_commit_interval_ms)

    @property
    def is_enabled(self) -> bool:
        return self._context.settings.auto_commits

    def next_commit(self) -> Instant | None:
        """When poll has something to commit again."""
        return self._next if self.is_enabled and self._context.subscriptions.assignment else None

    def restart_interval(self) -> None:
        self._next = self._context.after(self._context.settings.auto_commit_interval_ms)

    def maybe_auto_commit_offsets_async(self) -> None:
        """Commit all positions if the interval is over. Unchanged ones too: that keeps them from expiring."""
        if not self.is_enabled or self._context.now < self._next:
            return
        self.restart_interval()
        if offsets := self._positions(self._context.subscriptions.assignment):
            self._commits.submit(PendingCommit(offsets, None, CommitPurpose.INTERVAL))

    def commit_before_rebalance(self, commit: RebalanceCommit, partitions: Iterable[TopicPartition]) -> bool:
        """Drive the commit that precedes a revocation; whether it is settled, one way or another."""
        if not self.is_enabled or self._context.now >= commit.deadline:
            return True
        if commit.attempt is None:
            if self._context.now < commit.not_before:
                return False
            offsets = self._positions(partitions)
            if not offsets:
                return True
            commit.attempt = PendingCommit(offsets, None, CommitPurpose.REBALANCE)
            self._commits.submit(commit.attempt)
        if not commit.attempt.is_done:
            return False
        if commit.attempt.may_be_repeated:
            commit.attempt = None
            commit.not_before = self._context.after(self._context.settings.retry_backoff_ms)
            return False
        return True

    def commit_on_close(self, deadline: Instant) -> PendingCommit | None:
        """The last commit; what goes wrong with it is only noted."""
        offsets = self._positions(self._context.subscriptions.assignment)
        if not self.is_enabled or not offsets or self._context.now >= deadline:
            return None
        commit = PendingCommit(offsets, deadline, CommitPurpose.CLOSE)
        self._commits.submit(commit)
        return commit

    def _positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        committable = self._context.subscriptions.assignment.committable()
        return {each: committable[each] for each in partitions if each in committable}

    def done(self, commit: PendingCommit) -> None:
        """One of these commits is over; what went wrong is only noted."""
        if commit.purpose is CommitPurpose.INTERVAL and commit.may_be_repeated:
            self._next = min(self._next, self._context.after(self._context.settings.retry_backoff_ms))
            self._context.wake_poll()
        elif commit.purpose is CommitPurpose.REBALANCE:
            self._context.wake_poll()
        if commit.error is not None:
            self._context.note(f"auto-commit failed: {commit.error}", is_warning=True)


class CommittedOffsets(CoordinatorCalls[CommittedQuestion]):
    """What the group has committed: OffsetFetch. The questions that are not answered yet."""

    api = ApiKey.OFFSET_FETCH

    def fetch(self, command: FetchCommitted) -> None:
        self.submit(CommittedQuestion(command))

    def _late(self, last: KohortError | None) -> KohortError:
        return OffsetFetchTimeoutError(self._context.settings.group, last)

    def _send(self, question: CommittedQuestion) -> None:
        question.stage = CallStage.IN_FLIGHT
        partitions = sorted(question.command.partitions)
        request = offset_fetch_request(self._context.settings.group, partitions, require_stable=True)
        member = self._context.member
        if self._context.subscriptions.is_group_managed and (epoch := member.known_epoch) is not None:
            (group,) = request.groups
            group.member_id, group.member_epoch = member.generation.member_id, epoch
        self._context.send(request, question, highest=OFFSETS_BY_NAME)

    def replied(self, question: CommittedQuestion, fetched: OffsetFetchResponse) -> None:
        self._discovery.coordinator_answered()
        rows = dict(fetched_rows(fetched))
        code = fetched_code(fetched) or next((row.error_code for row in rows.values() if row.error_code), 0)
        if not code:
            question.offsets = {each: _offset(rows.get(each)) for each in question.command.partitions}
        self._settle(question, self._error(code, rows) if code else None)

    def _error(self, code: int, rows: Mapping[TopicPartition, FetchedRow]) -> KohortError:
        what = f"fetch committed offsets of group {self._context.settings.group!r}"
        reaction = reaction_to(ApiKey.OFFSET_FETCH, code)
        error = BrokerError(code, what)
        if reaction.coordinator_unknown:
            self._discovery.mark_coordinator_unknown(str(error))
        if reaction.beat_now:
            self._context.dispatcher.beat_now()
        if reaction.then is NextStep.FAIL_TOPICS:
            topics = {each.topic for each, row in rows.items() if row.error_code == code}
            return TopicAuthorizationFailedError(what, topics)
        is_stale = reaction.then is NextStep.FAIL_STALE and self._context.member.known_epoch is not None
        error.retriable = reaction.then is NextStep.RETRY or is_stale
        error.hint = reaction.hint or error.hint
        return error

    def _finish(self, question: CommittedQuestion, error: KohortError | None) -> None:
        question.stage = CallStage.DONE
        if question in self._pending:
            self._pending.remove(question)
            offsets = question.offsets if error is None else {}
            self._context.emit(CommittedFetched(question.command.fetch_id, offsets, error))


def _offset(row: FetchedRow | None) -> OffsetAndMetadata | None:
    if row is None or row.committed_offset < 0:
        return None
    return OffsetAndMetadata(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
