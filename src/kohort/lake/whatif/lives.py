"""Lives of a group, made up: deploys, crashes, pauses, slow work, scaling. For tests and measured errors."""

import random

from kohort.lake.whatif.happenings import (
    ClientSettings,
    Crash,
    Grow,
    Happening,
    Recording,
    Seat,
    Silence,
    SlowPoll,
    Start,
    Stop,
)

_HOUR = 3_600_000
_MINUTE = 60_000
_PARTITIONS = 12


def make_life(seed: int, settings: ClientSettings, *, hours: int = 24, seats: int = 6) -> Recording:
    """Something happens about every hour; the same for the same seed."""
    life = _Life(random.Random(f"life {seed}"), seats)
    life.live(hours * _HOUR)
    happenings = sorted(life.happenings, key=lambda one: one.at)
    return Recording(
        group="billing",
        length_ms=hours * _HOUR,
        seats={name: Seat(name, name, "/10.0.0.1", ("orders",)) for name in life.names},
        topics={"orders": _PARTITIONS},
        running=tuple(life.names[:seats]),
        happenings=happenings,
        settings=settings,
        rebalances=0,
    )


class _Life:
    def __init__(self, dice: random.Random, seats: int) -> None:
        self._dice = dice
        self.names = [f"worker-{number}" for number in range(seats + 2)]
        self.happenings: list[Happening] = []
        self._partitions = _PARTITIONS
        self._running = set(self.names[:seats])
        self._busy_until = dict.fromkeys(self.names, 0)

    def live(self, length: int) -> None:
        acts = {self._deploy: 3, self._crash: 3, self._pause: 4, self._slow: 3, self._scale: 2, self._grow: 1}
        at = self._dice.randrange(20 * _MINUTE, 2 * _HOUR)
        while at < length - 30 * _MINUTE:
            idle = sorted(name for name in self._running if self._busy_until[name] <= at)
            if len(idle) > 1:
                self._dice.choices(list(acts), list(acts.values()))[0](at, idle)
            at += self._dice.randrange(20 * _MINUTE, 2 * _HOUR)

    def _note(self, name: str, until: int, *happenings: Happening) -> None:
        self.happenings += happenings
        self._busy_until[name] = until + 5 * _MINUTE

    def _deploy(self, at: int, idle: list[str]) -> None:
        """One process after the other."""
        for name in idle:
            end = at + self._dice.randrange(2_000, 12_000)
            self._note(name, end, Stop(at, name), Start(end, name))
            at = end + self._dice.randrange(10_000, 60_000)

    def _crash(self, at: int, idle: list[str]) -> None:
        name, end = self._dice.choice(idle), at + self._dice.randrange(3_000, 5 * _MINUTE)
        self._note(name, end, Crash(at, name), Start(end, name))

    def _pause(self, at: int, idle: list[str]) -> None:
        name, end = self._dice.choice(idle), at + self._dice.randrange(4_000, 60_000)
        self._note(name, end, Silence(at, name, end))

    def _slow(self, at: int, idle: list[str]) -> None:
        name, end = self._dice.choice(idle), at + self._dice.randrange(_MINUTE, 8 * _MINUTE)
        self._note(name, end, SlowPoll(at, name, end))

    def _scale(self, at: int, idle: list[str]) -> None:
        resting = sorted(set(self.names) - self._running)
        if resting and self._busy_until[resting[0]] <= at:
            self._running.add(resting[0])
            self._note(resting[0], at, Start(at, resting[0]))
        else:
            self._running.discard(idle[0])
            self._note(idle[0], at, Stop(at, idle[0]))

    def _grow(self, at: int, idle: list[str]) -> None:
        self._partitions += 2
        self.happenings.append(Grow(at, "orders", self._partitions))
