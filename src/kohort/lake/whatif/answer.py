"""What came out of the runs of a what-if, in numbers and in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, NamedTuple

from kohort.lake.whatif.happenings import AmbiguousEvent, Recording
from kohort.lake.whatif.replay import Result
from kohort.lake.whatif.settings import Variant

_MEASURES: Final = ("rebalances", "unowned_ms", "dead_ms", "longest_ms", "moved")
_TRUSTED: Final = 0.2  # how far the replay of the recorded settings may be off before the answer says so
_SMALL_MS: Final = 1_000


class Spread(NamedTuple):
    """The median of the runs, and the smallest and the largest."""

    middle: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class VariantResult:
    """What one variant came to over all seeds."""

    label: str
    rebalances: Spread
    unowned_ms: Spread
    dead_ms: Spread
    longest_ms: Spread
    moved: Spread
    saved: Spread  # the part of the recorded settings' unowned time that is gone, by seed
    started: tuple[int, ...]  # when rebalances began, of the first seed


@dataclass(frozen=True, slots=True)
class Answer:
    """A what-if, answered. The first outcome is the replay of the recorded settings."""

    group: str
    recorded_rebalances: int
    length_ms: int
    seeds: int
    outcomes: tuple[VariantResult, ...]
    words: tuple[str, ...]
    assumptions: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "recorded_rebalances": self.recorded_rebalances,
            "length_ms": self.length_ms,
            "seeds": self.seeds,
            "words": list(self.words),
            "assumptions": list(self.assumptions),
            "outcomes": [
                {"settings": one.label}
                | {name: getattr(one, name)._asdict() for name in (*_MEASURES, "saved")}
                for one in self.outcomes
            ],
        }


def conclude(
    recording: Recording, tried: Sequence[Variant], results: Mapping[tuple[int, int], Result], seeds: int
) -> Answer:
    """The answer, from the results by the place of their variant and their seed."""
    outcomes = tuple(_outcome(place, each.label, results, seeds) for place, each in enumerate(tried))
    words = [_check(recording, outcomes[0])]
    words += [sentence for one in outcomes[1:] for sentence in _words(one, outcomes[0])]
    return Answer(
        recording.group,
        recording.rebalances,
        recording.length_ms,
        seeds,
        outcomes,
        tuple(words),
        tuple(assumptions(recording, tried)),
    )


def _outcome(place: int, label: str, results: Mapping[tuple[int, int], Result], seeds: int) -> VariantResult:
    mine = [results[place, seed] for seed in range(seeds)]
    before = [results[0, seed] for seed in range(seeds)]
    saved = [
        1 - now.unowned_ms / old.unowned_ms if old.unowned_ms else 0.0
        for now, old in zip(mine, before, strict=True)
    ]
    spreads = {name: Spread.of([getattr(one, name) for one in mine]) for name in _MEASURES}
    return VariantResult(label=label, saved=Spread.of(saved), started=mine[0].started, **spreads)


def _check(recording: Recording, replayed: VariantResult) -> str:
    said = (
        f"The recording has {_count(recording.rebalances)} in {_span(recording.length_ms)}; its replay under "
        f"the recorded settings has {_range(replayed.rebalances)}."
    )
    off = abs(replayed.rebalances.middle - recording.rebalances)
    if off > _TRUSTED * max(recording.rebalances, 5):
        said += " They differ by more than a fifth: the replay misses something, do not rely on it."
    return said


def _words(one: VariantResult, before: VariantResult) -> list[str]:
    part = one.saved
    change = "less" if part.middle >= 0 else "more"
    ends = sorted((abs(part.least), abs(part.most))) if part.least * part.most >= 0 else None
    spread = (
        f"{ends[0]:.0%} to {ends[1]:.0%}"
        if ends
        else f"from {-part.most:+.0%} to {-part.least:+.0%}, so the sign is not certain"
    )
    noun = "rebalance" if one.rebalances.least == one.rebalances.most == 1 else "rebalances"
    said = (
        f"With {one.label}: {_range(one.rebalances)} {noun} instead of {before.rebalances.middle:.0f}, "
        f"{abs(part.middle):.0%} {change} time without an owner ({spread})."
    )
    words = [said]
    slower = one.dead_ms.middle - before.dead_ms.middle
    if slower > _SMALL_MS and one.dead_ms.middle > 1.2 * before.dead_ms.middle:
        words.append(
            f"The price: partitions wait {_seconds(one.dead_ms.middle)} for processes that are gone, "
            f"instead of {_seconds(before.dead_ms.middle)}; the longest wait is "
            f"{_seconds(one.longest_ms.middle)}."
        )
    return words


def assumptions(recording: Recording, tried: Sequence[Variant]) -> list[str]:
    """What the answer takes for granted."""
    doubts = sum(isinstance(one, AmbiguousEvent) for one in recording.happenings)
    said = [
        "Processes start, stop, crash and stand still when they did; load and commits are not replayed.",
        "A process that is back takes the seat it had, by instance id, else by client id and host: "
        f"{len(recording.seats)} seats.",
    ]
    if recording.has_journal:
        said.append("Causes are those of the journal. Members react as fast as they did then.")
    else:
        said.append(
            "There is no journal: causes are inferred, and members join again within half a second after "
            "they have heard of a rebalance."
        )
    # Members of the other protocol do not assign: the broker does.
    classic = [one.settings.assignor for one in tried if one.settings.protocol == "classic"]
    if recording.unknown_assignor is not None and recording.settings.assignor in classic:
        said.append(
            f"Classic members assign with {recording.settings.assignor}, because the recorded assignor "
            f"{recording.unknown_assignor!r} is not known here. With that one, other partitions may move."
        )
    if doubts:
        said.append(
            f"{doubts} of {len(recording.happenings)} happenings can be read in two ways (a process that "
            "stood still, or was started again); each seed takes one of them."
        )
    said.append(
        "Time without an owner: no live process has the partition. A silent one counts until it ends."
    )
    return said


def _range(spread: Spread) -> str:
    if spread.least == spread.most:
        return f"{spread.middle:.0f}"
    return f"{spread.middle:.0f} ({spread.least:.0f} to {spread.most:.0f})"


def _count(number: int) -> str:
    return f"{number:,} rebalance{'' if number == 1 else 's'}"


def _seconds(millis: float) -> str:
    return f"{millis / 1_000:,.0f} s"


def _span(millis: int) -> str:
    for size, noun in ((86_400_000, "days"), (3_600_000, "hours"), (60_000, "minutes")):
        if millis >= 2 * size:
            return f"{millis / size:.1f} {noun}"
    return f"{millis / 1_000:.0f} seconds"
