"""The schema beside a table: evolved by values, pinned by a contract."""

import json
from pathlib import Path

import pytest

from kohort.spark.pipelines.files import LocalFiles
from kohort.spark.pipelines.forms import Evolve
from kohort.spark.pipelines.table import Table
from kohort.spark.pipelines.table_schema import (
    ContractError,
    TableSchema,
    keep_evolved,
    keep_inferred,
    kept_schema,
    pin,
    read_contract,
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(LocalFiles(tmp_path), "orders")


def test_the_first_values_decide_once(table: Table) -> None:
    assert kept_schema(table) is None
    assert keep_inferred(table, list) is None, "there is nothing to infer from"
    assert keep_inferred(table, lambda: [b'{"id": 1}']) == TableSchema({"id": "bigint"})
    assert keep_inferred(table, lambda: [b'{"id": "x"}']) == kept_schema(table)


def test_values_evolve_what_is_kept_by_whoever_kept_it(table: Table) -> None:
    keep_inferred(table, lambda: [b'{"id": 1}'])
    keep_evolved(table, [b'{"id": 0.5}', b"no json", b"[1]"], Evolve.VERSION)
    after = keep_evolved(table, [b'{"who": "ann"}'], Evolve.VERSION)
    wanted = {"id": ["versions", {"id": "bigint", "id__2": "double"}], "who": "string"}
    assert after.fields == wanted
    assert kept_schema(table) == after


def test_a_pinned_schema_does_not_evolve(table: Table) -> None:
    pin(table, {"id": "bigint"})
    assert keep_evolved(table, [b'{"id": "x", "new": 1}'], Evolve.VERSION) == TableSchema(
        {"id": "bigint"}, True
    )


def test_a_contract_may_add_columns_also_in_objects(table: Table) -> None:
    keep_inferred(table, lambda: [b'{"id": 1, "to": {"city": "Oslo"}}'])
    contract = read_contract(
        json.dumps(
            {"orders": {"id": "bigint", "to": ["struct", {"city": "string", "zip": "bigint"}], "x": "text"}}
        ).encode()
    )
    pin(table, contract["orders"])
    assert kept_schema(table) == TableSchema(contract["orders"], is_pinned=True)


@pytest.mark.parametrize(
    ("contract", "message"),
    [
        ({"to": ["struct", {"city": "string"}]}, "has a column id bigint, the contract has none"),
        (
            {"id": "string", "to": ["struct", {"city": "string"}]},
            "has a column id bigint, the contract has string",
        ),
        (
            {"id": "bigint", "to": ["struct", {"zip": "bigint"}]},
            "has a column to.city string, the contract has none",
        ),
    ],
)
def test_a_contract_cannot_take_columns_away_or_change_them(
    table: Table, contract: dict[str, object], message: str
) -> None:
    before = keep_inferred(table, lambda: [b'{"id": 1, "to": {"city": "Oslo"}}'])
    with pytest.raises(ContractError, match=message):
        pin(table, read_contract(json.dumps({"orders": contract}).encode())["orders"])
    assert kept_schema(table) == before


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b'{"orders": 1}', b'{"orders": {"id": "int"}}', b'{"orders": {"id": ["list", "x"]}}'],
)
def test_a_contract_that_makes_no_sense_is_refused(content: bytes) -> None:
    with pytest.raises(ContractError, match="the contract cannot be read"):
        read_contract(content)
