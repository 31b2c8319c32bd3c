"""What one Fetch brought for one partition, decoded a batch at a time as the application takes records."""

from kohort.client.fetching.aborted import AbortedProducers
from kohort.client.fetching.bulk import open_bulk
from kohort.client.fetching.errors import BadRecordError
from kohort.client.fetching.records import ConsumerRecord, Reading
from kohort.client.subscription import NO_EPOCH
from kohort.model.topics import TopicPartition
from kohort.records.batch import HEADER_SIZE, BatchHeader, CorruptBatchError, check_crc, read_records
from kohort.records.header import batches
from kohort.wire.messages.fetch import PartitionData


class Chunk:
    """A piece of one partition's log. ``next_offset`` and ``epoch`` move with what is taken."""

    __slots__ = (
        "_aborted", "_at", "_batch", "_bulk", "_cursor", "_records", "answered", "blob", "epoch",
        "next_offset", "partition", "reading",
    )  # fmt: skip

    def __init__(
        self, partition: TopicPartition, fetch_offset: int, answered: PartitionData, reading: Reading
    ) -> None:
        self.partition = partition
        self.answered = answered
        self.next_offset = fetch_offset
        self.epoch = NO_EPOCH  # of the last batch records were taken from
        self.reading = reading
        self.blob = answered.records if isinstance(answered.records, bytes | memoryview) else b""
        self._batch: BatchHeader | None = None
        self._bulk = open_bulk(self.blob)
        self._begin()

    def _begin(self) -> None:
        aborted = self.answered.aborted_transactions or ()
        self._aborted = AbortedProducers(aborted) if self.reading.read_committed else None
        self._cursor = 0
        self._records: list[ConsumerRecord] = []
        self._at = 0

    def __repr__(self) -> str:
        return f"<Chunk of {self.partition} at offset {self.next_offset}, byte {self._cursor}>"

    @property
    def error_code(self) -> int:
        return self.answered.error_code

    @property
    def is_drained(self) -> bool:
        """Nothing more can come out of it."""
        return self._at >= len(self._records) and len(self.blob) - self._cursor < HEADER_SIZE

    def go_on(self, offset: int, epoch: int, *, drained: bool) -> None:
        """Behind what somebody else took out of ``blob``: at ``offset``, or with nothing left."""
        self._begin()
        self.next_offset, self.epoch = offset, epoch
        if drained:
            self._cursor = len(self.blob)

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Up to ``limit`` records.

        Raises BadRecordError if the very next one cannot be read, as often as it is asked; those before it
        are returned first.
        """
        taken: list[ConsumerRecord] = []
        try:
            while len(taken) < limit and (self._at < len(self._records) or self._next_batch()):
                self._take_from_batch(taken, limit)
        except BadRecordError:
            if not taken:
                raise
        return taken

    def _next_batch(self) -> bool:
        """Make the records of the next batch ready, passing those without any; False at the end."""
        while True:
            try:
                found = next(batches(self.blob, self._cursor), None)
                if found is None:
                    self._cursor = len(self.blob)
                    return False
                records = self._read(*found)
            except CorruptBatchError as error:
                raise BadRecordError(self.partition, self.next_offset, error) from error
            at, header = found
            self._cursor = at + header.size
            self._batch = header
            first = self.next_offset
            self._at = 0
            if header.base_offset < first:  # only the batch a position lies in has others
                records = [record for record in records if record.offset >= first]
            self._records = records
            if self._records:
                return True
            self._pass_batch(header)

    def _read(self, at: int, header: BatchHeader) -> list[ConsumerRecord]:
        if self.reading.check_crcs:
            check_crc(self.blob, at, header)
        skipped = self._aborted is not None and self._aborted.skips(header)
        if header.is_control:
            if self._aborted is not None:
                self._aborted.see_marker(self.blob, at, header)
            return []
        if skipped:
            return []
        records = self._bulk.records(self.partition, at, header) if self._bulk is not None else None
        return self._read_alone(at, header) if records is None else records

    def _read_alone(self, at: int, header: BatchHeader) -> list[ConsumerRecord]:
        topic, number = self.partition
        tail = (header.partition_leader_epoch, int(header.is_log_append_time))
        new, start = tuple.__new__, (topic, number)  # half the time of calling the class
        return [new(ConsumerRecord, start + one + tail) for one in read_records(self.blob, at, header)]

    def _take_from_batch(self, taken: list[ConsumerRecord], limit: int) -> None:
        batch = self._batch
        assert batch is not None
        until = min(self._at + limit - len(taken), len(self._records))
        if self.reading.deserializes:
            self._take_deserialized(batch, until, taken)
        else:
            taken += self._records[self._at : until]
            self._at = until
        self._moved(batch)

    def _take_deserialized(self, batch: BatchHeader, until: int, taken: list[ConsumerRecord]) -> None:
        key_of, value_of = self.reading.key_deserializer, self.reading.value_deserializer
        for one in self._records[self._at : until]:
            try:
                key = one.key if key_of is None or one.key is None else key_of(one.key)
                value = one.value if value_of is None or one.value is None else value_of(one.value)
            except Exception as error:
                self.next_offset = one.offset
                raise BadRecordError(
                    self.partition, one.offset, f"a deserializer raised {error!r}"
                ) from error
            taken.append(one._replace(key=key, value=value))
            self._at += 1
            self._moved(batch)

    def _moved(self, batch: BatchHeader) -> None:
        if self._at >= len(self._records):
            self._pass_batch(batch)  # compaction may have removed the last records of it
        else:
            self.next_offset = self._records[self._at - 1].offset + 1
            self.epoch = batch.partition_leader_epoch

    def _pass_batch(self, batch: BatchHeader) -> None:
        self.next_offset = max(self.next_offset, batch.next_offset)
        self.epoch = batch.partition_leader_epoch
