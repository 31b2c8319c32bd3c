"""What is in an archive: by ledgers and directories alone, so without Spark and at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kohort.spark.pipelines.ledger import Ledger
from kohort.spark.pipelines.spans import Spans, gaps, size
from kohort.spark.pipelines.table import Table, tables


class PartitionStatus(NamedTuple):
    """One partition of one life of a topic."""

    topic_id: str
    partition: int
    spans: Spans
    rows: int
    bad: int

    @property
    def gaps(self) -> Spans:
        """Offsets that were never brought: gone before they could be, or still with another instance."""
        return gaps(self.spans)


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One topic."""

    topic: str
    partitions: tuple[PartitionStatus, ...]
    files: int
    bytes: int
    dates: tuple[str, ...]

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.partitions)

    @property
    def bad(self) -> int:
        return sum(one.bad for one in self.partitions)

    @property
    def missing(self) -> int:
        """How many offsets are in gaps."""
        return sum(size(one.gaps) for one in self.partitions)


def status(root: Path) -> list[TableStatus]:
    """All tables of an archive, by topic. Finishes what a process that died has not."""
    return [_status(table) for table in tables(root)]


def _status(table: Table) -> TableStatus:
    ledger = table.recover()
    dates = table.dates()
    entries = [entry for date in dates for entry in table.parquet_files(date)]
    return TableStatus(
        topic=ledger.topic,
        partitions=_partitions(ledger),
        files=len(entries),
        bytes=sum(entry.size for entry in entries),
        dates=tuple(sorted({date.rpartition("=")[2] for date in dates})),
    )


def _partitions(ledger: Ledger) -> tuple[PartitionStatus, ...]:
    return tuple(
        PartitionStatus(place.topic_id, place.partition, one.spans, one.rows, one.bad)
        for place, one in sorted(ledger.landed.items())
    )


def status_json(found: TableStatus) -> dict[str, object]:
    return {
        "topic": found.topic,
        "rows": found.rows,
        "bad": found.bad,
        "missing_offsets": found.missing,
        "files": found.files,
        "bytes": found.bytes,
        "dates": list(found.dates),
        "partitions": [
            {
                "topic_id": one.topic_id,
                "partition": one.partition,
                "offsets": [list(span) for span in one.spans],
                "gaps": [list(span) for span in one.gaps],
                "rows": one.rows,
                "bad": one.bad,
            }
            for one in found.partitions
        ],
    }
