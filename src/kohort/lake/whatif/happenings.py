"""What happens to the processes of a group, whatever its settings are; times in milliseconds."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias


class Seat(NamedTuple):
    """A place for a process: a process that is started again takes the seat it had before."""

    name: str
    client_id: str
    host: str
    topics: tuple[str, ...]
    instance_id: str | None = None


class Start(NamedTuple):
    """A process starts and joins the group."""

    at: int
    seat: str


class Stop(NamedTuple):
    """A process closes its consumer and ends."""

    at: int
    seat: str


class Crash(NamedTuple):
    """A process is gone without a word."""

    at: int
    seat: str


class Silence(NamedTuple):
    """A process, or its network, stands still: nothing is sent or received until ``until``."""

    at: int
    seat: str
    until: int


class SlowPoll(NamedTuple):
    """Heartbeats go on, but the process does not call ``poll()`` until ``until``."""

    at: int
    seat: str
    until: int


class Subscribe(NamedTuple):
    """A process subscribes to other topics."""

    at: int
    seat: str
    topics: tuple[str, ...]


class Grow(NamedTuple):
    """A topic has another number of partitions from here on."""

    at: int
    topic: str
    partitions: int


Happening: TypeAlias = Start | Stop | Crash | Silence | SlowPoll | Subscribe | Grow


class AmbiguousEvent(NamedTuple):
    """What was recorded can be read in two ways. Each seed takes one of them."""

    what: str
    one: tuple[Happening, ...]
    other: tuple[Happening, ...]


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What the clients of a group were set to, or what they might be set to."""

    assignor: str = "range"
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    initial_delay_ms: int = 3_000
    static: bool = False
    protocol: str = "classic"


@dataclass(frozen=True, slots=True)
class Recording:
    """The history of a group as far as the lake has it."""

    group: str
    length_ms: int
    seats: Mapping[str, Seat]
    topics: Mapping[str, int]  # partitions at the start
    running: tuple[str, ...]  # seats that are taken at the start
    happenings: Sequence[Happening | AmbiguousEvent]
    settings: ClientSettings
    rebalances: int  # that the lake has
    reactions_ms: tuple[int, ...] = field(default=())  # how long members took to join again
    has_journal: bool = True
    unknown_assignor: str | None = None  # the recorded one, which the settings have another one for


def certain(recording: Recording, dice: random.Random) -> list[Happening]:
    """The happenings in their order, each doubt read in one way."""
    return sorted(_read(recording.happenings, dice), key=lambda one: one.at)


def _read(happenings: Sequence[Happening | AmbiguousEvent], dice: random.Random) -> Iterator[Happening]:
    for one in happenings:
        if isinstance(one, AmbiguousEvent):
            yield from one.one if dice.random() < 0.5 else one.other
        else:
            yield one
