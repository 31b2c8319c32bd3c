"""What if, over a lake: the answer of the command, and results that do not depend on Spark's tasks."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.lake.recorded_lives import lake_rows
from typer.testing import CliRunner

from kohort.cli import lake as lake_cli
from kohort.lake import schemas
from kohort.lake.store import Lake, Manifest, with_load, write_dated
from kohort.lake.whatif.happenings import ClientSettings
from kohort.lake.whatif.lives import make_life
from kohort.lake.whatif.settings import parse_changes, variants
from kohort.lake.whatif.study import load_recording, run_on_spark, whatif

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
SETTINGS = ClientSettings(session_timeout_ms=10_000)


@pytest.fixture(scope="module")
def root(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with the history of one group: twelve hours."""
    told, journal = lake_rows(make_life(5, SETTINGS, hours=12, seats=3), SETTINGS, 1)
    lake = Lake(tmp_path_factory.mktemp("whatif") / "lake")
    with lake.writing():
        for table, rows in ((schemas.GROUP_SNAPSHOTS, told), (schemas.JOURNAL, journal)):
            frame = spark.createDataFrame([(*_row(table, row), 1) for row in rows], with_load(table))
            write_dated(frame, table, lake.stage(table.name, 1))
        lake.commit(Manifest(), Manifest(step=1))
    return lake.root


def _row(table: schemas.TableInfo, row: dict[str, Any]) -> tuple[Any, ...]:
    from datetime import UTC, datetime

    times = {"ts", "since"}
    return tuple(
        datetime.fromtimestamp(row[name] / 1_000, UTC)
        if name in times and row.get(name) is not None
        else row.get(name)
        for name in table.columns
    )


def test_results_do_not_depend_on_how_many_tasks_there_are(spark: "SparkSession", root: Path) -> None:
    recording = load_recording(spark, Lake(root), "billing")
    assert recording.has_journal
    tried = variants(recording.settings, parse_changes(["session.timeout.ms=45000"]))
    once = run_on_spark(spark, recording, tried, 3, tasks=1)
    assert once == run_on_spark(spark, recording, tried, 3, tasks=5)
    assert sorted(once) == [(place, seed) for place in range(2) for seed in range(3)]


def test_the_command_answers_in_words_a_table_json_and_a_page(
    spark: "SparkSession", root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_cli, "_on_spark", lambda work, *_, **__: work(spark) or 0)
    asked = ["whatif", "--to", str(root), "--group", "billing", "--set", "static=true", "--seeds", "2"]
    said = CliRunner().invoke(lake_cli.app, asked)
    assert said.exit_code == 0, said.output
    assert "With static=true:" in said.output
    assert "time without an owner" in said.output
    assert "This takes for granted" in said.output
    assert max(map(len, said.output.splitlines())) <= 80
    out = tmp_path / "page.html"
    told = CliRunner().invoke(lake_cli.app, [*asked, "--json", "--out", str(out)])
    assert json.loads(told.stdout) == whatif(spark, root, "billing", {"static": [True]}, seeds=2).as_json()
    assert 'id="unowned"' in out.read_text()
    refused = CliRunner().invoke(lake_cli.app, [*asked, "--set", "linger.ms=5"])
    assert refused.exit_code == 2
