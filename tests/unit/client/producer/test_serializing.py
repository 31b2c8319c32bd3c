import json
from typing import Any

import pytest

from kohort.client.producer.serializing import header_list, in_bytes, record_size
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
    with pytest.raises(KohortError, match="is no header"):
        header_list(wrong)


def test_a_record_is_never_larger_than_it_was_counted() -> None:
    headers = [("näme", b"x" * 300), ("b", None)]
    record = NewRecord(0, b"k" * 70, b"v" * 20_000, headers)

    assert len(build_batch([record])) <= 61 + record_size(record.key, record.value, headers)
