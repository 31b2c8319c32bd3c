"""The shape of JSON values as it changes with them: columns come, none goes, none changes its type."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.spark.pipelines.test_json_shape import inferred, objects

from kohort.spark.pipelines.forms import Evolve
from kohort.spark.pipelines.json_evolution import evolved
from kohort.spark.pipelines.json_shape import (
    Fields,
    columns_of,
    ddl,
    decode_fields,
    encode_fields,
    infer,
    parse,
)

KEPT = inferred({"id": 1, "price": 1.5, "who": "ann", "to": {"city": "Oslo"}, "tags": [{"t": 1}], "ns": [1]})


def after(*documents: dict[str, Any], policy: Evolve = Evolve.VERSION, fields: Fields = KEPT) -> Fields:
    for document in documents:
        fields = evolved(fields, document, policy)
    return fields


def types(fields: Fields) -> dict[str, str]:
    return {name: ddl(shape) for name, shape in columns_of(fields).items()}


def row(document: dict[str, Any], fields: Fields) -> Any:  # noqa: ANN401  # as the columns have it
    parsed = parse(json.dumps(document).encode(), fields)
    assert (parsed.reason, parsed.extra) == (None, None)
    return parsed.row


@pytest.mark.parametrize(
    ("document", "policy", "added"),
    [
        ({"new": 1}, Evolve.VERSION, {"new": "bigint"}),
        ({"new": {"a": [True]}}, Evolve.VERSION, {"new": "struct<`a`: array<boolean>>"}),
        ({"id": 1.5}, Evolve.VERSION, {"id__2": "double"}),
        ({"id": 1.5}, Evolve.STRING, {"id__2": "double"}),
        ({"id": "x"}, Evolve.VERSION, {"id__2": "string"}),
        ({"who": 7}, Evolve.VERSION, {"who__2": "bigint"}),
        ({"who": 7}, Evolve.STRING, {"who__2": "string"}),
        ({"who": {"name": "ann"}}, Evolve.VERSION, {"who__2": "struct<`name`: string>"}),
        ({"who": {"name": "ann"}}, Evolve.STRING, {"who__2": "string"}),
        ({"price": 2**60 + 1}, Evolve.VERSION, {"price__2": "bigint"}),
        ({"ns": ["x"]}, Evolve.VERSION, {"ns__2": "array<string>"}),
        ({"to": {"zip": 1}}, Evolve.VERSION, {"to": "struct<`city`: string, `zip`: bigint>"}),
        ({"to": {"city": 1}}, Evolve.VERSION, {"to": "struct<`city`: string, `city__2`: bigint>"}),
        ({"tags": [{"u": "x"}]}, Evolve.VERSION, {"tags": "array<struct<`t`: bigint, `u`: string>>"}),
        ({"id": 2, "who": None, "new": None}, Evolve.VERSION, {}),
        ({"new": 1, "id": "x"}, Evolve.OFF, {}),
        ({"ID": 1, "": 2}, Evolve.VERSION, {}),
    ],
)
def test_what_each_rule_adds(document: dict[str, Any], policy: Evolve, added: dict[str, str]) -> None:
    assert types(after(document, policy=policy)) == types(KEPT) | added


def test_values_go_to_the_newest_column_that_holds_them() -> None:
    fields = after({"id": 1.5})
    assert row({"id": 2}, fields) == {"id__2": 2}
    assert row({"id": 2**60 + 1}, fields) == {"id": 2**60 + 1}, "a double would not hold it exactly"
    assert row({"id": 0.5}, fields) == {"id__2": 0.5}


def test_text_holds_strings_as_they_are_and_all_else_as_json() -> None:
    fields = after({"id": "x"}, policy=Evolve.STRING)
    assert row({"id": "x"}, fields) == {"id__2": "x"}
    assert row({"id": [1]}, fields) == {"id__2": "[1]"}


def test_a_version_does_not_take_the_name_of_a_member() -> None:
    fields = after({"id__2": True}, {"id": "x"})
    assert types(fields) == types(KEPT) | {"id__2": "boolean", "id__3": "string"}


def test_a_member_that_is_named_as_a_version_stays_an_extra() -> None:
    fields = after({"id": "x"}, {"id__2": True})
    assert types(fields) == types(KEPT) | {"id__2": "string"}
    assert parse(b'{"id__2": true}', fields).extra == '{"id__2": true}'


def test_after_many_versions_comes_text() -> None:
    fields = after(*({"id": value} for value in ("x", True, [1], {"a": 1}, [["x"]], [[[0.5]]])))
    assert list(types(fields).values())[:6] == [
        "bigint", "string", "boolean", "array<bigint>", "struct<`a`: bigint>", "string",
    ]  # fmt: skip
    assert row({"id": [["x"]]}, fields) == {"id__6": '[["x"]]'}


def test_columns_and_depth_are_bounded() -> None:
    wide = after({f"key{number}": 1 for number in range(2_000)})
    assert len(columns_of(wide)) == 500
    deep: dict[str, Any] = {"end": 1}
    for _ in range(60):
        deep = {"to": deep}
        fields = after(deep)
        assert ddl(fields["to"]).count("struct") < 15


@pytest.mark.slow
@given(st.lists(objects, min_size=1, max_size=5), st.sampled_from([Evolve.VERSION, Evolve.STRING]))
def test_all_that_came_fits_and_no_column_goes_or_changes(
    documents: list[dict[str, Any]], policy: Evolve
) -> None:
    fields = infer([json.dumps(documents[0]).encode()])
    assert fields is not None
    for number, document in enumerate(documents):
        before, fields = fields, evolved(fields, document, policy)
        if "struct" not in str(before):
            assert types(before).items() <= types(fields).items()
        assert evolved(fields, document, policy) is fields, "nothing is left to do"
        assert decode_fields(encode_fields(fields)) == fields
        for one in documents[: number + 1]:
            assert parse(json.dumps(one).encode(), fields).row is not None
