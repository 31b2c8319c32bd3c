"""Rows of Arrow become blocks: which topic, which partition, in which order, and what is refused."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from pyarrow import lib as pa

from kohort.client.errors import RecordTooLargeError
from kohort.client.producer.batch import Block
from kohort.client.producer.records import partition_for_key
from kohort.client.producer.settings import ProducerSettings
from kohort.records.batch import Record, read_records
from kohort.records.build import frame_payload
from kohort.spark import encode
from kohort.spark.encode import Encoder, Layout, RowError, in_pieces

NOW = 1_700_000_000_000
PARTITIONS = 5
TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
}


def rows(types: dict[str, Any] | None = None, **columns: Sequence[object]) -> pa.RecordBatch:
    kinds = {**TYPES, **(types or {})}
    arrays = [pa.array(values, kinds.get(name, pa.int64())) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def encoder(topic: str | None = "orders", **settings: Any) -> Encoder:  # noqa: ANN401 (any setting)
    available = list(range(PARTITIONS))
    return Encoder(
        topic, ProducerSettings(**settings), lambda _: Layout(PARTITIONS, available), random.Random(3).choice
    )


def read(blocks: Sequence[Block]) -> dict[tuple[str, int], list[Record]]:
    found: dict[tuple[str, int], list[Record]] = {}
    for block in blocks:
        records = found.setdefault((block.partition.topic, block.partition.partition), [])
        records += read_records(frame_payload(block.payload))
    return found


def test_records_go_by_key_and_keep_their_order() -> None:
    keys = [str(number % 40).encode() for number in range(500)]
    values = [str(number) for number in range(500)]
    found = read(list(encoder().encode(rows({"value": pa.string()}, key=keys, value=values), NOW)))
    expected: dict[tuple[str, int], list[bytes]] = {}
    for key, value in zip(keys, values, strict=True):
        expected.setdefault(("orders", partition_for_key(key, PARTITIONS)), []).append(value.encode())
    assert {place: [record.value for record in records] for place, records in found.items()} == expected
    assert {record.timestamp for records in found.values() for record in records} == {NOW}


def test_the_partition_column_wins_over_the_key_unless_it_is_null() -> None:
    batch = rows(key=[b"a", b"a", b"a"], value=[b"1", b"2", b"3"], partition=[3, None, 0])
    found = read(list(encoder().encode(batch, NOW)))
    by_key = partition_for_key(b"a", PARTITIONS)
    expected = {("orders", 3): [b"1"], ("orders", by_key): [b"2"], ("orders", 0): [b"3"]}
    assert {place: [record.value for record in records] for place, records in found.items()} == expected


def test_rows_without_a_key_stay_together_until_a_batch_is_full() -> None:
    small = list(encoder().encode(rows(value=[b"v"] * 50), NOW))
    assert len(small) == 1
    many = list(encoder(batch_size=1_000).encode(rows(value=[b"v" * 69] * 400), NOW))
    found = read(many)
    assert sum(map(len, found.values())) == 400
    assert len(found) == PARTITIONS
    assert all(block.payload.records_count <= 10 for block in many)


def test_the_topic_column_is_used_unless_a_topic_is_given() -> None:
    batch = rows(value=[b"1", b"2", b"3"], topic=["a", "b", "a"], partition=[0, 0, 0])
    by_column = read(list(encoder(None).encode(batch, NOW)))
    assert {place: [r.value for r in found] for place, found in by_column.items()} == {
        ("a", 0): [b"1", b"3"],
        ("b", 0): [b"2"],
    }
    assert set(read(list(encoder("given").encode(batch, NOW)))) == {("given", 0)}


def test_headers_nulls_and_columns_of_other_names() -> None:
    headers = [[("a", b"1"), ("a", None)], None, []]
    batch = rows(
        value=[b"1", None, b""], key=[None, b"", b"k"], headers=headers, offset=[7, 8, 9], partition=[0] * 3
    )
    [[first, second, third]] = read(list(encoder().encode(batch, NOW))).values()
    assert (first.key, first.value, list(first.headers)) == (None, b"1", [("a", b"1"), ("a", None)])
    assert (second.key, second.value, list(second.headers)) == (b"", None, [])
    assert (third.key, third.value, list(third.headers)) == (b"k", b"", [])


def test_large_types_and_slices_are_read_as_plain_ones() -> None:
    kinds = {"key": pa.large_binary(), "value": pa.large_string()}
    batch = rows(kinds, key=[b"x", b"a", b"b"], value=["0", "1", None], partition=[3, 1, 1]).slice(1)
    [records] = read(list(encoder().encode(batch, NOW))).values()
    assert [(record.key, record.value) for record in records] == [(b"a", b"1"), (b"b", None)]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"value": [b"1", b"2"], "topic": ["a", None]}, "the topic of 1 of 2 rows is null"),
        (
            {"value": [b"1"], "topic": ["a"], "partition": [5]},
            "partition 5 of topic 'a', which has the partitions 0 to 4",
        ),
        ({"value": [b"1"], "topic": ["a"], "partition": [-2]}, "a row says partition -2"),
    ],
)
def test_a_row_that_fits_nowhere_is_named(columns: dict[str, Sequence[object]], words: str) -> None:
    with pytest.raises(RowError, match=words):
        list(encoder(None).encode(rows(None, **columns), NOW))


def test_a_record_larger_than_a_request_is_refused() -> None:
    with pytest.raises(RecordTooLargeError, match="larger than"):
        list(encoder(max_request_size=1_000).encode(rows(value=[b"v" * 1_000]), NOW))


def test_every_batch_fits_the_batch_size() -> None:
    blocks = list(
        encoder(batch_size=2_000, compression_type="zstd").encode(rows(value=[b"v" * 150] * 90), NOW)
    )
    assert max(block.payload.records_count for block in blocks) == 2_000 // (150 + 31)
    assert sum(block.payload.records_count for block in blocks) == 90


def test_small_batches_are_encoded_together_and_huge_ones_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    small = [rows(value=[b"v" * 40] * count) for count in (3, 0, 4)]
    assert [piece.num_rows for piece in in_pieces(small)] == [7]
    monkeypatch.setattr(encode, "GATHERED", 200)
    assert [piece.num_rows for piece in in_pieces([*small, rows(value=[b"v" * 200])])] == [7, 1]
    monkeypatch.setattr(encode, "LARGEST", 300)
    pieces = list(in_pieces([rows(value=[str(number).encode() * 10 for number in range(40)])]))
    assert all(piece.nbytes <= 300 or piece.num_rows == 1 for piece in pieces)
    assert [value for piece in pieces for value in piece.column("value").to_pylist()] == [
        str(number).encode() * 10 for number in range(40)
    ]
    assert list(in_pieces([])) == []
