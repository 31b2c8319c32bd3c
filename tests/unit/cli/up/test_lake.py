"""The lake beside the broker: a child that waits for the first group, then runs as the archive does."""

import asyncio
import sys
from pathlib import Path

import pytest

from kohort.cli.up import child as children
from kohort.cli.up import command, lake
from kohort.cli.up.archive import ArchiveService
from kohort.cli.up.lake import LakeService, LakeView
from kohort.model.errors import KohortError

RUNS = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print('{"event": "started"}', flush=True)
print('{"event": "landed", "load": 1, "rows": {"records": 3, "journal": 2, "log_ends": 9}}', flush=True)
print('{"event": "refreshed", "seconds": 1.5, "rows": {}}', flush=True)
signal.pause()
"""
DIES = "import sys; sys.exit('kohort: error: no luck')"


class FakeAdmin:
    """A cluster whose topics are these, one list for each look."""

    def __init__(self, *looks: list[str] | Exception) -> None:
        self.looks = list(looks)

    def __call__(self, *_: object) -> "FakeAdmin":
        return self

    async def __aenter__(self) -> "FakeAdmin":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def list_topics(self) -> list[object]:
        look = self.looks.pop(0)
        if isinstance(look, Exception):
            raise look
        return [type("Found", (), {"name": name}) for name in look]


class Watched(LakeService):
    """A service whose states can be waited for, and whose child is a script."""

    def __init__(self, data: Path, script: str) -> None:
        super().__init__(data, lambda: "127.0.0.1:1", self._note)
        self._script = script
        self.states: asyncio.Queue[tuple[str, str, int, bool]] = asyncio.Queue()

    def command(self) -> list[str]:
        return [sys.executable, "-c", self._script]

    def _note(self, view: LakeView) -> None:
        self.states.put_nowait((view.phase, view.detail, view.rows, view.refreshed_at is not None))

    async def until(self, phase: str) -> tuple[str, str, int, bool]:
        while True:
            state = await self.states.get()
            if state[0] == phase:
                return state


@pytest.fixture(autouse=True)
def no_pauses_and_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "missing_module", lambda: None)
    monkeypatch.setattr(lake, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(children, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(lake, "AsyncAdmin", FakeAdmin(["__consumer_offsets"]))


def test_rows_of_the_history_are_counted_and_a_refresh_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story() -> LakeService:
        service = Watched(tmp_path / "data", RUNS)
        (row,) = await service.start()
        assert row.where == f"{tmp_path / 'data-lake'} (Spark starts with the first group)"
        assert [await service.until("running") for _ in range(3)] == [
            ("running", "", 0, False),
            ("running", "", 5, False),
            ("running", "", 5, True),
        ]
        await service.stop()
        return service

    assert asyncio.run(story()).view.phase == "stopped"
    assert capsys.readouterr().err == "the lake makes its tables a last time …\n"


def test_services_have_less_patience_than_the_command_has_with_them() -> None:
    assert ArchiveService.stop_seconds < LakeService.stop_seconds < command._STOP_SECONDS


def test_spark_is_not_started_before_there_is_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = FakeAdmin([], KohortError("not yet"), ["orders"], ["orders", "__consumer_offsets"])
    monkeypatch.setattr(lake, "AsyncAdmin", admin)

    async def story() -> None:
        service = Watched(tmp_path / "data", RUNS)
        await service.start()
        await service.until("waiting")
        assert not service.directory.exists()
        await service.until("starting")
        assert admin.looks == []
        await service.until("running")
        await service.stop()

    asyncio.run(story())


def test_it_stops_while_it_waits_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "AsyncAdmin", FakeAdmin([]))
    monkeypatch.setattr(lake, "_LOOK_SECONDS", 3_600.0)

    async def story() -> str:
        service = Watched(tmp_path / "data", RUNS)
        await service.start()
        await service.until("waiting")
        await service.stop()
        return service.view.phase

    assert asyncio.run(story()) == "stopped"
    assert list(tmp_path.iterdir()) == []


def test_a_lake_that_fails_is_one_line_and_begun_again(tmp_path: Path) -> None:
    async def story() -> list[str]:
        service = Watched(tmp_path / "data", DIES)
        await service.start()
        details = [(await service.until("restarting"))[1] for _ in range(2)]
        await service.stop()
        return details

    assert asyncio.run(story()) == ["in 0.001 s: no luck", "in 0.002 s: no luck"]


def test_the_child_keeps_the_groups_of_this_broker_in_a_small_spark() -> None:
    given = " ".join(LakeService(Path("/d"), lambda: "127.0.0.1:9092").command())
    assert "lake run --from 127.0.0.1:9092 --to /d-lake --master local[2] --memory 512m --json" in given


def test_what_to_try_names_the_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda _name: "/bin/kohort")

    async def story() -> list[str]:
        service = Watched(tmp_path / "data", RUNS)
        assert service.suggestions() == []
        await service.start()
        suggested = service.suggestions()
        await service.stop()
        return suggested

    assert asyncio.run(story()) == [
        "",
        "The history of groups, in SQL and as a page:",
        '  kohort lake query --to data-lake "select * from rebalances"',
        "  kohort lake report --to data-lake",
    ]
