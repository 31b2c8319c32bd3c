"""Batches that came encoded travel like those the producer made: numbered, halved, in order."""

from tests.unit.client.producer.lanes import HERE, NODE, RECORD, Waiter, accumulator

from kohort.client.producer import Producer
from kohort.client.producer.batch import Block, BlockBatch, Numbering
from kohort.model.errors import KohortError
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.records.batch import NewRecord, read_header, read_records
from kohort.records.build import encode_payload
from kohort.records.compression import Codec
from kohort.testing import Broker


class RecordingReceipt:
    """A receipt that remembers."""

    def __init__(self) -> None:
        self.stretches: list[tuple[int, int]] = []
        self.errors: list[KohortError] = []

    def stored(self, _partition: TopicPartition, base_offset: int, records: int) -> None:
        self.stretches.append((base_offset, records))

    def failed(self, error: KohortError) -> None:
        self.errors.append(error)


def block(*values: bytes, partition: TopicPartition = HERE, codec: Codec = Codec.NONE) -> Block:
    return Block(partition, encode_payload([NewRecord(5, b"k", value) for value in values], codec))


def test_a_block_is_numbered_when_it_leaves_and_does_not_linger() -> None:
    lanes, told = accumulator(linger_ms=10_000), RecordingReceipt()
    lanes.put(block(b"a", b"b", codec=Codec.ZSTD), told)
    assert lanes.ready(0) == [HERE]
    batch = lanes.take(HERE, NODE, 10_000)
    assert batch is not None
    header = read_header(batch.encode(Codec.NONE))
    assert (header.producer_id, header.base_sequence, header.records_count) == (7, 0, 2)
    assert header.codec == Codec.ZSTD
    lanes.settle(batch, stored=True)
    batch.succeed(40)
    assert told.stretches == [(40, 2)]
    assert lanes.buffered == 0


def test_no_record_joins_a_block() -> None:
    lanes = accumulator(records=100)
    lanes.put(block(b"a"), RecordingReceipt())
    lanes.add(HERE, NewRecord(5, b"k", b"b"), RECORD, Waiter())
    first = lanes.take(HERE, NODE, 10_000)
    assert first is not None
    assert [record.value for record in read_records(first.encode(Codec.NONE))] == [b"a"]


def test_the_halves_of_a_block_have_its_records_and_its_numbers() -> None:
    told = RecordingReceipt()
    batch = BlockBatch(block(b"a", b"b", b"c", codec=Codec.LZ4), told, (4,), 0, 100)
    batch.renumber(Numbering(7, 1, 20))
    first, second = batch.halves()
    assert [first.order, second.order] == [(4, 0), (4, 1)]
    found = [read_records(half.encode(Codec.NONE)) for half in (first, second)]
    assert [[record.value for record in records] for records in found] == [[b"a"], [b"b", b"c"]]
    headers = [read_header(half.encode(Codec.NONE)) for half in (first, second)]
    assert [(header.base_sequence, header.codec) for header in headers] == [(20, 3), (21, 3)]
    second.succeed(9)
    first.fail(KohortError("lost"))
    assert told.stretches == [(9, 2)]
    assert [str(error) for error in told.errors] == ["lost"]


def test_blocks_and_records_keep_their_order() -> None:
    place, told = TopicPartition(TopicName("orders"), Partition(0)), RecordingReceipt()
    with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
        assert producer.layout("orders")[1] == [0]
        before = producer.send("orders", b"1", partition=0)
        producer.put([block(b"2", b"3", partition=place)], told)
        after = producer.send("orders", b"4", partition=0)
        producer.flush(10)
        assert (before.result(0).offset, told.stretches, after.result(0).offset) == (0, [(1, 2)], 3)
