"""Records out of what one Fetch brought."""

import pytest
from tests.unit.records.markers import end_marker

from kohort.client.fetching import chunk as chunk_module
from kohort.client.fetching.chunk import BadRecordError, Chunk, Reading
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.records.batch import BatchFields, NewRecord, build_batch
from kohort.records.compression import Codec
from kohort.records.control import ControlType
from kohort.wire.messages.fetch import AbortedTransaction, PartitionData

TP = TopicPartition(TopicName("t"), Partition(0))


@pytest.fixture(autouse=True, params=[1, 1 << 30], ids=["at once", "one by one"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test twice: with batches read together, and one after the other."""
    monkeypatch.setattr(chunk_module, "_WORTH_NUMPY", request.param)


def batch(base: int, *values: bytes, codec: Codec = Codec.NONE, producer: int = -1) -> bytes:
    records = [NewRecord(1_000 + at, b"k", value) for at, value in enumerate(values)]
    fields = BatchFields(base_offset=base, leader_epoch=3, codec=codec)
    if producer >= 0:
        fields = fields._replace(transactional=True, producer_id=producer, producer_epoch=0, base_sequence=0)
    return build_batch(records, fields)


def marker(base: int, producer: int, kind: ControlType) -> bytes:
    fields = BatchFields(base_offset=base, leader_epoch=3, producer_id=producer, producer_epoch=0)
    return end_marker(kind, 1_000, fields)


def chunk(
    blob: bytes, *, at: int = 0, reading: Reading | None = None, aborted: tuple[tuple[int, int], ...] = ()
) -> Chunk:
    gone = [AbortedTransaction(producer_id=who, first_offset=first) for who, first in aborted]
    answered = PartitionData(records=blob, aborted_transactions=gone)
    return Chunk(TP, at, answered, reading or Reading())


def values(taken: Chunk, limit: int = 100) -> list[object]:
    return [record.value for record in taken.take(limit)]


def test_records_below_the_position_are_left_out() -> None:
    read = chunk(batch(0, b"a", b"b", b"c"), at=1)
    taken = read.take(100)
    assert [(one.offset, one.value, one.leader_epoch) for one in taken] == [(1, b"b", 3), (2, b"c", 3)]
    assert (read.next_offset, read.epoch, read.is_drained) == (3, 3, True)


def test_a_limit_leaves_the_rest_for_later() -> None:
    read = chunk(batch(0, b"a", b"b") + batch(2, b"c", b"d"))
    assert values(read, 3) == [b"a", b"b", b"c"]
    assert read.next_offset == 3
    assert not read.is_drained
    assert values(read, 3) == [b"d"]
    assert read.is_drained


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_read(codec: Codec) -> None:
    assert values(chunk(batch(0, b"a" * 100, b"b", codec=codec))) == [b"a" * 100, b"b"]


def test_after_a_compacted_batch_the_next_offset_is_behind_all_of_it() -> None:
    blob = bytearray(batch(10, b"a"))
    blob[23:27] = (4).to_bytes(4, "big")  # last offset delta: the tail has been compacted away
    read = chunk(bytes(blob), at=10, reading=Reading(check_crcs=False))
    assert values(read) == [b"a"]
    assert read.next_offset == 15


def test_control_batches_move_the_position_and_give_nothing() -> None:
    read = chunk(marker(5, 7, ControlType.COMMIT), at=5)
    assert read.take(10) == []
    assert read.next_offset == 6


def test_read_committed_leaves_out_aborted_transactions_only() -> None:
    blob = (
        batch(0, b"gone", producer=7)
        + batch(1, b"other", producer=8)
        + marker(2, 7, ControlType.ABORT)
        + batch(3, b"kept", producer=7)
        + marker(4, 7, ControlType.COMMIT)
    )
    read = chunk(blob, reading=Reading(read_committed=True), aborted=((7, 0),))
    assert values(read) == [b"other", b"kept"]
    assert read.next_offset == 5
    assert values(chunk(blob)) == [b"gone", b"other", b"kept"]


def test_a_damaged_batch_is_reported_after_the_good_ones_and_again_each_time() -> None:
    bad = bytearray(batch(1, b"b"))
    bad[-1] ^= 1
    read = chunk(batch(0, b"a") + bytes(bad))
    assert values(read) == [b"a"]
    for _ in range(2):
        with pytest.raises(BadRecordError, match=r"offset 1.*checksum"):
            read.take(10)
    assert read.next_offset == 1


def test_a_record_its_deserializer_refuses_stays_where_it_is() -> None:
    read = chunk(batch(0, b"1", b"x", b"3"), reading=Reading(value_deserializer=int))
    assert values(read) == [1]
    with pytest.raises(BadRecordError, match="offset 1"):
        read.take(10)
    assert read.next_offset == 1


def test_deserializers_see_keys_and_values_but_no_nulls() -> None:
    blob = build_batch([NewRecord(0, None, None), NewRecord(0, b"k", b"v")], BatchFields())
    reading = Reading(key_deserializer=bytes.decode, value_deserializer=bytes.decode)
    assert [(one.key, one.value) for one in chunk(blob, reading=reading).take(9)] == [
        (None, None),
        ("k", "v"),
    ]


def test_a_batch_cut_off_at_the_end_is_not_there() -> None:
    read = chunk(batch(0, b"a") + batch(1, b"b")[:-3])
    assert values(read) == [b"a"]
    assert values(read) == []
    assert read.is_drained
    assert read.next_offset == 1


def test_headers_come_with_the_records_that_have_them() -> None:
    records = [
        NewRecord(0, None, b"a"),
        NewRecord(0, None, b"b", [("one", b"1"), ("none", None), ("empty", b"")]),
        NewRecord(0, None, b"c"),
        NewRecord(0, None, b"d", [("two", b"2")]),
    ]
    read = chunk(build_batch(records, BatchFields()))
    assert [list(one.headers) for one in read.take(3)] == [list(one.headers) for one in records[:3]]
    assert [list(one.headers) for one in read.take(3)] == [[("two", b"2")]]


def test_each_record_has_the_epoch_and_the_kind_of_timestamp_of_its_batch() -> None:
    later = BatchFields(base_offset=1, leader_epoch=4, append_time=77)
    read = chunk(batch(0, b"a") + build_batch([NewRecord(5, b"k", b"b")], later))
    assert [(one.leader_epoch, one.timestamp, one.timestamp_type) for one in read.take(1)] == [(3, 1_000, 0)]
    assert read.epoch == 3
    assert [(one.leader_epoch, one.timestamp, one.timestamp_type) for one in read.take(1)] == [(4, 77, 1)]
    assert read.epoch == 4


def test_markers_at_the_end_are_passed_when_somebody_comes_for_more() -> None:
    read = chunk(batch(0, b"a", producer=7) + marker(1, 7, ControlType.COMMIT))
    assert values(read, 1) == [b"a"]
    assert (read.next_offset, read.is_drained) == (1, False)
    assert values(read, 1) == []
    assert (read.next_offset, read.is_drained) == (2, True)


def test_what_somebody_else_took_is_not_taken_again() -> None:
    read = chunk(batch(0, b"a", b"b", b"c") + batch(3, b"d"))
    assert values(read, 1) == [b"a"]
    read.go_on(2, 3, drained=False)
    assert values(read) == [b"c", b"d"]
    read.go_on(4, 3, drained=True)
    assert read.is_drained


def test_a_batch_that_begins_before_the_one_in_front_of_it_ended_gives_what_is_new() -> None:
    read = chunk(batch(0, b"a", b"b", b"c") + batch(1, b"x", b"y", b"d"))
    assert values(read, 2) == [b"a", b"b"]
    assert values(read) == [b"c", b"d"]
    assert read.next_offset == 4


@pytest.mark.parametrize(
    "fields",
    [[b"12", b"34", b"56"], [None, None, None], [b"", b"", b""], [b"1", None, b"3"], [b"1", b"", b"\0\0"],
     [b"x" * 2_000, b"y" * 2_000], [b"\0", b"\0"]],
)  # fmt: skip
def test_keys_and_values_come_out_as_they_went_in(fields: list[bytes | None]) -> None:
    records = [NewRecord(0, one, other) for one, other in zip(fields, reversed(fields), strict=True)]
    read = chunk(build_batch(records, BatchFields()))
    assert [(one.key, one.value) for one in read.take(9)] == [(one.key, one.value) for one in records]


def test_portions_of_any_size_make_up_the_whole() -> None:
    blob = b"".join(batch(at, *(b"%d" % (at + more) for more in range(300))) for at in range(0, 2_100, 300))
    read = chunk(blob)
    found: list[object] = []
    for limit in (1, 2, 255, 256, 3, 1_024, 1, 5_000):
        portion = values(read, limit)
        assert len(portion) == min(limit, 2_100 - len(found))
        found += portion
        assert read.next_offset == len(found)
    assert found == [b"%d" % number for number in range(2_100)]
    assert read.is_drained


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_a_log_inside_a_larger_reply_is_read_in_place(kind: type[bytes] | type[bytearray]) -> None:
    log = batch(0, b"a", b"b") + batch(2, b"c")
    reply = memoryview(kind(b"before" + log + b"behind"))
    read = Chunk(TP, 0, PartitionData(records=reply[6 : 6 + len(log)]), Reading())
    assert values(read, 2) == [b"a", b"b"]
    assert (read.next_offset, read.is_drained) == (2, False)
    assert values(read) == [b"c"]
    assert read.is_drained
