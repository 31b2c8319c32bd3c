"""The sink of ``.format("kohort")``: rows of a DataFrame become records of topics, at least once.

Each task encodes its rows in columns and sends them with a producer of its own: idempotent, so that within
one attempt of a task every record is stored once and in order, whatever has to be repeated. A task that Spark
runs again writes its rows again. ``commit`` has nothing left to do then; ``abort`` can take nothing back.
"""

import logging
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kohort.client.errors import BufferFullError, DeliveryTimeoutError, NoBrokerError
from kohort.client.producer.settings import ProducerSettings
from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition
from kohort.spark.errors import OptionError
from kohort.spark.sink_options import SinkOptions, check_columns, in_kafkas_words, parse_sink_options

if TYPE_CHECKING:
    from pyarrow import lib as pa

    from kohort.client.producer.sync_producer import Producer
    from kohort.spark.encode import Encoder

_log = logging.getLogger(__name__)
_CLIENT_ID = "kohort-sink"
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


class WriteError(KohortError):
    """A task could not write its rows. Whether some of them are stored is not known."""

    def __init__(self, bootstrap: str, reason: str, hint: str) -> None:
        super().__init__(f"cannot write to {bootstrap}: {reason}", hint=hint)


class WrittenRange(NamedTuple):
    """What a task wrote to one partition: the offsets of its first and last record as far as the broker said.

    -1: it did not say. Records of others may lie between them.
    """

    first: int
    last: int
    records: int


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task wrote, by partition."""

    partitions: Mapping[TopicPartition, WrittenRange] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join(
            f"{count:,} to {partition} ({first} to {last})"
            for partition, (first, last, count) in sorted(self.partitions.items())
        )


class SinkReceipts:
    """What became of the blocks of a task. Written on the producer's thread, read on the task's."""

    def __init__(self) -> None:
        self._stretches: dict[TopicPartition, WrittenRange] = {}
        self._error: KohortError | None = None

    def stored(self, partition: TopicPartition, base_offset: int, records: int) -> None:
        first, last, before = self._stretches.get(partition, WrittenRange(-1, -1, 0))
        if base_offset >= 0:
            first = base_offset if first < 0 else min(first, base_offset)
            last = max(last, base_offset + records - 1)
        self._stretches[partition] = WrittenRange(first, last, before + records)

    def failed(self, error: KohortError) -> None:
        self._error = self._error or error

    def check(self) -> None:
        """Raise what went wrong first, if anything did."""
        if self._error is not None:
            raise self._error

    def written(self) -> Written:
        """All that is stored."""
        return Written(dict(self._stretches))


class BatchArrowWriter(DataSourceArrowWriter):
    """``df.write.format("kohort").mode("append")``. Opens nothing: a task connects with its first row.

    Raises ``OptionError`` for options and columns that cannot work, before anything runs.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool = False) -> None:
        if overwrite:
            raise OptionError("a topic cannot be overwritten", hint='use .mode("append")')
        self.options = parse_sink_options(options)
        check_columns(schema, self.options.topic)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        return write_rows(self.options, iterator)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _tell_what_stays(messages)


class StreamArrowWriter(DataSourceStreamArrowWriter):
    """``df.writeStream.format("kohort")``; as the batch writer, once for every micro-batch.

    Every output mode appends: in complete mode all rows of the result are written again each time.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = parse_sink_options(options)
        check_columns(schema, self.options.topic)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        return write_rows(self.options, iterator)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        _tell_what_stays(messages)


def _tell_what_stays(messages: Sequence[WriterCommitMessage | None]) -> None:
    for message in messages:
        if isinstance(message, Written) and message.partitions:
            _log.warning("the write failed, but records of a finished task stay in the topic: %s", message)


# In a task


def write_rows(options: SinkOptions, batches: "Iterable[pa.RecordBatch]") -> Written:
    """Write all rows; return when each is acknowledged. Raises ``WriteError`` at the first that cannot be."""
    from kohort.spark.encode import in_pieces

    receipts = SinkReceipts()
    pieces = in_pieces(batches)
    first = next(pieces, None)
    if first is None:
        return receipts.written()  # without rows there is no need to connect
    try:
        producer = _connected(options)
        patience_ms: int | None = 0  # a task that failed leaves the rest unsent
        try:
            encoder = _encoder(options, producer)
            for piece in chain([first], pieces):
                producer.put(list(encoder.encode(piece, time.time_ns() // 1_000_000)), receipts)
                receipts.check()
            producer.flush()
            receipts.check()
            patience_ms = None
        finally:
            producer.close(patience_ms)
    except KohortError as error:
        raise _explained(error, options) from error
    return receipts.written()


def _connected(options: SinkOptions) -> "Producer":
    """A producer that reached a broker within ``max_block_ms``: one that restarts is worth the wait."""
    from kohort.client.producer.sync_producer import Producer

    client_id = task_client_id(str(options.settings.get("client_id", _CLIENT_ID)))
    end: float | None = None
    while True:
        producer = Producer(**{**options.settings, "client_id": client_id})
        end = end or time.monotonic() + producer.settings.max_block_ms / 1_000
        pause = producer.settings.retry_backoff_max_ms / 1_000
        try:
            producer.start()
        except NoBrokerError:
            if time.monotonic() + pause >= end:
                raise
        else:
            return producer
        time.sleep(pause)


def _encoder(options: SinkOptions, producer: "Producer") -> "Encoder":
    from kohort.spark.encode import Encoder, Layout

    return Encoder(
        options.topic, producer.settings, lambda topic: Layout(*producer.layout(topic)), random.choice
    )


def _explained(error: KohortError, options: SinkOptions) -> WriteError:
    settings = ProducerSettings(**options.settings)
    hint = in_kafkas_words(error.hint)
    match error:
        case NoBrokerError():
            hint = (
                "is it running, and is kafka.bootstrap.servers right? "
                f"kafka.max.block.ms ({settings.max_block_ms:,}) says how long to try"
            )
        case DeliveryTimeoutError():
            hint = (
                "is the leader reachable from this executor? "
                f"kafka.delivery.timeout.ms ({settings.delivery_timeout_ms:,}) says how long to try"
            )
        case BufferFullError():
            hint = "the brokers take nothing, or too slowly; see kafka.max.block.ms and kafka.buffer.memory"
    return WriteError(options.bootstrap, in_kafkas_words(str(error.args[0])), hint)


def task_client_id(name: str) -> str:
    """How a task introduces itself: with its query and micro-batch, so that a broker's log can name them."""
    context = TaskContext.get()
    if context is None:
        return name
    query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
    job = f"{query}-batch-{batch}" if query else f"stage-{context.stageId()}"
    return f"{name}-{job}-task-{context.partitionId()}.{context.attemptNumber()}"
