"""Bad records that fit by now land once, and leave the side table with it."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import lib as pa
from pyarrow.dataset import dataset
from pyarrow.parquet import read_schema, write_table

from kohort.spark.pipelines.compaction import Sizes, compact
from kohort.spark.pipelines.files import LocalFiles
from kohort.spark.pipelines.forms import Evolve
from kohort.spark.pipelines.json_shape import Fields
from kohort.spark.pipelines.ledger import Landing, LedgerPosition, PendingMove
from kohort.spark.pipelines.replay import Replayed, replay_bad
from kohort.spark.pipelines.spans import Span
from kohort.spark.pipelines.table import Table, tables
from kohort.spark.pipelines.table_schema import kept_schema, pin
from kohort.spark.pipelines.values import as_landed, parse_batch

WHEN = datetime.datetime(2026, 11, 16, tzinfo=datetime.UTC)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
FIELDS: Fields = {"id": "bigint"}


class Died(Exception):  # noqa: N818  # what happens to a process
    pass


def raw(values: list[bytes], first: int) -> pa.RecordBatch:
    count = len(values)
    columns = {
        "key": pa.array([None] * count, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array([None] * count, HEADERS),
        "topic": pa.array(["orders"] * count),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(first, first + count), pa.int64()),
        "timestamp": pa.array([WHEN] * count, pa.timestamp("us", "UTC")),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with a column ``id``."""
    found = Table(LocalFiles(tmp_path), "orders", "json")
    found.files.replace("orders/_kohort/schema.json", json.dumps({"version": 1, "fields": FIELDS}).encode())
    return found


def land(table: Table, values: list[bytes], first: int) -> None:
    """As the pipeline does it: good records to the table, the others beside it."""
    files = table.files
    assert isinstance(files, LocalFiles)
    judged = parse_batch(raw(values, first), FIELDS)
    good = as_landed(judged.filter(judged.column("reason").is_null()))
    bad = judged.filter(judged.column("reason").is_valid()).drop_columns(["row", "extra", "evolves"])
    moves = []
    for batch, path in ((good, table.path), (bad, table.bad_path)):
        if batch.num_rows:
            staged = f"_kohort/_staging/{path}-{first}.parquet"
            files.at(staged).parent.mkdir(parents=True, exist_ok=True)
            write_table(pa.Table.from_batches([batch]), files.at(staged))  # type: ignore[no-untyped-call]  # no types yet
            moves.append(PendingMove(staged, f"{path}/date=2026-11-16/{first:06}.parquet"))
    span = Span(first, first + len(values))
    table.publish([Landing(LedgerPosition("life", 0), span, good.num_rows, bad.num_rows)], moves)


def rows(root: Path, name: str) -> list[dict[str, Any]]:
    """What a reader finds, by offset; columns of all files."""
    if not any((root / name).rglob("date=*/*.parquet")):
        return []
    paths = [str(path) for path in (root / name).glob("date=*/*.parquet")]
    schema = pa.unify_schemas([read_schema(path) for path in paths])  # type: ignore[no-untyped-call]  # no types yet
    found = dataset(paths, schema=schema).to_table().to_pylist()  # type: ignore[no-untyped-call]  # same
    return sorted(found, key=lambda row: row["offset"])


def values(root: Path) -> list[Any]:
    return [row["value"] for row in rows(root, "orders")]


def counts(root: Path) -> tuple[int, int]:
    ledger = tables(root)[0].ledger()
    (one,) = ledger.landed.values()
    return one.rows, one.bad


def test_what_fits_by_now_lands_and_the_rest_stays_bad(table: Table, tmp_path: Path) -> None:
    land(table, [b'{"id": 1}', b'{"id": 0.5}', b"oops", b'{"id": "x"}'], 0)
    land(table, [b"[]"], 4)
    assert replay_bad(tmp_path, Evolve.OFF) == [Replayed("orders", 0, 4)]
    assert replay_bad(tmp_path, Evolve.VERSION) == [Replayed("orders", 2, 2)]
    assert values(tmp_path) == [
        {"id": 1, "id__2": None, "id__3": None},
        {"id": None, "id__2": 0.5, "id__3": None},
        {"id": None, "id__2": None, "id__3": "x"},
    ]
    assert [row["offset"] for row in rows(tmp_path, "orders+bad")] == [2, 4]
    assert counts(tmp_path) == (3, 2)
    assert replay_bad(tmp_path, Evolve.VERSION) == [Replayed("orders", 0, 2)], "each lands once"


def test_a_new_contract_lets_bad_records_in(table: Table, tmp_path: Path) -> None:
    land(table, [b'{"id": "x"}'], 0)
    pin(table, {"id": ["versions", {"id": "bigint", "id__2": "text"}]})
    assert replay_bad(tmp_path, Evolve.VERSION) == [Replayed("orders", 1, 0)]
    assert values(tmp_path) == [{"id": None, "id__2": "x"}]
    assert rows(tmp_path, "orders+bad") == []


def test_nothing_to_replay_is_no_trouble(table: Table, tmp_path: Path) -> None:
    assert replay_bad(tmp_path, Evolve.VERSION) == []
    land(table, [b'{"id": 1}'], 0)
    assert replay_bad(tmp_path, Evolve.VERSION) == [Replayed("orders", 0, 0)]
    assert kept_schema(table) is not None


@pytest.mark.parametrize("step", range(9))
def test_a_replay_that_dies_at_any_step_leaves_each_record_in_one_table(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    land(table, [b'{"id": 0.5}', b"oops"], 0)
    land(table, [b'{"id": 1.5}'], 2)
    left = [step]

    def dying(name: str) -> None:
        work = getattr(LocalFiles, name)

        def step_or_die(self: LocalFiles, *arguments: str) -> None:
            if left[0] == 0:
                raise Died
            left[0] -= 1
            work(self, *arguments)

        monkeypatch.setattr(LocalFiles, name, step_or_die)

    with monkeypatch.context():
        for name in ("replace", "move", "remove", "sync"):
            dying(name)
        with pytest.raises(Died):
            replay_bad(tmp_path, Evolve.VERSION)
    monkeypatch.undo()
    (found,) = replay_bad(tmp_path, Evolve.VERSION)
    assert found.still_bad == 1
    assert [row["value"]["id__2"] for row in rows(tmp_path, "orders")] == [0.5, 1.5]
    assert [row["offset"] for row in rows(tmp_path, "orders+bad")] == [1]
    assert counts(tmp_path) == (2, 1)


def test_files_with_other_columns_are_merged_into_one_with_all(table: Table, tmp_path: Path) -> None:
    land(table, [b'{"id": 1}', b'{"id": 0.5}'], 0)
    replay_bad(tmp_path, Evolve.VERSION)
    compact(tables(tmp_path), tmp_path, Sizes(least=2), lambda: True)
    assert len(list((tmp_path / "orders").glob("date=*/*.parquet"))) == 1
    assert values(tmp_path) == [{"id": 1, "id__2": None}, {"id": None, "id__2": 0.5}]
