"""What a caller hands in, as the bytes of a record and its partition."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from kohort.client.producer.records import (
    Sticky,
    header_list,
    in_bytes,
    murmur2,
    partition_for_key,
    record_size,
)
from kohort.model.errors import KohortError
from kohort.records.batch import NewRecord, build_batch


def test_bytes_and_null_pass_without_a_serializer() -> None:
    assert in_bytes("key", b"k", None) == b"k"
    assert in_bytes("value", None, None) is None
    assert in_bytes("value", bytearray(b"v"), None) == b"v"


def test_text_is_refused_with_the_setting_to_look_at() -> None:
    with pytest.raises(TypeError, match="a value must be bytes or None, not str; see value_serializer"):
        in_bytes("value", "text", None)


def test_a_serializer_makes_the_bytes() -> None:
    assert in_bytes("value", {"a": 1}, lambda value: json.dumps(value).encode()) == b'{"a": 1}'


def test_a_serializer_that_makes_something_else_is_named() -> None:
    with pytest.raises(TypeError, match="key_serializer returned str"):
        in_bytes("key", 1, str)  # type: ignore[arg-type] # wrong on purpose


def test_headers_come_as_pairs_or_as_a_mapping() -> None:
    assert header_list({"a": b"1", "b": None}) == [("a", b"1"), ("b", None)]
    assert header_list([("a", b"1"), ("a", b"2")]) == [("a", b"1"), ("a", b"2")]


@pytest.mark.parametrize("wrong", [[("a", "1")], [(b"a", b"1")], [("a", b"1", 5)], "ab", [5]])
def test_what_is_no_header_is_refused(wrong: Any) -> None:  # noqa: ANN401 (wrong on purpose)
    with pytest.raises(KohortError, match="is not a header"):
        header_list(wrong)


def test_a_record_is_never_larger_than_it_was_counted() -> None:
    headers = [("näme", b"x" * 300), ("b", None)]
    record = NewRecord(0, b"k" * 70, b"v" * 20_000, headers)

    assert len(build_batch([record])) <= 61 + record_size(record.key, record.value, headers)


def _first(numbers: Sequence[int]) -> int:
    return numbers[0]


def test_records_stick_to_a_partition_until_a_batch_is_full_of_them() -> None:
    sticky = Sticky(100, _first)

    assert [sticky.place("orders", [0, 1], 40) for _ in range(7)] == [0, 0, 0, 1, 1, 1, 0]


def test_each_topic_has_its_own_partition() -> None:
    sticky = Sticky(100, _first)
    sticky.place("orders", [0, 1], 100)

    assert sticky.place("orders", [0, 1], 1) == 1
    assert sticky.place("bills", [0, 1], 1) == 0


def test_a_partition_that_lost_its_leader_is_left_at_once() -> None:
    sticky = Sticky(100, _first)
    sticky.place("orders", [0, 1], 1)

    assert sticky.place("orders", [1], 1) == 1


def test_a_single_partition_takes_all() -> None:
    sticky = Sticky(10, _first)

    assert [sticky.place("orders", [3], 10) for _ in range(3)] == [3, 3, 3]


@pytest.mark.parametrize(
    ("key", "java"),
    [
        # The values Kafka's own tests expect of Utils.murmur2.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_of_a_key_is_that_of_java(key: bytes, java: int) -> None:
    assert murmur2(key) == java & 0xFFFFFFFF


def test_an_empty_key_is_a_key() -> None:
    assert partition_for_key(b"", 7) == (murmur2(b"") & 0x7FFFFFFF) % 7
