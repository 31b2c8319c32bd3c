"""Where the fields of records stand: what a decoder is given, and what it finds."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kohort.primitives.buffers import Buffer

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bounds = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


class Section(NamedTuple):
    """Payloads that lie in one buffer, in order, decompressed; one element of each vector for a batch.

    Every payload has room for its records, so that nothing is reserved on a header's word alone.
    """

    data: Buffer
    starts: Ints
    ends: Ints
    counts: Ints
    base_offsets: Ints
    base_timestamps: Ints
    append_times: Ints  # meant only where ``appended`` is not 0
    appended: Ints

    @property
    def records(self) -> int:
        return int(self.counts.sum())

    def part(self, which: slice) -> "Section":
        """Some of its batches alone."""
        return Section(self.data, *(vector[which] for vector in self[1:]))


class HeaderSpans(NamedTuple):
    """The headers of all records in one row. ``bounds`` as those of ``Columns``."""

    counts: Bounds  # of each record, those without any included
    bounds: Bounds
    values: Flags  # which have a value


class Columns(NamedTuple):
    """Records as columns; keys, values and headers are places in ``data``.

    ``bounds`` holds, ascending, for each record where its key begins and ends and where its value does;
    and one number more, as Arrow wants it.
    """

    data: Buffer
    offsets: Ints
    timestamps: Ints
    appended: Flags  # whether the timestamp is that of the append
    bounds: Bounds
    keys: Flags  # which have a key
    values: Flags
    headers: HeaderSpans | None  # None if no record has any
