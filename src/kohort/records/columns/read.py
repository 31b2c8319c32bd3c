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
            columns = columns_of(section, decoder)
        except CorruptBatchError as error:
            good = _good_batches(section, decoder)
            if good:
                before = section.part(slice(0, good))
                yield columns_of(before, decoder)
            raise _named(section.part(slice(good, good + 1)), error) from error
        yield columns


def _good_batches(section: Section, decoder: Decoder) -> int:
    """How many batches of a section can be read before the first that cannot."""
    good, bad = 0, len(section.starts)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            part = section.part(slice(good, middle))
            columns_of(part, decoder)
        except CorruptBatchError:
            bad = middle
        else:
            good = middle
    return good


def _named(batch: Section, found: CorruptBatchError) -> CorruptBatchError:
    """What is wrong with one batch, in the words of the decoder that looks at one record at a time."""
    try:
        columns_of(batch, walk.decode)
    except CorruptBatchError as error:
        found = error
    return CorruptBatchError(f"batch at offset {batch.base_offsets[0]}: {found.args[0]}")


def columns_of(section: Section, decoder: Decoder) -> Columns:
    """The records of one section."""
    spans = decoder(section)
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
