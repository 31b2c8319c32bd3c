"""Commits: of the application (sync and async), on the interval, before a rebalance, at the end.

Whoever commits gets a ``PendingCommit``; it is sent when the coordinator is known, in the order of the calls.
Commits of a group's member carry its generation, and only a STABLE member has one.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import cast

from kohort.client.membership.commands import Commit, CommitId
from kohort.client.membership.commit_errors import CommitJudge
from kohort.client.membership.commit_request import commit_request
from kohort.client.membership.context import Context, Pending, Terms
from kohort.client.membership.discovery import Discovery
from kohort.client.membership.effects import CommitDone, Destination
from kohort.client.membership.errors import (
    CommitTimeoutError,
    FencedInstanceIdError,
    RetriableCommitFailedError,
)
from kohort.client.membership.reactions import Asked, reaction_to_silence
from kohort.client.membership.state import MemberGeneration
from kohort.client.subscription import OffsetAndMetadata
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.model.ids import Instant
from kohort.model.topics import TopicPartition
from kohort.wire.messages.offset_commit import OffsetCommitResponse

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
BY_NAME = 9  # the last version that names topics; a member knows no topic ids


class Stage(Enum):
    """How far a commit is."""

    WAITING = "for the coordinator to be found"
    IN_FLIGHT = "sent"
    BACKING_OFF = "failed, to be sent again"
    DONE = "over"


class PendingCommit:
    """One commit. With a deadline it is retried until then, otherwise it has one attempt."""

    __slots__ = ("deadline", "error", "failures", "offsets", "on_done", "retry_at", "stage")

    def __init__(
        self, offsets: Offsets, deadline: Instant | None, on_done: Callable[["PendingCommit"], None]
    ) -> None:
        self.offsets = offsets
        self.deadline = deadline
        self.on_done = on_done
        self.stage = Stage.WAITING
        self.error: KohortError | None = None  # of the last attempt; of the commit when it is done
        self.failures = 0
        self.retry_at = Instant(0)

    @property
    def is_done(self) -> bool:
        return self.stage is Stage.DONE

    @property
    def may_be_repeated(self) -> bool:
        return self.error is not None and self.error.retriable


class Commits:
    """All commits of one consumer that are not over yet, in the order of the calls."""

    def __init__(self, context: Context, discovery: Discovery) -> None:
        self._context = context
        self._discovery = discovery
        self._judge = CommitJudge(context, discovery)
        self._pending: list[PendingCommit] = []
        # Each commit_sync({}) with what it waits for.
        self._barriers: list[tuple[PendingCommit, list[PendingCommit]]] = []
        self.async_commit_fenced = False
        discovery.on_found.append(self._send_waiting)
        discovery.on_lookup_failed.append(self._lookup_failed)

    # --- of the application -------------------------------------------------------------------

    def commit(self, command: Commit) -> None:
        """``commit_sync`` and ``commit_async``."""
        assignment = self._context.subscriptions.assignment
        offsets = assignment.committable() if command.offsets is None else dict(command.offsets)
        is_async = command.deadline is None
        commit = PendingCommit(offsets, command.deadline, partial(self._tell, command.commit_id, is_async))
        if self.async_commit_fenced:
            self._finish(commit, self.fenced())
        elif offsets:
            self.submit(commit)
        else:
            self._await_earlier(commit)

    def fenced(self) -> FencedInstanceIdError:
        settings = self._context.settings
        return FencedInstanceIdError(settings.group, settings.group_instance_id)

    def _tell(self, commit_id: CommitId, is_async: bool, commit: PendingCommit) -> None:
        error = commit.error
        if is_async and error is not None and error.retriable:
            wrapped = RetriableCommitFailedError(self._context.settings.group)
            wrapped.__cause__ = error
            error = wrapped
        self._context.emit(CommitDone(commit_id, commit.offsets, error))

    def _await_earlier(self, commit: PendingCommit) -> None:
        """Nothing to commit: a sync commit is over when all asynchronous ones before it are."""
        earlier = [each for each in self._pending if each.deadline is None]
        if commit.deadline is None or not earlier:
            self._finish(commit, None)
        else:
            self._pending.append(commit)
            commit.stage = Stage.IN_FLIGHT
            self._barriers.append((commit, earlier))

    # --- any commit ---------------------------------------------------------------------------

    def submit(self, commit: PendingCommit) -> None:
        """Send it as soon as the coordinator is known."""
        self._pending.append(commit)
        self._send_or_wait(commit)

    @property
    def is_waiting_for_coordinator(self) -> bool:
        return any(each.stage is Stage.WAITING for each in self._pending)

    def has_asynchronous(self) -> bool:
        """Whether commits that nobody waits for are under way."""
        return any(each.deadline is None for each in self._pending)

    def abandon_all(self) -> None:
        """The consumer is closed: nothing is sent any more, and nobody is told."""
        self._pending.clear()
        self._barriers.clear()

    def tick(self) -> None:
        """Give up what is late, repeat what is due, look for the coordinator as long as somebody waits."""
        now = self._context.now
        for commit in list(self._pending):
            if commit.deadline is not None and now >= commit.deadline:
                late = CommitTimeoutError(self._context.settings.group, commit.error)
                late.__cause__ = commit.error
                self._finish(commit, late)
            elif commit.stage is Stage.BACKING_OFF and now >= commit.retry_at:
                self._send_or_wait(commit)
        if self.is_waiting_for_coordinator:
            self._discovery.lookup_coordinator()

    def next_deadline(self) -> Instant | None:
        times = [each.deadline for each in self._pending if each.deadline is not None]
        times += [each.retry_at for each in self._pending if each.stage is Stage.BACKING_OFF]
        if self.is_waiting_for_coordinator and not self._discovery.is_looking:
            times.append(self._discovery.not_before)
        return min(times, default=None)

    def _send_or_wait(self, commit: PendingCommit) -> None:
        if self._discovery.coordinator_unknown:
            commit.stage = Stage.WAITING
            self._discovery.lookup_coordinator()
            return
        sent = self._context.member.generation
        refusal = self._judge.refusal(commit.offsets)
        if refusal is not None:
            self._finish(commit, refusal)
            return
        commit.stage = Stage.IN_FLIGHT
        pending = Pending(
            Destination.COORDINATOR,
            partial(self._answered, commit, sent),
            partial(self._unanswered, commit),
        )
        self._context.send(commit_request(self._context, commit.offsets), pending, Terms(highest=BY_NAME))

    def _send_waiting(self) -> None:
        for commit in [each for each in self._pending if each.stage is Stage.WAITING]:
            self._send_or_wait(commit)

    def _lookup_failed(self, error: KohortError) -> None:
        for commit in [each for each in self._pending if each.stage is Stage.WAITING]:
            commit.error = error
            if commit.deadline is None or not error.retriable:
                self._finish(commit, error)

    def _answered(self, commit: PendingCommit, sent: MemberGeneration, response: Message) -> None:
        self._discovery.coordinator_answered()
        self._settle(commit, self._judge.judge(cast(OffsetCommitResponse, response), sent))

    def _unanswered(self, commit: PendingCommit, error: KohortError) -> None:
        if error.retriable and reaction_to_silence(Asked.OFFSET_COMMIT).coordinator_unknown:
            self._discovery.mark_coordinator_unknown(str(error))
        self._settle(commit, error)

    def _settle(self, commit: PendingCommit, error: KohortError | None) -> None:
        if commit.is_done:
            return  # it was late, and somebody has been told so
        if error is None or not error.retriable or commit.deadline is None:
            self._finish(commit, error)
            return
        commit.error = error
        commit.stage = Stage.BACKING_OFF
        commit.retry_at = self._context.after_backoff(commit.failures)
        commit.failures += 1

    def _finish(self, commit: PendingCommit, error: KohortError | None) -> None:
        commit.stage, commit.error = Stage.DONE, error
        if commit in self._pending:
            self._pending.remove(commit)
        if commit.deadline is None and isinstance(error, FencedInstanceIdError):
            self.async_commit_fenced = True
        commit.on_done(commit)
        for barrier, awaited in list(self._barriers):
            if barrier.is_done:
                self._barriers.remove((barrier, awaited))
            elif all(each.is_done for each in awaited):
                self._finish(barrier, None)
