"""The log of a Delta table says what has landed, at every moment and after every death."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.spark.pipelines.mortal_files import DiedError, MortalFiles
from tests.unit.spark.pipelines.test_table import FIRST_LIFE, TOPIC, Writer, one_range

pytest.importorskip("pyarrow")
from pyarrow import lib as pa
from pyarrow.parquet import write_table

from kohort.spark.pipelines.compaction import Sizes, compact
from kohort.spark.pipelines.delta_log import CHECKPOINT_EVERY, LOG, DeltaLog, Footer, merged_fields
from kohort.spark.pipelines.files import FileTree, LocalFiles
from kohort.spark.pipelines.ledger import Landing, LedgerPosition, PendingMove
from kohort.spark.pipelines.spans import Span
from kohort.spark.pipelines.table import Table

SCHEMA = pa.schema({"partition": pa.int32(), "offset": pa.int64()})


def without_footers(files: FileTree, table: str) -> DeltaLog:
    return DeltaLog(files, table, lambda _, __: Footer(SCHEMA, 1))


def named(files: MortalFiles | LocalFiles, table: str = TOPIC) -> set[str]:
    """What a reader of Delta finds: by the last checkpoint, if there is one, and the versions behind it."""
    return {f"{table}/{path}" for path in DeltaLog(files, table).snapshot().files}


def actions(root: Path, table: str = "orders") -> list[dict[str, Any]]:
    """All actions of all versions but who wrote them."""
    versions = sorted((root / table / LOG).glob("*.json"))
    found = [json.loads(line) for path in versions for line in path.read_text().splitlines()]
    return [action for action in found if "commitInfo" not in action]


def land(
    root: Path, first: int, *, date: str = "2026-01-01", bad: bool = False, **columns: pa.Array
) -> Table:
    """A record of orders-0 with this offset, in a file of that day."""
    table = Table(LocalFiles(root), "orders", is_delta=True)
    staged = root / "_kohort" / "_staging" / f"{first}.parquet"
    staged.parent.mkdir(parents=True, exist_ok=True)
    content = {"partition": pa.array([0], pa.int32()), "offset": pa.array([first]), **columns}
    write_table(pa.table(content), staged)  # type: ignore[no-untyped-call]  # pyarrow has no types yet
    final = f"{table.bad_path if bad else table.path}/date={date}/{first:06}.parquet"
    landing = Landing(LedgerPosition("id", 0), Span(first, first + 1), 1)
    table.publish([landing], [PendingMove(str(staged.relative_to(root)), final)])
    return table


def test_the_first_landing_is_version_0_with_its_columns_and_files(tmp_path: Path) -> None:
    land(tmp_path, 0, date="2026-01-02")
    protocol, meta, add = actions(tmp_path)
    assert protocol["protocol"]["minReaderVersion"] == 1
    schema = json.loads(meta["metaData"]["schemaString"])
    assert [(one["name"], one["type"]) for one in schema["fields"]] == [
        ("partition", "integer"),
        ("offset", "long"),
        ("date", "date"),
    ]
    file = tmp_path / "orders" / "date=2026-01-02" / "000000.parquet"
    assert add["add"]["path"] == "date=2026-01-02/000000.parquet"
    assert add["add"]["size"] == file.stat().st_size
    assert add["add"]["partitionValues"] == {"date": "2026-01-02"}
    assert json.loads(add["add"]["stats"]) == {"numRecords": 1}


def test_others_are_kept_from_writing_and_not_from_reading(tmp_path: Path) -> None:
    land(tmp_path, 0)
    (protocol,) = (one["protocol"] for one in actions(tmp_path) if "protocol" in one)
    assert protocol == {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["kohortLedger"],
    }


def test_a_landing_is_one_version_and_the_side_table_has_a_log_of_its_own(tmp_path: Path) -> None:
    land(tmp_path, 0)
    land(tmp_path, 1, date="2026-01-02")
    land(tmp_path, 2, bad=True)
    assert len(list((tmp_path / "orders" / LOG).glob("*.json"))) == 2
    assert named(LocalFiles(tmp_path)) == {
        "orders/date=2026-01-01/000000.parquet",
        "orders/date=2026-01-02/000001.parquet",
    }
    assert named(LocalFiles(tmp_path), "orders+bad") == {"orders+bad/date=2026-01-01/000002.parquet"}


def test_columns_that_come_later_are_added_behind_and_none_changes(tmp_path: Path) -> None:
    land(tmp_path, 0, value=pa.array([{"id": 1}]))
    land(tmp_path, 1, value=pa.array([{"id": 1, "item": "pen"}]), note=pa.array(["x"]))
    metas = [one["metaData"] for one in actions(tmp_path) if "metaData" in one]
    assert len({one["id"] for one in metas}) == 1
    fields = json.loads(metas[-1]["schemaString"])["fields"]
    assert [one["name"] for one in fields] == ["partition", "offset", "value", "date", "note"]
    assert [one["name"] for one in fields[2]["type"]["fields"]] == ["id", "item"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.timestamp("us", "UTC"), "timestamp"),
        (pa.timestamp("ns"), "timestamp"),
        (pa.list_(pa.string()), {"type": "array", "elementType": "string", "containsNull": True}),
        (
            pa.map_(pa.string(), pa.float64()),
            {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True},
        ),
        (pa.bool_(), "boolean"),
        (pa.binary(), "binary"),
    ],
)
def test_types_are_named_as_delta_names_them(kind: pa.DataType, expected: object) -> None:
    assert merged_fields([], [pa.schema({"one": kind})])[0]["type"] == expected


def test_files_that_are_merged_change_places_in_one_version_without_new_rows(tmp_path: Path) -> None:
    for number in range(3):
        table = land(tmp_path, number)
    compact([table], tmp_path, Sizes(least=2), lambda: True)
    files = LocalFiles(tmp_path)
    (merged,) = table.parquet_files("orders/date=2026-01-01")
    assert named(files) == {f"orders/date=2026-01-01/{merged.name}"}
    last = max((tmp_path / "orders" / LOG).glob("*.json")).read_text().splitlines()
    changes = [next(iter(json.loads(line).items())) for line in last]
    assert [name for name, _ in changes] == ["commitInfo", "add", "remove", "remove", "remove"]
    assert {one["dataChange"] for name, one in changes if name != "commitInfo"} == {False}


def test_a_table_that_has_landed_as_parquet_is_taken_in_whole(tmp_path: Path) -> None:
    for number in range(2):
        land(tmp_path, number)
    for path in (tmp_path / "orders" / LOG).iterdir():
        path.unlink()
    (tmp_path / "orders" / LOG).rmdir()
    Table(LocalFiles(tmp_path), "orders").recover()
    assert not (tmp_path / "orders" / LOG).exists(), "nobody asked for it"
    land(tmp_path, 2)
    assert len(named(LocalFiles(tmp_path))) == 3


def test_a_log_once_begun_is_kept_by_those_who_do_not_ask_for_it(tmp_path: Path) -> None:
    land(tmp_path, 0)
    (tmp_path / "orders" / "date=2026-01-01" / "000000.parquet").rename(
        tmp_path / "orders" / "date=2026-01-01" / "other.parquet"
    )
    Table(LocalFiles(tmp_path), "orders").recover()
    assert named(LocalFiles(tmp_path)) == {"orders/date=2026-01-01/other.parquet"}


def test_checkpoints_spare_readers_the_old_versions_which_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.spark.pipelines.delta_log.KEPT_VERSIONS", 5)
    for number in range(2 * CHECKPOINT_EVERY + 3):
        land(tmp_path, number, date=f"2026-01-{1 + number % 3:02}")
    files = LocalFiles(tmp_path)
    assert len(named(files)) == 2 * CHECKPOINT_EVERY + 3
    versions = sorted(path.name for path in (tmp_path / "orders" / LOG).glob("*.json"))
    assert versions[0] == f"{2 * CHECKPOINT_EVERY - 5:020}.json"
    last = json.loads((tmp_path / "orders" / LOG / "_last_checkpoint").read_text())
    assert last["version"] == 2 * CHECKPOINT_EVERY


def test_a_version_that_another_program_wrote_is_kept_and_the_next_is_ours(tmp_path: Path) -> None:
    land(tmp_path, 0)
    files = LocalFiles(tmp_path)
    foreign = json.dumps({"txn": {"appId": "theirs", "version": 1}}).encode()
    log = DeltaLog(files, "orders")
    before = log.snapshot()
    (tmp_path / "orders" / LOG / f"{1:020}.json").write_bytes(foreign)
    asked = iter([before])
    real = log.snapshot
    log.snapshot = lambda: next(asked, None) or real()  # type: ignore[method-assign]  # it looks too early
    (tmp_path / "orders" / "date=2026-01-01" / "new.parquet").write_bytes(
        (tmp_path / "orders" / "date=2026-01-01" / "000000.parquet").read_bytes()
    )
    log.follow(["date=2026-01-01"])
    assert (tmp_path / "orders" / LOG / f"{1:020}.json").read_bytes() == foreign
    assert len(named(files)) == 2


@given(st.integers(0, 24), st.booleans())
def test_after_a_death_at_any_step_the_log_has_what_has_landed(step: int, power: bool) -> None:
    files = MortalFiles()

    def writer(name: str) -> Writer:
        made = Writer(files, name)
        made.table = Table(files, TOPIC, is_delta=True, log=without_footers)
        return made

    writer("a").land(one_range(0, 4))
    files.dies_at = step
    try:
        writer("b").land(one_range(4, 8))
    except DiedError:
        if power:
            files.lose_power()
    files.process_died()
    Table(files, TOPIC, log=without_footers).recover()
    there = {path for path in files.content if path.startswith(f"{TOPIC}/date=")}
    assert named(files) == there
    writer("c").land(one_range(0, 8))
    landed = [
        (life, partition, offset)
        for path in named(files)
        for life, partition, offset in json.loads(files.content[path])
    ]
    assert sorted(landed) == [(FIRST_LIFE, 0, offset) for offset in range(8)]
