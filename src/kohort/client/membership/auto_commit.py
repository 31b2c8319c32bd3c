"""Commits nobody asked for by name: on the interval, before a rebalance takes partitions away, at the end.

They say what has been handed out by polls before this one, so nothing counts as read before the application
came back for more.
"""

from collections.abc import Iterable

from kohort.client.membership.commits import Commits
from kohort.client.membership.context import CommitPurpose, Context, PendingCommit
from kohort.client.subscription import OffsetAndMetadata
from kohort.model.ids import Instant
from kohort.model.topics import TopicPartition


class RebalanceCommit:
    """The commit before partitions go: repeated with newer positions until it is settled or time is up."""

    __slots__ = ("attempt", "deadline", "not_before")

    def __init__(self, now: Instant, deadline: Instant) -> None:
        self.attempt: PendingCommit | None = None
        self.not_before = now
        self.deadline = deadline


class AutoCommits:
    """enable.auto.commit, in all its places. Does nothing when that is off."""

    def __init__(self, context: Context, commits: Commits) -> None:
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
