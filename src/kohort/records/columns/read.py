"""A piece of a log, as columns."""

from collections.abc import Callable, Iterator

import numpy as np

from kohort.primitives.buffers import Buffer
from kohort.records.columns import walk
from kohort.records.columns.sections import EVERYTHING, Sifting, sections
from kohort.records.columns.spans import Columns, Section, Spans
from kohort.records.errors import CorruptBatchError

Decoder = Callable[[Section], Spans]


def read_columns(
    blob: Buffer, sifting: Sifting = EVERYTHING, decoder: Decoder = walk.decode
) -> Iterator[Columns]:
    """The records of all whole batches that are wanted, a few megabytes at a time.

    Of a batch that ``sifting.start`` lies in, all records come. Raises ``CorruptBatchError`` for a batch that
    cannot be read, after the records of all batches before it.
    """
    for section in sections(blob, sifting):
        try:
            columns = _columns(section, decoder(section))
        except CorruptBatchError:
            yield from _until_corrupt(section)
            continue
        yield columns


def _until_corrupt(section: Section) -> Iterator[Columns]:
    """One batch at a time, up to the one that raises."""
    for index in range(len(section.starts)):
        batch = section.batch(index)
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
