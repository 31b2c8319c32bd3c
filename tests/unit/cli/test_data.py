"""``kohort data``: what it prints about a data directory, and how it ends."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.unit.log.bench import PARTITION, TOPIC_ID, Bench, batch
from typer.testing import CliRunner, Result

from kohort.cli.app import command_line
from kohort.log.files.catalog_file import FileCatalog, Identity
from kohort.log.files.directory import DataDirectory
from kohort.log.files.disk import RealDisk
from kohort.log.files.memory import Immediately
from kohort.model.ids import NodeId
from kohort.model.topics import Topic

app = command_line(["data"])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a broker that was stopped: one topic with five records."""
    path = tmp_path / "data"

    async def make_catalog() -> None:
        directory = DataDirectory(RealDisk(), str(path))
        catalog = await FileCatalog.open(directory, Identity("cluster", NodeId(1)), Immediately())
        await catalog.create_topic(Topic(PARTITION.topic, TOPIC_ID, 1))
        directory.close(clean=True)

    asyncio.run(make_catalog())
    bench = Bench(RealDisk(), str(path))
    bench.append(*[batch(b"%d" % number) for number in range(5)])
    bench.close()
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["data", *map(str, arguments)])


def flip(data: Path) -> None:
    log = data / str(PARTITION) / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[-3] ^= 1
    log.write_bytes(content)


def test_a_directory_without_damage_is_said_to_be_so(data: Path) -> None:
    result = run("check", data)
    assert result.stdout == "Read 1 partition, 1 segment, 350 B.\n\nNothing is damaged.\n"
    assert result.exit_code == 0


def test_a_wrong_byte_is_found_and_nothing_is_changed(data: Path) -> None:
    flip(data)
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != ".lock"}
    result = run("check", data)
    assert result.exit_code == 1
    assert "  orders-0/00000000000000000000.log\n    bytes 280 to 350:" in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines() if "data repair" not in line)
    plan = run("repair", data)
    assert plan.exit_code == 1
    assert "-> these bytes go to quarantine" in plan.stdout
    assert f"kohort data repair {data} --yes" in plan.stdout
    after = {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != ".lock"}
    assert after == before


def test_a_repair_puts_the_damaged_bytes_aside_and_leaves_a_clean_directory(data: Path) -> None:
    flip(data)
    result = run("repair", data, "--yes")
    assert result.exit_code == 0, result.output
    assert "Repaired: a broker starts on it." in result.stdout
    (kept,) = (data / "quarantine" / str(PARTITION)).glob("*.280-350")
    explained = json.loads(kept.with_name(kept.name + ".json").read_text())
    assert explained["from"] == "orders-0/00000000000000000000.log"
    assert "the checksum says" in explained["why"]
    assert run("check", data).exit_code == 0


def test_a_repair_puts_a_damaged_snapshot_aside(data: Path) -> None:
    (snapshot,) = (data / str(PARTITION)).glob("*.snapshot")
    snapshot.write_bytes(b"damaged")
    assert run("check", data).exit_code == 1
    assert run("repair", data, "--yes").exit_code == 0
    kept = data / "quarantine" / str(PARTITION) / snapshot.name
    assert kept.read_bytes() == b"damaged"
    assert run("check", data).exit_code == 0


def test_findings_come_as_json(data: Path) -> None:
    flip(data)
    found = json.loads(run("check", data, "--json").stdout)
    assert found["damaged"] is True
    assert found["findings"][0]["name"] == "orders-0/00000000000000000000.log"


def test_a_lost_catalog_is_rebuilt(data: Path) -> None:
    (data / "kohort.catalog").unlink()
    assert run("check", data).exit_code == 1
    result = run("repair", data, "--yes")
    assert "taken into the catalog, partitions: 1" in " ".join(result.stdout.split())
    assert run("check", data).exit_code == 0


def test_the_directory_of_a_running_broker_is_left_alone(data: Path) -> None:
    directory = DataDirectory(RealDisk(), str(data))
    for command in ("check", "repair"):
        result = run(command, data)
        assert result.exit_code == 2
        assert "is in use by process" in result.stderr
    directory.close(clean=True)


def test_a_path_that_is_no_data_directory_is_refused(tmp_path: Path) -> None:
    result = run("check", tmp_path / "nothing")
    assert result.exit_code == 2
    assert "is not the data directory of a broker" in result.stderr
