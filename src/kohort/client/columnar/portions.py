"""What was fetched, taken as Arrow tables: a consumer's chunks, or a range of offsets. No I/O.

Import it only where numpy and pyarrow were checked for.
"""

from collections.abc import Callable, Iterator, Sequence

from pyarrow import lib as pa

from kohort.client.columnar.options import ColumnOptions
from kohort.client.fetching.chunk import BadRecordError, Chunk, leaves_out_aborted
from kohort.model.topics import TopicPartition
from kohort.records.batch import CorruptBatchError
from kohort.records.columns.arrow import ColumnSelection, PieceOrigin, record_batches, schema
from kohort.records.columns.read import read_columns
from kohort.records.columns.table import BatchTable, Sifting, find_batches
from kohort.wire.messages.fetch import PartitionData

_ROWS = 20_000  # in one piece of a table
_NO_END = (1 << 63) - 1


class TakeTable:
    """Takes up to ``limit`` rows out of a chunk, as ``Chunk.take`` takes records."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)

    def __call__(self, chunk: Chunk, limit: int) -> pa.Table:
        """A table of at least one row, unless nothing is left but what has none; moves the chunk.

        Raises BadRecordError if the very next record cannot be read; those before it are returned first.
        """
        table = find_batches(chunk.blob)
        reading = chunk.reading
        leaves_out = leaves_out_aborted(chunk.answered, chunk.blob) if reading.read_committed else None
        start = reached = chunk.next_offset
        found: list[pa.RecordBatch] = []
        place = PieceOrigin(*chunk.partition)
        sifting = Sifting(start, reading.check_crcs, leaves_out)
        try:
            for columns in read_columns(table, sifting):
                offsets = columns.offsets[columns.offsets >= start]
                end = int(offsets[limit]) if len(offsets) > limit else _NO_END
                found += record_batches(columns, place, ColumnSelection(self._columns, _ROWS, start, end))
                if len(offsets):
                    reached = end if end != _NO_END else int(offsets[-1]) + 1
                limit -= len(offsets)
                if limit <= 0:
                    _move(chunk, table, reached)
                    break
            else:
                _move(chunk, table, max(start, table.next_offset or 0), drained=True)
        except CorruptBatchError as error:
            if not found:
                raise BadRecordError(chunk.partition, reached, error) from error
            _move(chunk, table, reached)
        return pa.Table.from_batches(found, schema=schema(self._columns))


def _move(chunk: Chunk, table: BatchTable, offset: int, *, drained: bool = False) -> None:
    """Let the chunk go on at ``offset``, with the epoch of the batch before it."""
    before = table.headers["partition_leader_epoch"][table.numbers("base_offset") < offset]
    chunk.go_on(offset, int(before[-1]) if len(before) else chunk.epoch, drained=drained)


# A first request for a short range asks for no more than records of this size would fill.
_GUESSED_RECORD = 1_024
_LEAST_BYTES = 64 * 1024
_MARGIN = 1.25  # asked for above what the range seems to need


DecodeBatches = Callable[[BatchTable, int, int], Iterator[pa.RecordBatch]]
"""Another way to make Arrow batches of the records from a start to before an end."""


class RangeReading:
    """Records from ``start`` to before ``end`` of a partition. ``position`` moves with the answers."""

    def __init__(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        options: ColumnOptions,
        decode: DecodeBatches | None = None,
    ) -> None:
        self.partition = partition
        self._decode = decode
        self.position = start
        self.end = end
        self._options = options
        self._bytes_per_offset: float = _GUESSED_RECORD

    def __repr__(self) -> str:
        return f"<RangeReading of {self.partition}: {self.position} to {self.end}>"

    @property
    def is_done(self) -> bool:
        return self.position >= self.end

    @property
    def max_bytes(self) -> int:
        """How much to ask for: what is left of the range, as far as that can be guessed."""
        guess = int((self.end - self.position) * self._bytes_per_offset) + _LEAST_BYTES
        return min(self._options.max_bytes, guess)

    def receive(self, answered: PartitionData) -> Iterator[pa.RecordBatch]:
        """Move behind what an answer to ``position`` holds; its Arrow batches are made as they are taken.

        Raises ``CorruptBatchError``, named by partition and offset: at once if there is no way on, else
        after the records before it.
        """
        blob = answered.records if isinstance(answered.records, bytes | memoryview) else b""
        start, table = self.position, find_batches(blob)
        following = table.next_offset
        if following is not None and following > start:
            self._bytes_per_offset = _MARGIN * len(blob) / (following - start)
            self.position = following
        elif len(blob):
            # Nothing in it leads further: say why, or that nothing is wrong but the offsets.
            for _ in self._batches(answered, table, start):
                break
            raise CorruptBatchError(
                f"cannot read {self.partition} at offset {start}: {len(blob)} bytes hold no record behind it"
            )
        return self._batches(answered, table, start)

    def _batches(self, answered: PartitionData, table: BatchTable, start: int) -> Iterator[pa.RecordBatch]:
        options = self._options
        leaves_out = leaves_out_aborted(answered, table.blob) if options.read_committed else None
        sifting = Sifting(start, options.check_crcs, leaves_out, end=self.end)
        wanted = ColumnSelection(options.columns, options.rows, start, self.end)
        place = PieceOrigin(*self.partition)
        reached = start
        try:
            if self._decode is not None:
                yield from self._decode(table, start, self.end)
                return
            for columns in read_columns(table, sifting):
                yield from record_batches(columns, place, wanted)
                if len(columns.offsets):
                    reached = max(reached, int(columns.offsets[-1]) + 1)
        except CorruptBatchError as error:
            raise type(error)(
                f"cannot read {self.partition} at offset {reached}: {error.args[0]}", hint=error.hint
            ) from error
