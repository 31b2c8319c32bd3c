"""The archive beside the broker: a child that is told, watched, begun again and ended."""

import asyncio
import sys
from pathlib import Path

import pytest

from kohort.cli.up import child as children
from kohort.cli.up.archive import ArchiveService, ArchiveView, archive_directory
from kohort.cli.up.child import ChildPhase
from kohort.cli.up.screen import changes
from kohort.cli.up.services import Row


def child(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Have this run in place of the pipeline."""
    monkeypatch.setattr(ArchiveService, "command", lambda _: [sys.executable, "-c", script])


class Watched(ArchiveService):
    """A service whose states can be waited for."""

    def __init__(self, data: Path) -> None:
        super().__init__(data, lambda: "127.0.0.1:1", self._note)
        self.states: asyncio.Queue[tuple[str, str, int]] = asyncio.Queue()

    def _note(self, view: ArchiveView) -> None:
        self.states.put_nowait((view.phase, view.detail, view.rows))

    async def until(self, phase: str) -> tuple[str, str, int]:
        while True:
            state = await self.states.get()
            if state[0] == phase:
                return state


RUNS = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print('{"event": "started"}', flush=True)
print('{"event": "landed", "rows": {"a": 3, "b": 2}, "bad": 1}', flush=True)
signal.pause()
"""


def test_what_the_child_tells_is_shown_and_it_is_ended_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(monkeypatch, RUNS)

    async def story() -> Watched:
        service = Watched(tmp_path / "data")
        (row,) = await service.start()
        assert row.where.startswith(f"{tmp_path / 'data-archive'} ")
        assert await service.until("running") == ("running", "", 0)
        assert await service.until("running") == ("running", "", 5)
        await service.stop()
        return service

    service = asyncio.run(story())
    assert service.view.bad == 1
    assert service.view.phase == "stopped"


def test_a_child_that_dies_is_begun_again_after_a_pause_that_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(monkeypatch, "import sys; sys.exit('kohort: error: no luck')")
    monkeypatch.setattr(children, "_FIRST_PAUSE", 0.001)

    async def story() -> list[str]:
        service = Watched(tmp_path / "data")
        await service.start()
        details = [(await service.until("restarting"))[1] for _ in range(2)]
        await service.stop()
        return details

    assert asyncio.run(story()) == ["in 0.001 s: no luck", "in 0.002 s: no luck"]


def test_a_child_without_java_is_not_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, "import sys; print('kohort: error: no Java for Spark', file=sys.stderr); sys.exit(3)")

    async def story() -> tuple[str, str, int]:
        service = Watched(tmp_path / "data")
        await service.start()
        state = await service.until("off")
        await service.stop()
        return state

    assert asyncio.run(story()) == ("off", "no Java for Spark", 0)


def test_without_spark_it_says_so_in_one_line_and_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "find_spec", lambda name: None if name == "pyspark" else object())

    async def story() -> list[Row]:
        service = ArchiveService(tmp_path / "data", lambda: "")
        rows = await service.start()
        assert service.suggestions() == []
        await service.stop()
        return rows

    assert asyncio.run(story()) == [
        Row("archive", "off: pyspark is not installed: pip install 'kohort[spark]'")
    ]
    assert list(tmp_path.iterdir()) == []


def test_the_child_archives_all_topics_of_this_broker() -> None:
    given = " ".join(ArchiveService(Path("/d"), lambda: "127.0.0.1:9092").command())
    assert (
        "pipeline archive --topics .* --to /d-archive --group kohort-archive --bootstrap 127.0.0.1:9092"
        in given
    )
    assert given.endswith("--json")


def test_the_archive_is_beside_the_logs_or_where_it_was_begun(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert archive_directory(data) == tmp_path / "data-archive"
    data.mkdir()
    assert archive_directory(data) == tmp_path / "data-archive"
    (data / "archive").mkdir()
    assert archive_directory(data) == data / "archive"


def test_where_there_is_no_terminal_changes_are_lines() -> None:
    lines: list[str] = []
    tell = changes("archive", lines.append)
    view = ArchiveView(phase=ChildPhase.RUNNING)
    tell(view)
    view.batches = 1
    tell(view)
    view.rows, view.batches = 1_200, 2
    tell(view)
    view.batches = 3
    tell(view)
    tell(ArchiveView(phase=ChildPhase.RESTARTING, detail="in 1 s: no luck"))
    assert lines == [
        "archive: running",
        "archive: running, 1,200 rows landed",
        "archive: restarting (in 1 s: no luck)",
    ]
