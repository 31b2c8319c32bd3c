"""Histories of a group with known causes, made by our own coordinator on virtual time.

Members join, leave, crash, restart and change their subscription, one at a time. What the coordinator stores
and journals is kept, and so is what really happened: ``score`` compares causes that were found with it.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from struct import pack
from typing import Any, Final, NamedTuple

from kohort.groups.events import Event
from kohort.lake.rebalances import (
    FIRST,
    JOINED,
    LEFT,
    RESTARTED,
    SUBSCRIPTION,
    inferred_rebalances,
)
from kohort.lake.record_rows import RawRecord, row_of
from kohort.lake.snapshots import snapshots
from kohort.records.record import Record
from kohort.sim.driver import Scenario

_TOPIC: Final = "orders"
_PARTITIONS: Final = 12
_SESSION_MS: Final = 10_000
_BEAT_MS: Final = 3_000
_GROUP: Final = "billing"


class Truth(NamedTuple):
    """A rebalance that happened: its generation, the cause to be inferred, and the cause in the journal."""

    generation: int
    cause: str
    journaled: str


class History(NamedTuple):
    """What the coordinator stored, what it said, and what really happened."""

    records: Sequence[Record]
    events: Sequence[Event]
    truth: Sequence[Truth]

    def rows(self) -> list[dict[str, Any]]:
        """The records as rows of the lake; times in milliseconds."""
        return [
            {"src_partition": 0, "problem": None, "member_id": None, "details": None}
            | row_of(RawRecord(one.offset, one.timestamp, one.key, one.value))
            for one in self.records
        ]


def make_history(seed: int, steps: int) -> History:
    """A history with this number of happenings; the same for the same seed."""
    return _Maker(random.Random(seed)).make(steps)


def score(found: Iterable[Mapping[str, Any]], truth: Sequence[Truth]) -> tuple[int, int]:
    """How many of the real causes were found, and how many there are."""
    by_generation = {one["gen_to"]: one["trigger"] for one in found}
    return sum(by_generation.get(one.generation) == one.cause for one in truth), len(truth)


def inferred(history: History) -> list[dict[str, Any]]:
    """The rebalances as they are inferred from what is stored alone."""
    stored = snapshots(sorted(history.rows(), key=lambda row: row["src_offset"]), {})
    return list(inferred_rebalances(list(stored)))


class _Maker:
    """Drives a scenario: one happening after the other, each until the group is stable again."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._scenario = Scenario(group=_GROUP)
        self._here: list[str] = []
        self._made = 0
        self._truth: list[Truth] = []
        self._wide: set[str] = set()  # members that subscribe to a second topic

    def make(self, steps: int) -> History:
        self._join(FIRST)
        for _ in range(steps):
            self._happen()
        return History(tuple(self._scenario.log), tuple(self._scenario.events), tuple(self._truth))

    def _happen(self) -> None:
        acts = Counter({"join": 3, "leave": 2, "crash": 2, "restart": 3, "subscribe": 1})
        if len(self._here) < 2:
            acts = Counter({"join": 1})
        elif len(self._here) >= _PARTITIONS:
            del acts["join"]
        act = self._dice.choices(list(acts), list(acts.values()))[0]
        name = self._dice.choice(self._here) if self._here else ""
        self._live(self._dice.randrange(60_000, 3_600_000))
        match act:
            case "join":
                self._join(JOINED)
            case "leave":
                self._gone(name)
                self._scenario.leave(name)
                self._settle(LEFT, "MemberLeft")
            case "crash":
                self._gone(name)
                self._live(_SESSION_MS + _BEAT_MS)
                self._settle(LEFT, "SessionExpired")
            case "restart":
                # It leaves and is back before the others have joined again: one rebalance.
                self._scenario.leave(name)
                self._scenario.join(name, member_id="", client_id=name)
                self._settle(RESTARTED, "MemberLeft")
            case _:
                self._wide ^= {name}
                topics = (_TOPIC, "returns") if name in self._wide else (_TOPIC,)
                self._scenario.join(name, topics=topics)
                self._settle(SUBSCRIPTION, "MemberRejoined")

    def _join(self, cause: str) -> None:
        self._made += 1
        name = f"worker-{self._made}"
        self._here.append(name)
        self._scenario.join(name, session_timeout=_SESSION_MS, topics=(_TOPIC,), client_id=name)
        self._settle(cause, "MemberArrived")

    def _gone(self, name: str) -> None:
        self._here.remove(name)
        self._wide.discard(name)

    def _live(self, millis: int) -> None:
        """Time passes, and everybody who is there sends heartbeats."""
        until = self._scenario.now + millis
        # Sessions need a beat now and then, not each one: months of history should take seconds.
        while self._scenario.now < until:
            self._scenario.sleep(min(_BEAT_MS, until - self._scenario.now))
            for name in self._here:
                self._scenario.heartbeat(name)

    def _settle(self, cause: str, journaled: str) -> None:
        """The others join again when they hear of the rebalance, then everybody syncs."""
        scenario = self._scenario
        for name in self._here:
            scenario.join(name)
        for _ in range(100):
            if scenario.group.phase.value == "CompletingRebalance":
                break
            scenario.sleep(1_000)
        names = [scenario.name_of(member_id) for member_id in scenario.group.members]
        names.sort(key=lambda name: scenario.id_of(name) != scenario.group.leader)
        plan = _assign(sorted(names))
        for name in names:
            scenario.sync(name, plan if scenario.id_of(name) == scenario.group.leader else {})
        self._truth.append(Truth(scenario.group.generation, cause, journaled))


def _assign(names: Sequence[str]) -> dict[str, bytes]:
    """Partitions dealt in turn, as a consumer's assignment of version 0."""
    plan = {}
    for place, name in enumerate(names):
        mine = list(range(place, _PARTITIONS, len(names)))
        topic = _TOPIC.encode()
        body = pack(">h", len(topic)) + topic + pack(f">i{len(mine)}i", len(mine), *mine)
        plan[name] = pack(">hi", 0, 1) + body + pack(">i", -1)
    return plan
