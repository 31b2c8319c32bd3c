"""One range of offsets on its way into Arrow batches: where to ask next, and what an answer holds. No I/O.

Only for those that have checked that numpy and pyarrow are there.
"""

from collections.abc import Iterator

from pyarrow import lib as pa

from kohort.client.columnar.decoders import decoder_of
from kohort.client.columnar.options import ColumnOptions
from kohort.client.fetching.aborted import leaves_out_aborted
from kohort.model.topics import TopicPartition
from kohort.records.batch import CorruptBatchError
from kohort.records.columns.arrow import Place, Wanted, record_batches
from kohort.records.columns.read import read_columns
from kohort.records.columns.table import BatchTable, Sifting, find_batches
from kohort.wire.messages.fetch import PartitionData

# A first request for a short range asks for no more than records of this size would fill.
_GUESSED_RECORD = 1_024
_LEAST_BYTES = 64 * 1024
_MARGIN = 1.25  # asked for above what the range seems to need


class OffsetRange:
    """Records from ``start`` to before ``end`` of a partition. ``position`` moves with the answers."""

    def __init__(self, partition: TopicPartition, start: int, end: int, options: ColumnOptions) -> None:
        self.partition = partition
        self.position = start
        self.end = end
        self._options = options
        self._decoder = decoder_of(options.decoder)
        self._bytes_per_offset: float = _GUESSED_RECORD

    def __repr__(self) -> str:
        return f"<OffsetRange of {self.partition}: {self.position} to {self.end}>"

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
        wanted = Wanted(options.columns, options.rows, start, self.end)
        place = Place(*self.partition)
        reached = start
        try:
            for columns in read_columns(table, sifting, self._decoder):
                yield from record_batches(columns, place, wanted)
                if len(columns.offsets):
                    reached = max(reached, int(columns.offsets[-1]) + 1)
        except CorruptBatchError as error:
            raise type(error)(
                f"cannot read {self.partition} at offset {reached}: {error.args[0]}", hint=error.hint
            ) from error
