"""The ledger of one archived topic: which offsets have landed. It is the truth; files only follow it.

A batch lands in one step, the replacement of the ledger's file. The new ledger says that the batch's
offsets are there, and names the files that are still to be moved into place; the next opener
moves those that are not. So there is no moment at which a record could get lost or be taken twice.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kohort.model.errors import KohortError
from kohort.spark.pipelines.spans import Span, Spans, add, subtract

VERSION = 1
WITH_REMOVES = 2  # an earlier program would not take the files away


class LedgerError(KohortError):
    """A ledger that cannot be read, or a table whose ledger is gone."""


class OverlapError(KohortError):
    """Some of these offsets have landed meanwhile, from another instance: cut them off and land the rest."""

    def __init__(self, topic: str, partition: int, span: Span) -> None:
        super().__init__(
            f"offsets {span.first} to {span.end - 1} of {topic}-{partition} have landed in part",
            hint="another instance of the pipeline was faster; the rest can be landed again",
            retriable=True,
        )


class LedgerPosition(NamedTuple):
    """One partition of one life of a topic: one deleted and created again begins at offset 0."""

    topic_id: str
    partition: int


class LandedFiles(NamedTuple):
    """What of a partition is in the table: its offsets, how many records, and how many of them were bad."""

    spans: Spans = ()
    rows: int = 0
    bad: int = 0


class Landing(NamedTuple):
    """A span of a partition that is about to land, and how many records there are in it."""

    place: LedgerPosition
    span: Span
    rows: int
    bad: int = 0


class PendingMove(NamedTuple):
    """A finished file, and where in the table it belongs. Paths start at the archive's root."""

    staged: str
    final: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """What has landed of one topic. ``moves`` are the files of the last landing, moved or not; ``removes``
    those of bad records that became good ones with it.

    ``values`` is what became of the values: all files of a table have the same columns.
    """

    topic: str
    values: str
    sequence: int = 0
    landed: Mapping[LedgerPosition, LandedFiles] = field(default_factory=dict)
    moves: tuple[PendingMove, ...] = ()
    removes: tuple[str, ...] = ()

    def missing(self, place: LedgerPosition, span: Span) -> Spans:
        """What of ``span`` has not landed yet."""
        return subtract(span, self.landed.get(place, LandedFiles()).spans)

    def after(self, landings: Iterable[Landing], moves: Iterable[PendingMove]) -> "Ledger":
        """The ledger once these have landed; raises OverlapError if any of it has landed before."""
        landed = dict(self.landed)
        for landing in landings:
            before = landed.get(landing.place, LandedFiles())
            if subtract(landing.span, before.spans) != (landing.span,):
                raise OverlapError(self.topic, landing.place.partition, landing.span)
            landed[landing.place] = LandedFiles(
                add(before.spans, landing.span), before.rows + landing.rows, before.bad + landing.bad
            )
        return replace(self, sequence=self.sequence + 1, landed=landed, moves=tuple(moves), removes=())

    def replayed(
        self, counts: Mapping[LedgerPosition, int], moves: Iterable[PendingMove], removes: Iterable[str]
    ) -> "Ledger":
        """The ledger after this number of bad records has become good ones."""
        landed = dict(self.landed)
        for place, count in counts.items():
            before = landed[place]
            landed[place] = before._replace(rows=before.rows + count, bad=before.bad - count)
        return replace(
            self, sequence=self.sequence + 1, landed=landed, moves=tuple(moves), removes=tuple(removes)
        )


def encode(ledger: Ledger) -> bytes:
    document: dict[str, object] = {
        "version": WITH_REMOVES if ledger.removes else VERSION,
        "topic": ledger.topic,
        "values": ledger.values,
        "sequence": ledger.sequence,
        "landed": [
            {
                "topic_id": place.topic_id,
                "partition": place.partition,
                "offsets": [list(span) for span in one.spans],
                "rows": one.rows,
                "bad": one.bad,
            }
            for place, one in sorted(ledger.landed.items())
        ],
        "moves": [list(move) for move in ledger.moves],
    }
    if ledger.removes:
        document["removes"] = list(ledger.removes)
    return json.dumps(document, indent=1).encode() + b"\n"


def decode(content: bytes) -> Ledger:
    """Raises LedgerError."""
    try:
        document = json.loads(content)
        if document["version"] not in (VERSION, WITH_REMOVES):
            raise LedgerError(
                f"the ledger has version {document['version']}, this program reads up to {WITH_REMOVES}",
                hint="use the version of Kohort that wrote it",
            )
        return Ledger(
            topic=document["topic"],
            values=document["values"],
            sequence=document["sequence"],
            landed={
                LedgerPosition(one["topic_id"], one["partition"]): LandedFiles(
                    tuple(Span(first, end) for first, end in one["offsets"]), one["rows"], one["bad"]
                )
                for one in document["landed"]
            },
            moves=tuple(PendingMove(staged, final) for staged, final in document["moves"]),
            removes=tuple(document.get("removes", ())),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerError(f"the ledger cannot be read: {error}", hint="restore it from a copy") from error
