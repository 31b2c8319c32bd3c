"""What a shard is to the runtime that drives it: groups, transactions, or whatever is coordinated.

A shard is one partition of an internal topic in memory. The runtime hands it commands and time, appends
what it wants stored, and lets replies go; it knows nothing of what they mean.
"""

from typing import Protocol, TypeVar

from kohort.coordination.outcome import CommandOutcome
from kohort.coordination.positions import Reply
from kohort.model.errors import ErrorCode
from kohort.model.ids import Instant, Now
from kohort.primitives.buffers import Buffer
from kohort.records.header import BatchHeader

C = TypeVar("C", contravariant=True)
E = TypeVar("E")
R = TypeVar("R")


class CoordinatorShard(Protocol[C, E, R]):
    """The tenant of a partition runtime. Does no I/O, reads no clock, is never called twice at a time."""

    def handle(self, command: C, now: Now) -> CommandOutcome[E, R]:
        """Decide a command: change the state at once, say what is to be stored and who is answered."""
        ...

    def next_deadline(self) -> Instant | None:
        """When ``advance`` is to be called next; ``None`` if no timer runs."""
        ...

    def advance(self, now: Now) -> CommandOutcome[E, R]:
        """Fire the timers that are due."""
        ...

    def appended(self, position: int) -> list[Reply[R]]:
        """The log has stored everything up to ``position``: the replies that have waited for it."""
        ...

    def unload(self, now: Now, refused: ErrorCode | None) -> CommandOutcome[E, R]:
        """The shard goes, because its log has ``refused`` an append or because it moves: answer who waits."""
        ...

    def refuse(self, command: C, refused: ErrorCode) -> R:
        """The reply to a command that waits for a log that has ``refused`` an append."""
        ...

    def replay_batch(self, batch: Buffer, header: BatchHeader) -> None:
        """Take one batch of the log, in order. Raises a ``KohortError`` for contents that cannot be used."""
        ...

    def load_more(self, now: Now) -> CommandOutcome[E, R] | None:
        """Do a few milliseconds of what follows the last batch; ``None`` when all of it is done."""
        ...

    def finish_load(self, now: Now) -> CommandOutcome[E, R]:
        """Loading is over: timers start, commands may come."""
        ...

    @property
    def skipped(self) -> dict[str, int]:
        """What ``replay_batch`` did not understand and left alone, with how often."""
        ...
