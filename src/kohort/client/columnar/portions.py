"""What was fetched, taken as Arrow tables: a consumer's chunks, or a range of offsets. No I/O.

Import it only where numpy and pyarrow were checked for.
"""

import importlib.util
import logging
import threading
from collections.abc import Callable, Iterator, Sequence

from pyarrow import lib as pa

from kohort.client.columnar.options import ColumnOptions, MissingExtraError
from kohort.client.fetching.chunk import BadRecordError, Chunk, leaves_out_aborted
from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition
from kohort.records.batch import CorruptBatchError
from kohort.records.columns import lanes, walk
from kohort.records.columns.arrow import Place, Wanted, record_batches, schema
from kohort.records.columns.read import Decoder, read_columns
from kohort.records.columns.spans import Section, Spans
from kohort.records.columns.table import BatchTable, Sifting, find_batches
from kohort.wire.messages.fetch import PartitionData

_log = logging.getLogger(__name__)

# Loading numba takes as long as numpy needs for about so many records.
_WORTH_COMPILING = 2_000_000
# The fixed cost of a hundred operations of numpy is that of a few records in Python.
_FEW_RECORDS = 32


class Automatic:
    """Begins with numpy. After much work it loads numba, if that is installed, in the background."""

    def __init__(self, worth_compiling: int = _WORTH_COMPILING) -> None:
        self._left = worth_compiling
        self._compiled: Decoder | None = None
        self._loading: threading.Thread | None = None

    def __call__(self, section: Section) -> Spans:
        if self._compiled is not None:
            return self._compiled(section)
        records = section.records
        self._left -= records
        if self._left < 0 and self._loading is None:
            self._loading = threading.Thread(target=self._load, name="kohort numba", daemon=True)
            self._loading.start()
        return walk.decode(section) if records < _FEW_RECORDS else lanes.decode(section)

    def wait(self) -> bool:
        """Until loading ended, if it began; whether the compiled decoder is used from now on."""
        if self._loading is not None:
            self._loading.join()
        return self._compiled is not None

    def _load(self) -> None:
        if importlib.util.find_spec("numba") is None:
            return
        try:
            self._compiled = _compiled()
        except Exception:
            # An accelerator that does not start is no reason to stop reading.
            _log.warning("numba is installed and cannot be used; decoding with numpy", exc_info=True)


def _compiled() -> Decoder:
    from kohort.records.batch import NewRecord, build_batch
    from kohort.records.columns import compiled, read  # numba: most of a second

    # Compiles, or takes what was compiled before from the cache: not in the middle of a read.
    sample = build_batch([NewRecord(0, b"k", b"v", [("h", b"v")])])
    for _ in read.read_columns(sample, decoder=compiled.decode):
        pass
    return compiled.decode


AUTOMATIC = Automatic()  # one for the process: what it has loaded serves all readers


def decoder_of(name: str) -> Decoder:
    """The decoder of that name: ``auto``, ``numpy``, ``numba`` or ``python``."""
    match name:
        case "auto":
            return AUTOMATIC
        case "numpy":
            return lanes.decode
        case "python":
            return walk.decode
        case "numba":
            try:
                return _compiled()
            except ModuleNotFoundError as error:
                raise MissingExtraError("decoding with numba", error.name, "fast") from error
        case _:
            raise KohortError(f"there is no decoder {name!r}", hint="there are auto, numpy, numba and python")


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
        self._decoder = decoder_of(options.decoder)
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
        wanted = Wanted(options.columns, options.rows, start, self.end)
        place = Place(*self.partition)
        reached = start
        try:
            if self._decode is not None:
                yield from self._decode(table, start, self.end)
                return
            for columns in read_columns(table, sifting, self._decoder):
                yield from record_batches(columns, place, wanted)
                if len(columns.offsets):
                    reached = max(reached, int(columns.offsets[-1]) + 1)
        except CorruptBatchError as error:
            raise type(error)(
                f"cannot read {self.partition} at offset {reached}: {error.args[0]}", hint=error.hint
            ) from error
