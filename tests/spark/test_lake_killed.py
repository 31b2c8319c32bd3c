"""``kohort lake run`` is killed in loads and refreshes: each record is there once in the end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.clients.waiting import eventually

from kohort import Admin
from kohort.lake.store import Lake
from kohort.spark.pipelines.parquet import read_columns
from kohort.testing.broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(900)]
COMMITS = 50


def start(broker: Broker, root: Path, *command: str) -> "subprocess.Popen[str]":
    """The command as a process with a session of its own."""
    asked = [sys.executable, "-m", "kohort.cli.main", "lake", *command, "--json"]
    return subprocess.Popen(
        [*asked, "--from", broker.bootstrap, "--to", str(root), "--samples", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def counted(root: Path, table: str) -> list[tuple[int, int]]:
    """The places of the records in a table's parts that count."""
    found: list[tuple[int, int]] = []
    for part in Lake(root).manifest().parts.get(table, ()):
        for path in (root / table / part.directory).rglob("*.parquet"):
            columns = read_columns(path, ("src_partition", "src_offset"))
            found += zip(columns.column(0).to_pylist(), columns.column(1).to_pylist(), strict=True)
    return sorted(found)


def is_writing(root: Path, table: str) -> bool:
    return any((root / "_kohort" / "staging").glob(f"*/*/{table}"))


@pytest.mark.parametrize("table", ["records", "lag_status"])  # in a load, in a refresh
def test_killed_while_it_writes_a_table_it_goes_on_with_each_row_once(tmp_path: Path, table: str) -> None:
    root, sent = tmp_path / "lake", 0
    with Broker() as broker, Admin(broker.bootstrap) as admin:
        broker.create_topic("orders", partitions=1)

        def commit() -> None:
            nonlocal sent
            for _ in range(COMMITS):
                sent += 1
                assert set(admin.alter_group_offsets("billing", {("orders", 0): sent}).values()) == {None}

        for _ in range(2):
            commit()
            with start(broker, root, "run", "--trigger", "1", "--refresh", "1") as process:
                eventually(f"{table} being written", lambda: is_writing(root, table), seconds=400)
                os.killpg(process.pid, signal.SIGKILL)
        commit()
        with start(broker, root, "backfill") as process:
            assert process.wait(400) == 0
    records = counted(root, "records")
    ends = Lake(root).manifest().next_offsets["__consumer_offsets"]
    assert records == [(int(number), offset) for number, end in ends.items() for offset in range(end)]
    commits = counted(root, "offset_commits")
    assert len(commits) == len(set(commits)) == sent
