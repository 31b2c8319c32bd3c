"""Two brokers' answers to one script, difference by difference, against the list of explained ones."""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from tests.interop.scripts.exchange import Exchange, Script
from tests.interop.scripts.plain import Names, Plain, plain_answer

DIFFERENCES: Final = Path(__file__).resolve().parent.parent / "differences.toml"
ABSENT: Final = "<absent>"
ANYTHING: Final = "<anything>"


class Difference(NamedTuple):
    """One place where two answers are not equal."""

    script: str
    step: str
    path: str
    kafka: Plain
    kohort: Plain

    def __str__(self) -> str:
        return f"{self.script} / {self.step} / {self.path}: kafka {self.kafka!r}, kohort {self.kohort!r}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Differences we know and want; steps and paths may hold shell wildcards, values may be left out."""

    script: str
    reason: str
    steps: tuple[str, ...] = ("*",)
    paths: tuple[str, ...] = ("*",)
    kafka: Plain = ANYTHING
    kohort: Plain = ANYTHING

    def covers(self, found: Difference) -> bool:
        """Whether this explains that difference."""
        if found.script != self.script or not _matches(found.step, self.steps):
            return False
        if not _matches(found.path, self.paths):
            return False
        pairs = ((self.kafka, found.kafka), (self.kohort, found.kohort))
        return all(wanted in (ANYTHING, seen) for wanted, seen in pairs)


def _matches(text: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def run_script(script: Script, address: tuple[str, int]) -> dict[str, Plain]:
    """Play a script against a broker and return its answers by step."""
    names = Names()
    answers: dict[str, Plain] = {}
    exchange = Exchange(address)
    try:
        for step, answer in script(exchange):
            assert step not in answers, f"two steps are called {step!r}"
            answers[step] = plain_answer(answer, names)
    finally:
        exchange.close()
    return answers


def differences(script: str, kafka: dict[str, Plain], kohort: dict[str, Plain]) -> list[Difference]:
    """Every place where the answers of two brokers are not equal."""
    found = []
    for step in [*kafka, *(step for step in kohort if step not in kafka)]:
        for path, one, other in _walk("", kafka.get(step, ABSENT), kohort.get(step, ABSENT)):
            found.append(Difference(script, step, path, one, other))
    return found


def _walk(path: str, one: Plain, other: Plain) -> Iterator[tuple[str, Plain, Plain]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            inner = f"{path}.{key}" if path else str(key)
            yield from _walk(inner, one.get(key, ABSENT), other.get(key, ABSENT))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _walk(f"{path}[{index}]", left, right)
    elif one != other:
        yield path, one, other


def load_explanations(path: Path = DIFFERENCES) -> list[Explanation]:
    """The differences we know; each has a reason."""
    return [_explanation(entry) for entry in tomllib.loads(path.read_text()).get("difference", [])]


def _explanation(entry: dict[str, Plain]) -> Explanation:
    return Explanation(
        script=entry["script"],
        reason=entry["reason"],
        steps=tuple(entry.get("steps", ["*"])),
        paths=tuple(entry.get("paths", ["*"])),
        kafka=entry.get("kafka", ANYTHING),
        kohort=entry.get("kohort", ANYTHING),
    )


def unexplained(found: Iterable[Difference], known: Iterable[Explanation]) -> list[Difference]:
    """The differences that no entry of the list covers."""
    entries = list(known)
    return [each for each in found if not any(entry.covers(each) for entry in entries)]


def outdated(script: str, found: Iterable[Difference], known: Iterable[Explanation]) -> list[Explanation]:
    """The entries for this script that no longer match anything: the list must not outlive its reasons."""
    seen = list(found)
    return [
        entry for entry in known if entry.script == script and not any(entry.covers(each) for each in seen)
    ]
