"""The disks every behaviour of a log is tested on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.bench import Bench

from kohort.log.files.disk import Disk, RealDisk
from kohort.log.files.memory import MemoryDisk
from kohort.testing.faults import FakeDisk

MakeBench = Callable[..., Bench]


@pytest.fixture(params=["files", "memory", "fake"])
def make_bench(request: pytest.FixtureRequest, tmp_path: Path) -> MakeBench:
    """Makes a bench on a real disk, on one in memory, and on the one that can fail."""
    disks: dict[str, Disk] = {"files": RealDisk(), "memory": MemoryDisk(), "fake": FakeDisk()}
    disk = disks[request.param]
    path = str(tmp_path / "data") if request.param == "files" else "data"

    def make(**options: Any) -> Bench:  # noqa: ANN401 - the options of Bench
        return Bench(disk, path, **options)

    return make


@pytest.fixture
def bench(make_bench: MakeBench) -> Bench:
    return make_bench()
