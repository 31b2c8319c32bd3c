"""A piece of a log, as columns."""

from collections.abc import Callable, Iterator

import numpy as np

from kohort.primitives.buffers import Buffer
from kohort.records.columns import lanes, walk
from kohort.records.columns.sections import sections
from kohort.records.columns.spans import Columns, Section, Spans
from kohort.records.columns.table import BatchTable, Sifting, find_batches, sift
from kohort.records.errors import CorruptBatchError

Decoder = Callable[[Section], Spans]
EVERYTHING = Sifting()


def read_columns(
    log: Buffer | BatchTable, sifting: Sifting = EVERYTHING, decoder: Decoder = lanes.decode
) -> Iterator[Columns]:
    """The records of all whole batches that are wanted, a few megabytes at a time.

    Of a batch that ``sifting.start`` lies in, all records come. Raises ``CorruptBatchError`` for a batch that
    cannot be read, after the records of all batches before it.
    """
    table = log if isinstance(log, BatchTable) else find_batches(log)
    for section in sections(sift(table, sifting), sifting.limit):
        try:
            columns = _columns(section, decoder(section))
        except CorruptBatchError:
            yield from _until_corrupt(section)
            raise
        yield columns


def _until_corrupt(section: Section) -> Iterator[Columns]:
    """One batch at a time, up to the one that raises."""
    for index in range(len(section.starts)):
        batch = section.part(slice(index, index + 1))
        try:
            columns = _columns(batch, walk.decode(batch))
        except CorruptBatchError as error:
            raise CorruptBatchError(f"batch at offset {batch.base_offsets[0]}: {error.args[0]}") from error
        yield columns


def _columns(section: Section, spans: Spans) -> Columns:
    counts = section.counts
    base = np.repeat(section.base_timestamps, counts)
    timestamps = base + spans.timestamp_deltas
    if (((base ^ timestamps) & (spans.timestamp_deltas ^ timestamps)) < 0).any():
        raise CorruptBatchError("the timestamp of a record does not fit 64 bits")
    appended = np.repeat(section.appended != 0, counts)
    if section.appended.any():
        timestamps = np.where(appended, np.repeat(section.append_times, counts), timestamps)
    return Columns(
        section.data,
        np.repeat(section.base_offsets, counts) + spans.offset_deltas,
        timestamps,
        appended,
        spans.bounds,
        spans.keys,
        spans.values,
        spans.headers,
    )
