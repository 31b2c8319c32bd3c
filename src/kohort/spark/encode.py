"""Arrow batches of a write as blocks of records, ready to be sent. No I/O; time and chance are handed in."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from pyarrow import lib as pa

from kohort.client.errors import RecordTooLargeError
from kohort.client.producer.batch import Block
from kohort.client.producer.records import Sticky
from kohort.client.producer.settings import ProducerSettings
from kohort.model.errors import KohortError
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.records.from_columns import (
    Int64s,
    RecordColumns,
    cut,
    encode_headers,
    encode_payloads,
    is_valid,
    sizes_at_most,
)
from kohort.spark.encode_keys import partitions_for_keys

_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_NOWHERE = -1
GATHERED = 4 * 1024 * 1024  # bytes of Arrow that are encoded together, at most
LARGEST = 64 * 1024 * 1024  # … and at most


class RowError(KohortError):
    """A row that no record can be made of."""


class Layout(NamedTuple):
    """A topic's number of partitions, and which of them have a leader now."""

    partitions: int
    available: Sequence[int]


class Encoder:
    """Blocks for the rows of one task. ``topic`` is that of all rows; None: a column names it."""

    def __init__(
        self,
        topic: str | None,
        settings: ProducerSettings,
        layout: Callable[[str], Layout],
        choose: Callable[[Sequence[int]], int],
    ) -> None:
        self._topic = topic
        self._settings = settings
        self._layout = layout
        self._sticky = Sticky(settings.batch_size, choose)

    def encode(self, rows: pa.RecordBatch, now: int) -> Iterator[Block]:
        """All rows, those of a partition in their order; ``now`` (milliseconds since 1970) is their time."""
        columns = RecordColumns(
            timestamps=np.full(rows.num_rows, now, np.int64),
            values=_binary(rows, "value"),
            keys=_binary(rows, "key"),
            headers=_headers(rows),
        )
        given = _partitions(rows)
        for topic, chosen in self._by_topic(rows):
            if chosen is None:
                yield from self._encode(topic, columns, given)
            else:
                yield from self._encode(topic, columns.take(chosen), given[chosen])

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, Int64s | None]]:
        """Each topic with its rows, None if those are all."""
        if self._topic is not None:
            yield self._topic, None
            return
        column = rows.column("topic")
        if column.null_count:
            raise RowError(
                f"the topic of {column.null_count} of {rows.num_rows} rows is null",
                hint='filter them out, or set the option "topic"',
            )
        encoded = column.cast(pa.string()).dictionary_encode()
        numbers = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(encoded))
        for number, topic in enumerate(encoded.dictionary.to_pylist()):
            chosen = np.flatnonzero(numbers == number)
            yield topic, None if len(chosen) == rows.num_rows else chosen

    def _encode(self, topic: str, columns: RecordColumns, given: Int64s) -> Iterator[Block]:
        sizes = sizes_at_most(columns)
        largest = int(sizes.max())
        if largest > self._settings.max_request_size:
            raise RecordTooLargeError(topic, largest, self._settings.max_request_size)
        partitions = self._place(topic, columns, sizes, given)
        if (partitions != partitions[0]).any():
            order = np.argsort(partitions, kind="stable")
            columns, sizes, partitions = columns.take(order), sizes[order], partitions[order]
        borders = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
        starts = [
            start + inner
            for start, stop in pairwise(borders)
            for inner in cut(sizes[start:stop], self._settings.batch_size)
        ]
        payloads = encode_payloads(columns, starts, self._settings.codec)
        for start, payload in zip(starts, payloads, strict=True):
            yield Block(TopicPartition(TopicName(topic), Partition(int(partitions[start]))), payload)

    def _place(self, topic: str, columns: RecordColumns, sizes: Int64s, given: Int64s) -> Int64s:
        """By the column "partition", else by key, else together until a batch is full of them."""
        count, available = self._layout(topic)
        if int(given.max()) >= count:
            raise RowError(
                f"a row says partition {int(given.max())} of topic {topic!r}, "
                f"which has the partitions 0 to {count - 1}",
                hint='correct the column "partition", or leave it null to go by key',
            )
        partitions = given.copy()
        if columns.keys is not None:
            keyed = (partitions == _NOWHERE) & is_valid(columns.keys)
            partitions[keyed] = partitions_for_keys(columns.keys, count)[keyed]
        free = np.flatnonzero(partitions == _NOWHERE)
        for start, stop in pairwise([*cut(sizes[free], self._settings.batch_size), len(free)]):
            run = free[start:stop]
            partitions[run] = self._sticky.place(topic, available, int(sizes[run].sum()))
        return partitions


def _binary(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    if name not in rows.schema.names:
        return None
    column = rows.column(name)
    if column.type == pa.large_string():
        column = column.cast(pa.large_binary())
    return column.cast(pa.binary())


def _headers(rows: pa.RecordBatch) -> pa.Array | None:
    if "headers" not in rows.schema.names:
        return None
    column = rows.column("headers")
    if column.null_count == rows.num_rows:
        return None
    return encode_headers(column if column.type.equals(_HEADERS) else column.cast(_HEADERS))


def _partitions(rows: pa.RecordBatch) -> Int64s:
    """What the column "partition" says, -1 where it says nothing."""
    if "partition" not in rows.schema.names:
        return np.full(rows.num_rows, _NOWHERE, np.int64)
    column = rows.column("partition")
    numbers = np.frombuffer(column.buffers()[1], np.int32, len(column), column.offset * 4).astype(np.int64)
    valid = is_valid(column)
    if (valid & (numbers < 0)).any():
        raise RowError(
            f"a row says partition {int(numbers[valid].min())}",
            hint='partitions are counted from 0; leave the column "partition" null to go by key',
        )
    return np.where(valid, numbers, _NOWHERE)


def in_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of a size to encode: small ones together, huge ones in parts."""
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        gathered.append(batch)
        size += batch.nbytes
        if size >= GATHERED:
            yield from _pieces(gathered, size)
            gathered, size = [], 0
    if gathered:
        yield from _pieces(gathered, size)


def _pieces(gathered: list[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    if size > LARGEST:
        for batch in gathered:
            yield from _parts(batch)
    elif len(gathered) == 1:
        yield gathered[0]
    else:
        yield from pa.Table.from_batches(gathered).combine_chunks().to_batches()


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= LARGEST or batch.num_rows == 1:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle))
    yield from _parts(batch.slice(middle))
