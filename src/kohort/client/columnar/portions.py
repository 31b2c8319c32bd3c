"""What a consumer has fetched and not handed out yet, taken as Arrow tables instead of records.

Only for those that have checked that numpy and pyarrow are there.
"""

from collections.abc import Sequence

from pyarrow import lib as pa

from kohort.client.columnar.decoders import decoder_of
from kohort.client.fetching.aborted import leaves_out_aborted
from kohort.client.fetching.chunk import Chunk
from kohort.client.fetching.errors import BadRecordError
from kohort.records.batch import CorruptBatchError
from kohort.records.columns.arrow import Place, Wanted, record_batches, schema
from kohort.records.columns.read import read_columns
from kohort.records.columns.table import BatchTable, Sifting, find_batches

_ROWS = 20_000  # in one piece of a table
_NO_END = (1 << 63) - 1


class TakeTable:
    """Takes up to so many rows out of a chunk, as ``Chunk.take`` does records."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._decoder = decoder_of("auto")

    def __call__(self, chunk: Chunk, limit: int) -> pa.Table:
        """A table of at least one row, unless nothing is left but what has none; moves the chunk.

        Raises BadRecordError if the very next record cannot be read; those before it are returned first.
        """
        table = find_batches(chunk.blob)
        reading = chunk.reading
        leaves_out = leaves_out_aborted(chunk.answered, chunk.blob) if reading.read_committed else None
        start = reached = chunk.next_offset
        found: list[pa.RecordBatch] = []
        place = Place(*chunk.partition)
        sifting = Sifting(start, reading.check_crcs, leaves_out)
        try:
            for columns in read_columns(table, sifting, self._decoder):
                offsets = columns.offsets[columns.offsets >= start]
                end = int(offsets[limit]) if len(offsets) > limit else _NO_END
                found += record_batches(columns, place, Wanted(self._columns, _ROWS, start, end))
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
