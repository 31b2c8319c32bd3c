"""JSON values held against a shape that was inferred once: a column, an extra, or bad; never dropped."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.spark.pipelines.json_shape import (
    Fields,
    Parsed,
    ShapeError,
    ddl,
    decode_fields,
    encode_fields,
    infer,
    parse,
)


def inferred(*documents: object) -> Fields:
    fields = infer([json.dumps(document).encode() for document in documents])
    assert fields is not None
    return fields


def types(*documents: object) -> dict[str, str]:
    return {name: ddl(shape) for name, shape in inferred(*documents).items()}


def test_each_kind_of_value_has_its_type() -> None:
    document = {"id": 1, "price": 1.5, "paid": True, "who": "ann", "tags": ["x"], "to": {"city": "Oslo"}}
    assert types(document) == {
        "id": "bigint",
        "price": "double",
        "paid": "boolean",
        "who": "string",
        "tags": "array<string>",
        "to": "struct<`city`: string>",
    }


def test_what_several_records_say_is_merged() -> None:
    assert types({"a": 1, "n": None}, {"a": 1.5, "n": 7}, {"b": "x"}) == {
        "a": "double",
        "n": "bigint",
        "b": "string",
    }


def test_what_is_null_or_of_several_kinds_is_kept_as_json_text() -> None:
    fields = inferred({"a": None, "b": 1, "c": {}, "d": [{}]}, {"b": "x"})
    assert {name: ddl(shape) for name, shape in fields.items()} == {
        "a": "string",
        "b": "string",
        "c": "string",
        "d": "array<string>",
    }
    row = parse(b'{"a": {"deep": [1]}, "b": "x", "c": {"later": true}}', fields).row
    assert row == {"a": '{"deep": [1]}', "b": '"x"', "c": '{"later": true}'}


def test_members_that_differ_in_case_alone_do_not_become_two_columns() -> None:
    fields = inferred({"Id": 1, "id": 2, "": 3})
    assert list(fields) == ["Id"]
    assert parse(b'{"Id": 1, "id": 2, "": 3}', fields) == Parsed({"Id": 1}, '{"id": 2, "": 3}')


def test_nothing_can_be_inferred_without_an_object() -> None:
    assert infer([b"1", b"not json", b"[]", b"null"]) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{", "not JSON: "),
        (b"\xff", "not UTF-8 at byte 0"),
        (b'{"n": NaN}', "not JSON: NaN is not a number"),
        (b'{"n": [-1e400]}', "not JSON: -1e400 is too large"),
        (b'{"n": ' + b"9" * 400 + b".0}", "not JSON: " + "9" * 40 + " is too large"),
        (b"[1]", "an array, not an object"),
        (b'{"id": "x"}', "id is a string, not a bigint"),
        (b'{"id": true}', "id is a boolean, not a bigint"),
        (b'{"id": 9223372036854775808}', "id is 9223372036854775808, out of the range of a bigint"),
        (b'{"id": -1%s}' % (b"0" * 60), f"id is -1{'0' * 38}… (62 digits), out of the range of a bigint"),
        (b'{"price": 9007199254740993}', "price is 9007199254740993, which a double cannot hold exactly"),
        (b'{"to": {"city": 1}}', "to.city is an integer, not a string"),
        (b'{"to": 1}', "to is an integer, not an object"),
        (b'{"tags": [{"t": "x"}, {"u": 1}]}', "tags[1].u is an integer, not known"),
        (b'{"tags": {}}', "tags is an object, not an array"),
        (b'{"s": "\\ud800"}', "half a surrogate pair"),
        (b"[" * 100_000, "nested too deep"),
    ],
)
def test_a_value_that_does_not_fit_is_bad_for_a_reason(value: bytes, reason: str) -> None:
    fields = inferred({"id": 1, "price": 1.5, "to": {"city": "Oslo"}, "tags": [{"t": "x"}], "s": "x"})
    parsed = parse(value, fields)
    assert parsed.row is None
    assert parsed.reason is not None
    assert parsed.reason.startswith(reason)


def test_members_that_came_later_are_kept_as_extras_where_they_were() -> None:
    fields = inferred({"id": 1, "to": {"city": "Oslo"}})
    parsed = parse(b'{"id": 2, "new": [1], "to": {"city": "Rome", "zip": 7}}', fields)
    assert parsed == Parsed({"id": 2, "to": {"city": "Rome"}}, '{"new": [1], "to": {"zip": 7}}')


def test_an_object_with_masses_of_members_has_a_bounded_number_of_columns() -> None:
    fields = inferred({f"key{number}": number for number in range(2_000)})
    assert len(fields) == 500


def test_what_is_nested_deep_is_kept_as_text() -> None:
    deep: dict[str, Any] = {"end": 1}
    for _ in range(30):
        deep = {"x": deep}
    fields = inferred(deep)
    row = parse(json.dumps(deep).encode(), fields).row
    assert row is not None
    assert ddl(fields["x"]).count("struct") < 15


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
objects = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3), json_values, max_size=5
)


@settings(max_examples=40)
@given(st.lists(objects, min_size=1, max_size=3), objects)
def test_any_object_becomes_a_row_or_is_bad_and_its_members_are_all_there(
    sample: list[dict[str, object]], later: dict[str, object]
) -> None:
    fields = inferred(*sample)
    assert decode_fields(encode_fields(fields)) == fields
    parsed = parse(json.dumps(later).encode(), fields)
    if parsed.row is None:
        assert parsed.reason
    else:
        assert parsed.row.keys() | json.loads(parsed.extra or "{}").keys() == later.keys()


@pytest.mark.parametrize("content", [b"", b"{}", b'{"fields": {"a": 1}}', b'{"fields": {"a": ["map", 1]}}'])
def test_a_kept_schema_that_is_damaged_is_refused(content: bytes) -> None:
    with pytest.raises(ShapeError):
        decode_fields(content)
