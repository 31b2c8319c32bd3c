"""Time that passes only when a test moves it."""

from kohort.model.ids import Instant, Now, WallTime

EPOCH = WallTime(1_700_000_000_000)  # what the wall shows when a simulation starts


class SimulatedClock:
    """Milliseconds since the start of a simulation, and what the wall shows then."""

    __slots__ = ("ahead_ms", "instant")

    def __init__(self) -> None:
        self.instant = Instant(0)
        self.ahead_ms = 0  # of the wall; another node has another clock

    @property
    def now(self) -> Now:
        """The time in both of its forms."""
        return Now(self.instant, WallTime(EPOCH + self.ahead_ms + self.instant))

    def move_to(self, instant: Instant) -> None:
        """Let time pass until ``instant``; never backwards."""
        assert instant >= self.instant, "time does not run backwards"
        self.instant = instant


class StandingWall(SimulatedClock):
    """What is stored does not tell states apart by the time of day."""

    __slots__ = ()

    @property
    def now(self) -> Now:
        return Now(self.instant, EPOCH)
