"""The archive beside the broker: ``kohort pipeline archive`` over all topics."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kohort.cli.up.child import ChildPhase, ChildService, ChildView, directory_beside, own_process
from kohort.cli.up.services import own_command

GROUP = "kohort-archive"
ALL_TOPICS = ".*"  # internal ones are left out

_TRIGGER, _MEMORY = "5", "512m"


@dataclass(slots=True)
class ArchiveView(ChildView):
    """What is known of the archive."""

    batches: int = 0
    bad: int = 0


class ArchiveService(ChildService[ArchiveView]):
    """The pipeline over all topics, into a directory of its own."""

    name = "archive"
    title = "The topics as Parquet tables, for any tool"

    def command(self) -> Sequence[str]:
        options = {
            "--topics": ALL_TOPICS,
            "--to": str(self.directory),
            "--group": GROUP,
            "--bootstrap": self._bootstrap(),
            "--trigger": _TRIGGER,
            "--memory": _MEMORY,
        }
        return own_process(["pipeline", "archive"], options)

    def examples(self) -> list[str]:
        return [f"{own_command()} pipeline status --to {self.where}", self.query()]

    def query(self) -> str:
        return f'{own_command()} pipeline sql --to {self.where} "select * from orders"'

    def _first_view(self) -> ArchiveView:
        return ArchiveView()

    def _directory(self, data: Path) -> Path:
        return archive_directory(data)

    def _heard(self, event: dict[str, object]) -> None:
        match event:
            case {"event": "started"}:
                self._show(ChildPhase.RUNNING)
            case {"event": "landed", "rows": dict(rows), "bad": int(bad)}:
                self.view.batches += 1
                self.view.bad += bad
                self._landed(sum(rows.values()))
            case {"event": "trouble", "what": str(what)}:
                self._show(self.view.phase, what)


def archive_directory(data: Path) -> Path:
    """Where the archive of this data directory is: beside it.

    One that was begun inside, by an earlier version, goes on where it is.
    """
    inside = data / "archive"
    return inside if inside.is_dir() else directory_beside(data, "archive")
