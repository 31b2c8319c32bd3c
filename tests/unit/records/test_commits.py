"""Plain commits are taken from a batch as they are; whatever else is in it is left to others, in order."""

import pytest

from kohort.model.ids import Partition, TopicId
from kohort.primitives.varint import write_varint
from kohort.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatchError,
    NewRecord,
    Record,
    build_batch,
    read_header,
)
from kohort.records.commits import take_commits
from kohort.records.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from kohort.records.offsets_topic import decode_commit, encode_key, encode_value

T = 1_700_000_000_000
PLAIN = OffsetCommitValue(42, 3, "", T)


def commit(partition: int = 0, value: OffsetCommitValue = PLAIN, topic: str = "t") -> NewRecord:
    return NewRecord(5, encode_key(OffsetCommitKey("g", topic, partition)), encode_value(value))


def beginning(topic: str = "t") -> bytes:
    return encode_key(OffsetCommitKey("g", topic, 0))[:-4]


class Taken:
    """Who is there to take something, and what they got."""

    def __init__(self, *topics: str) -> None:
        self.places: dict[bytes, dict[Partition, bytes] | None] = {beginning(topic): {} for topic in topics}
        self.others: list[Record] = []

    def place(self, topic: str = "t") -> dict[Partition, bytes]:
        found = self.places[beginning(topic)]
        assert found is not None
        return found

    def take(self, *records: NewRecord) -> "Taken":
        batch = build_batch(records)
        return self.take_payload(batch[HEADER_SIZE:], read_header(batch))

    def take_payload(self, payload: bytes, header: BatchHeader) -> "Taken":
        take_commits(payload, header, self.places, self.others.append)
        return self


@pytest.mark.parametrize("topic", ["t", "t" * 30, "t" * 80])  # keys and records with longer lengths
def test_plain_commits_go_to_their_places_by_partition(topic: str) -> None:
    records = [commit(number, OffsetCommitValue(number), topic) for number in range(300)]
    taken = Taken(topic).take(*records)
    assert [decode_commit(value).offset for value in taken.place(topic).values()] == list(range(300))
    assert list(taken.place(topic)) == list(range(300))
    assert not taken.others


def test_the_newest_of_two_commits_of_a_partition_stays() -> None:
    taken = Taken("t").take(commit(1, OffsetCommitValue(5)), commit(1, OffsetCommitValue(4)))
    assert decode_commit(taken.place()[Partition(1)]).offset == 4


@pytest.mark.parametrize(
    "record",
    [
        commit(0, OffsetCommitValue(42, 3, "m", T)),
        commit(0, OffsetCommitValue(42, 3, "", T, expire_timestamp=7)),
        commit(0, OffsetCommitValue(42, 3, "", T, topic_id=TopicId(bytes(15) + b"\x01"))),
        commit()._replace(value=None),
        commit()._replace(value=b""),
        commit()._replace(value=bytes(24)),
        commit()._replace(value=b"\x00\x03" + bytes(12) + b"\x00\x01" + bytes(8)),
        commit()._replace(value=b"\x01\x03" + bytes(22)),
        commit()._replace(headers=[("h", b"v")]),
        commit()._replace(headers=[("", None)]),
        commit()._replace(timestamp=1_000_000),
        commit()._replace(key=None),
        commit()._replace(key=b""),
        commit()._replace(key=b"\x00\x01"),
        NewRecord(5, encode_key(GroupMetadataKey("group")), bytes(24)),
        commit(topic="t" * 9_000),
    ],
)
def test_any_other_record_is_handed_on_as_it_is_read(record: NewRecord) -> None:
    taken = Taken("t")
    taken.places = {beginning(): {}, encode_key(GroupMetadataKey("group"))[:-4]: None}
    taken.take(commit(1), record, commit(2))
    timestamp, key, value, headers = record
    assert [each._replace(headers=list(each.headers)) for each in taken.others] == [
        Record(1, timestamp, key, value, list(headers))
    ]
    assert list(taken.place()) == [1, 2]


def test_a_key_without_a_place_is_handed_on() -> None:
    taken = Taken("t")
    taken.places[beginning("u")] = None
    taken.take(commit(), commit(topic="u"))
    assert [record.offset for record in taken.others] == [1]


def test_places_are_asked_and_others_told_in_the_order_of_the_records() -> None:
    taken = Taken("t")
    seen: list[int | None] = []

    def other(record: Record) -> None:
        seen.append(record.offset)
        taken.place().pop(Partition(0))

    batch = build_batch([commit(), commit()._replace(value=None), commit(1), commit()._replace(value=None)])
    with pytest.raises(KeyError):
        take_commits(batch[HEADER_SIZE:], read_header(batch), taken.places, other)
    assert seen == [1, 3]
    assert list(taken.place()) == [1]


def damaged(payload: bytes) -> list[bytes]:
    longer = bytearray()
    write_varint(longer, 1 << 20)
    return [
        payload[:-1],
        payload + b"\x00",
        payload[:1] + payload,
        bytes([payload[0] | 1]) + payload[1:],  # a negative length
        bytes([payload[0] + 2]) + payload[1:],
        bytes(longer) + payload,
        b"\xff" * len(payload),
        payload[:1] + b"\x00\x00" + b"\x80" * (len(payload) - 3),
        payload[:1] + b"\x00\x00\x80\x80\x80\x80\x80\x80\x00" + payload[9:],  # an offset of too many bytes
        payload[:4] + b"\x03" + payload[5:],  # a key of negative length
        bytes(len(payload)),
    ]


@pytest.mark.parametrize("number", range(11))
def test_a_payload_that_is_no_records_is_refused(number: int) -> None:
    batch = build_batch([commit()])
    payload = batch[HEADER_SIZE:]
    with pytest.raises(CorruptBatchError):
        Taken("t").take_payload(damaged(payload)[number], read_header(batch))


def test_a_payload_too_small_for_its_records_is_refused_before_it_is_read() -> None:
    header = read_header(build_batch([commit()]))._replace(records_count=1 << 30)
    with pytest.raises(CorruptBatchError, match="cannot hold"):
        take_commits(b"", header, {}, lambda record: None)
