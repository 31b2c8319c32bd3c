"""One archived topic on the disk, and the one way files get into it.

    DIR/orders/date=2026-11-16/…parquet     records, by the day of their timestamps
    DIR/orders+bad/date=2026-11-16/…        records that were not what ``--values`` said, with a reason
    DIR/orders/_kohort/ledger.json          which offsets have landed
    DIR/orders/_delta_log/…                 with --format delta: which files are in the table
    DIR/_kohort/…                           checkpoints, files being written

Names that begin with ``_`` are invisible to readers of the table as Parquet, and ``+`` is in no topic's
name. Every change is made under the table's lock, which the kernel takes from a process that dies.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from kohort.spark.pipelines.delta_log import DeltaLog
from kohort.spark.pipelines.files import DirectoryEntry, FileTree, LocalFiles
from kohort.spark.pipelines.ledger import (
    Landing,
    Ledger,
    LedgerError,
    LedgerPosition,
    PendingMove,
    decode,
    encode,
)

STATE = "_kohort"
BAD = "+bad"
DATE = "date="
PARQUET = ".parquet"


class Table:
    """The table of one topic. Any number of processes may have it open."""

    def __init__(
        self,
        files: FileTree,
        topic: str,
        values: str = "",
        *,
        is_delta: bool = False,
        log: Callable[[FileTree, str], DeltaLog] = DeltaLog,
    ) -> None:
        """``values`` is for those who may be the first to publish. A log of Delta, once begun, is kept."""
        self.files = files
        self.topic = topic
        self._values = values
        self._is_delta = is_delta
        self._log = log
        self.path = topic
        self.bad_path = f"{topic}{BAD}"
        self._ledger = f"{topic}/{STATE}/ledger.json"
        self.lock = f"{topic}/{STATE}/lock"

    def ledger(self) -> Ledger:
        """What has landed, as it was a moment ago; raises LedgerError."""
        content = self.files.read(self._ledger)
        if content is not None:
            ledger = decode(content)
            if self._values not in ("", ledger.values):
                raise LedgerError(
                    f"the table {self.topic!r} has values as {ledger.values}, not as {self._values}",
                    hint=f"go on with --values {ledger.values}, or archive to another directory",
                )
            return ledger
        if self.dates():
            raise LedgerError(
                f"the table {self.topic!r} has records but no ledger: what has landed is not known",
                hint=f"restore {self._ledger}, or archive to another directory with another group",
            )
        return Ledger(self.topic, self._values)

    def publish(self, landings: Sequence[Landing], moves: Sequence[PendingMove]) -> Ledger:
        """Land finished files. All of it counts, or, after an OverlapError, none of it.

        Once the ledger is replaced the batch has landed, whatever happens to this process; the moves are
        finished here, or by the next process that opens the table.
        """
        with self.files.locked(self.lock):
            ledger = self._finish(self.ledger()).after(landings, moves)
            for move in moves:
                self.files.sync(move.staged)
            self.files.replace(self._ledger, encode(ledger))
            return self._finish(ledger)

    def replay(
        self, counts: Mapping[LedgerPosition, int], moves: Sequence[PendingMove], removes: Sequence[str]
    ) -> Ledger:
        """Let bad records become good ones: ``moves`` bring them, ``removes`` are the files they were in.

        All of it counts, or nothing.
        """
        with self.files.locked(self.lock):
            ledger = self._finish(self.ledger()).replayed(counts, moves, removes)
            for move in moves:
                self.files.sync(move.staged)
            self.files.replace(self._ledger, encode(ledger))
            return self._finish(ledger)

    def recover(self) -> Ledger:
        """Finish what the last process to publish has not."""
        with self.files.locked(self.lock):
            ledger = self._finish(self.ledger())
            self.follow(None)
            return ledger

    def _finish(self, ledger: Ledger) -> Ledger:
        for move in ledger.moves:
            if self.files.exists(move.staged):
                self.files.move(move.staged, move.final)
        for path in ledger.removes:
            if self.files.exists(path):
                self.files.remove(path)
        finals = [move.final for move in ledger.moves]
        self.follow({path.rpartition("/")[0] for path in (*finals, *ledger.removes)})
        return ledger

    def follow(self, dates: Collection[str] | None, *, is_data: bool = True) -> None:
        """Bring the logs of Delta, if there are any, up to what is in these days; None: in all of them.

        Call it with the lock held. ``is_data``: rows came or went; else files were merged.
        """
        logs = {path: self._log(self.files, path) for path in (self.path, self.bad_path)}
        begun = {path for path, log in logs.items() if log.exists()}
        if not begun and not self._is_delta:
            return
        for path, log in logs.items():
            days = dates
            if days is None or path not in begun:
                days = [*self.dates(), *(f"{path}/{unit}" for unit in log.units())]
            mine = {day.removeprefix(f"{path}/") for day in days if day.startswith(f"{path}/")}
            log.follow(mine, is_data=is_data)

    def dates(self) -> list[str]:
        """The directories of the days there are records of, by path, those of bad records last."""
        return [
            f"{path}/{entry.name}"
            for path in (self.path, self.bad_path)
            for entry in self.files.entries(path)
            if entry.is_directory and entry.name.startswith(DATE)
        ]

    def parquet_files(self, date: str) -> list[DirectoryEntry]:
        """The files of a day, by name."""
        return [entry for entry in self.files.entries(date) if is_visible_parquet(entry)]


def is_visible_parquet(entry: DirectoryEntry) -> bool:
    return entry.name.endswith(PARQUET) and not entry.is_directory and entry.name[0] not in "._"


def tables(root: Path) -> list[Table]:
    """All tables of an archive, by name."""
    files = LocalFiles(root)
    return [
        Table(files, entry.name)
        for entry in files.entries("")
        if entry.is_directory and files.exists(f"{entry.name}/{STATE}/ledger.json")
    ]


def recover_all(opened: Iterable[Table]) -> None:
    for table in opened:
        table.recover()
