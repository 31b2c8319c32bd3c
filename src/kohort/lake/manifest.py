"""Which parts of which tables count, how far the source was read, and which loads the derived tables have.

One file, replaced in one step: what it does not name does not count. It does not grow with the lake's age.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any, Final, NamedTuple

from kohort.model.errors import KohortError

Offsets = dict[str, dict[str, int]]
"""The next offset to land, by topic and partition; partitions as text, because it is kept as JSON."""

VERSION: Final = 2
FANOUT: Final = 16  # how many parts of one level are merged into one of the next


class LakeError(KohortError):
    """A directory is no lake, or is not to be used in this way."""


class TablePart(NamedTuple):
    """A directory of a table: the step that wrote it (of merged ones the last), times merged, rows."""

    step: int
    level: int
    rows: int

    @property
    def directory(self) -> str:
        return f"part={self.step:08d}-{self.level}"


@dataclass(slots=True)
class Manifest:
    """The state of a lake. ``step`` counts what was done to it: loads and refreshes."""

    step: int = 0
    source: str = ""
    next_offsets: Offsets = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    parts: dict[str, list[TablePart]] = field(default_factory=dict)
    refreshed: int = 0  # the last step that the derived tables know of
    carry: int = 0  # the step that wrote what the next refresh begins with; 0: there is none
    names: dict[str, str] = field(default_factory=dict)  # of topics, by the ids in records
    partitions: dict[str, int] = field(default_factory=dict)  # how many each topic has
    judged_partitions: dict[str, int] = field(default_factory=dict)  # the same when findings were last made
    unnamed: list[str] = field(default_factory=list)  # ids in the derived tables that had no name
    newest_end: int = 0  # the time of the newest log end that has landed
    written: Offsets = field(default_factory=dict)  # when files whose ends have landed were written to
    is_out_of_order: bool = False  # something landed that belongs before what the derived tables have
    retention_ms: int = 7 * 24 * 3_600_000  # of offsets, as the cluster said last; Kafka's default before
    is_delta: bool = False  # each table has a log of Delta
    rules: int = 0  # by which version of the rules the derived tables were made

    def part(self, table: str, step: int) -> TablePart | None:
        return next((one for one in self.parts.get(table, ()) if one.step == step), None)

    def fresh(self, table: str) -> list[TablePart]:
        """The parts of a landed table that the derived tables do not know of."""
        return [one for one in self.parts.get(table, ()) if one.step > self.refreshed]

    def rows(self, table: str) -> int:
        return sum(part.rows for part in self.parts.get(table, ()))

    def encode(self) -> bytes:
        return json.dumps({"version": VERSION} | asdict(self)).encode()

    @classmethod
    def decode(cls, text: bytes) -> "Manifest":
        found: Mapping[str, Any] = json.loads(text)
        if found["version"] != VERSION:
            raise LakeError(
                f"the lake has version {found['version']}, this Kohort writes {VERSION}",
                hint="fill a new lake with another --to, or use the Kohort that wrote it",
            )
        values = {name: value for name, value in found.items() if name != "version"}
        values["parts"] = {
            table: [TablePart(*each) for each in parts] for table, parts in found["parts"].items()
        }
        return cls(**values)


def next_merge(parts: Sequence[TablePart]) -> list[TablePart]:
    """The neighbours of one level that are to be one part of the next; none if there are too few."""
    for _, group in groupby(parts, key=lambda part: part.level):
        run = list(group)
        if len(run) >= FANOUT:
            return run[:FANOUT]
    return []


def merged(parts: Iterable[TablePart]) -> TablePart:
    """The part that takes the place of these."""
    those = list(parts)
    return TablePart(those[-1].step, those[-1].level + 1, sum(part.rows for part in those))
