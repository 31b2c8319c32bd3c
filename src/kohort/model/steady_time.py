"""The time that deletion goes by: wall time, but not at once where it jumps forward.

A wall clock that is set a day forward makes everything a day older in an instant. What retention then deletes
stays deleted, although the clock is set right a minute later. So a jump forward against the monotonic clock
counts only when it has lasted for ``PATIENCE_MS``; until then time passes as if it had not happened. A jump
back counts at once: it deletes less. A machine that was suspended looks like one whose clock was set.
"""

from typing import NamedTuple

from kohort.model.ids import Instant, Now, WallTime

TOLERANCE_MS = 60_000
"""How far the wall clock may run ahead between two looks: clocks are corrected in small steps."""

PATIENCE_MS = 86_400_000
"""How long a jump forward must last before deletion goes by it."""


class Jump(NamedTuple):
    """The wall clock went forward by ``ahead_ms`` and is not believed before ``believed_at``."""

    ahead_ms: int
    believed_at: Instant


class SteadyTime:
    """Reads both clocks and says which wall time deletion goes by. Two looks may be far apart."""

    def __init__(self) -> None:
        self.jump: Jump | None = None  # that is not believed yet
        self._started_at: int | None = None  # wall time at instant 0, as it is believed

    def at(self, now: Now) -> WallTime:
        """The wall time for deletion at this moment."""
        started_at = now.wall - now.instant
        if self._started_at is None:
            self._started_at = started_at
        ahead = started_at - self._started_at
        if ahead <= TOLERANCE_MS:
            self.jump = None
        elif self.jump is None or abs(self.jump.ahead_ms - ahead) > TOLERANCE_MS:
            self.jump = Jump(ahead, Instant(now.instant + PATIENCE_MS))
        elif now.instant >= self.jump.believed_at:
            self.jump = None
        if self.jump is None:
            self._started_at = started_at
        return WallTime(now.instant + self._started_at)
