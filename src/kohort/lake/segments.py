"""Partitions as files: directories ``TOPIC-PARTITION`` with segments, as Kafka and Kohort keep them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kohort.model.errors import KohortError
from kohort.records.errors import CorruptBatchError

if TYPE_CHECKING:
    from pyarrow import lib as pa

    from kohort.records.columns.table import BatchTable

_ROWS = 20_000  # in one Arrow batch
_SEGMENT = re.compile(r"(\d{20})\.log")
_DIRECTORY = re.compile(r"(.+)-(\d+)")


class SegmentError(KohortError):
    """A directory or file is not what segments look like."""


class SegmentFile(NamedTuple):
    """One segment of one partition; ``end`` is the base offset of the next one, if there is a next."""

    path: str
    topic: str
    partition: int
    base: int
    end: int


def find_segments(root: Path, topic: str) -> list[SegmentFile]:
    """The segments of a topic under a directory, by partition and offset. ``root`` may be a partition itself.

    Raises ``SegmentError`` if there is no directory of such a name.
    """
    if not root.is_dir():
        raise SegmentError(f"there is no directory {root}", hint="name a data directory, or a copy of one")
    directories = [
        path
        for path in (root, *sorted(root.glob(f"{topic}-*")), *sorted(root.glob(f"*/{topic}-*")))
        if path.is_dir() and (named := _DIRECTORY.fullmatch(path.resolve().name)) and named[1] == topic
    ]
    found: list[SegmentFile] = []
    for path in directories:
        named = _DIRECTORY.fullmatch(path.resolve().name)
        assert named is not None, "it was chosen by this pattern"
        files = [(int(one[1]), each) for each in path.iterdir() if (one := _SEGMENT.fullmatch(each.name))]
        files.sort()
        ends = [base for base, _ in files[1:]] + [(1 << 63) - 1]
        found += [
            SegmentFile(str(file), topic, int(named[2]), base, end)
            for (base, file), end in zip(files, ends, strict=True)
        ]
    if not found:
        raise SegmentError(
            f"{root} has no directory {topic}-0 with files such as {0:020d}.log",
            hint="name the directory that has the partitions of the topic",
        )
    return sorted(found, key=lambda one: (one.partition, one.base))


def read_segment(path: str) -> Iterator["BatchTable"]:
    """The whole batches of a file; one that is cut off at the end is left out, as a broker would do.

    Raises ``CorruptBatchError``, with the name of the file, for bytes that are no batch.
    """
    from kohort.records.columns.table import find_batches

    blob = Path(path).read_bytes()
    if not blob:
        return
    table = find_batches(blob)
    if _is_preallocated(table, blob):
        table = table._replace(failure=None)
    try:
        yield table
    except CorruptBatchError as error:
        raise CorruptBatchError(f"{path}: {error.args[0]}", hint=error.hint) from error
    if table.failure is not None:
        raise CorruptBatchError(f"{path}: {table.failure.args[0]}")


def read_values(shares: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Offset and value of the records in files; a share is a path and a range of offsets."""
    from kohort.records.columns.arrow import ColumnSelection, PieceOrigin, record_batches
    from kohort.records.columns.read import read_columns
    from kohort.records.columns.table import Sifting

    for share in (one for batch in shares for one in batch.to_pylist()):
        start, end = share["start"], share["end"]
        wanted = ColumnSelection(("offset", "value"), _ROWS, start, end)
        for table in read_segment(share["path"]):
            for columns in read_columns(table, Sifting(start, end=end)):
                yield from record_batches(columns, PieceOrigin("", 0), wanted)


def _is_preallocated(table: "BatchTable", blob: bytes) -> bool:
    """Whether nothing but zeros follows: Kafka with ``log.preallocate`` leaves them behind the last batch."""
    if table.failure is None:
        return False
    at = 0
    if len(table.positions):
        at = int(table.positions[-1]) + 12 + int(table.headers["batch_length"][-1])
    return not any(blob[at:])


def log_end(segments: list[SegmentFile]) -> int:
    """The offset behind the last whole batch of a partition's last segment."""
    last = segments[-1]
    for table in read_segment(last.path):
        return last.base if table.next_offset is None else table.next_offset
    return last.base
