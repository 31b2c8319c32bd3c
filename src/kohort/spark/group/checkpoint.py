"""What a query's checkpoint directory tells the runner: what is durable, what the group knew, when to drain.

Only directories of this machine's file system can be asked, by the path in ``kohort.checkpoint``. Spark
writes ``offsets/<n>`` when batch n is planned and ``commits/<n>`` when it is done. Beside them the runner
notes which commits the group has acknowledged: one that has less at the next start was set back, and has not
merely missed the last commit. ``drain`` leaves a note too; the runner answers with another.
"""

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from kohort.model.ids import TopicName
from kohort.spark import offsets
from kohort.spark.group.offsets import GroupOffsetJson, from_json
from kohort.spark.offsets import Offsets

_OFFSETS, _COMMITS = "offsets", "commits"
_WANTED, _DONE, _ACKNOWLEDGED = ".kohort-drain", ".kohort-drained", ".kohort-acknowledged"


def local_path(location: str) -> Path | None:
    """The directory behind a path or ``file:`` URI; None for any other file system."""
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return Path(unquote(parts.path) if parts.scheme else location)
    return None


class Notes(Protocol):
    """What outlives a run besides Spark's offsets: which commits the group has acknowledged."""

    def acknowledged(self, group_id: str, start: GroupOffsetJson) -> Offsets:
        """What was noted, as far as it holds for a checkpoint that stands at ``start``."""

    def note_acknowledged(self, group_id: str, start: GroupOffsetJson, committed: Offsets) -> None:
        """``committed`` is what the group has; ``start`` is where the checkpoint stands."""


class NoNotes:
    """For a query without a checkpoint location: all is forgotten with the run."""

    def acknowledged(self, group_id: str, start: GroupOffsetJson) -> Offsets:
        return {}

    def note_acknowledged(self, group_id: str, start: GroupOffsetJson, committed: Offsets) -> None: ...


class AcknowledgedOffsets:
    """The commits that a group is known to have had: if it has less one day, its offsets were reset."""

    def __init__(self, group_id: str, notes: Notes) -> None:
        self._group_id = group_id
        self._notes = notes
        self._start: GroupOffsetJson | None = None
        self.offsets: Offsets = {}

    def catch_up(self, start: GroupOffsetJson) -> None:
        """The checkpoint stands at ``start`` now; the first time, this recalls what earlier runs knew."""
        if self._start is None:
            self.offsets = self._notes.acknowledged(self._group_id, start)
        self._start = start

    def add(self, committed: Offsets) -> None:
        """The group has these. Lower ones than before are right only if the checkpoint has gone back too."""
        known = {**self.offsets, **committed}
        if known != self.offsets and self._start is not None:
            self.offsets = known
            self._notes.note_acknowledged(self._group_id, self._start, known)

    def forget(self, topics: Collection[TopicName]) -> None:
        """Those are other topics now."""
        self.offsets = {where: at for where, at in self.offsets.items() if where.topic not in topics}


class Checkpoint:
    """One query's directory; it need not exist yet."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def has_finished(self, end: Mapping[str, object]) -> bool:
        """Whether the newest batch ends at ``end`` and is recorded as done.

        The numbers alone do not tell: a stop between planning and writing would count the batch before.
        """
        newest = self._newest(_OFFSETS)
        if newest is None or newest != self._newest(_COMMITS):
            return False
        try:
            text = (self._directory / _OFFSETS / str(newest)).read_text(encoding="utf-8")
        except OSError:
            return False
        return any(_parsed(line) == end for line in text.splitlines())

    def _newest(self, log: str) -> int | None:
        try:
            names = os.listdir(self._directory / log)
        except OSError:
            return None
        return max((int(name) for name in names if name.isdecimal()), default=None)

    # --- what the group has acknowledged ------------------------------------------------------

    def acknowledged(self, group_id: str, start: GroupOffsetJson) -> Offsets:
        """Nothing if there is no note, or another group's.

        A batch may have been planned since. Where it begins before what was noted, the query has followed a
        reset already, to there, and what the group had before that does not count any more.
        """
        note = _parsed(self._read(_ACKNOWLEDGED) or "")
        if not isinstance(note, dict) or note.get("group") != group_id:
            return {}
        committed = offsets.from_json(note["committed"])
        if note["start"] == _digest(start):
            return committed
        done = from_json(start)
        return {where: min(at, done[where].start) for where, at in committed.items() if where in done}

    def note_acknowledged(self, group_id: str, start: GroupOffsetJson, committed: Offsets) -> None:
        note = {"group": group_id, "start": _digest(start), "committed": offsets.to_json(committed)}
        with suppress(OSError):  # a reset would not be noticed: no reason to end the query
            self._write(_ACKNOWLEDGED, json.dumps(note))

    # --- draining, by the application ---------------------------------------------------------

    def ask_to_drain(self, token: str) -> None:
        """Leave a note for the runner, unless it lies there already."""
        if self._read(_WANTED) != token:
            self._write(_WANTED, token)

    def has_drained(self, token: str) -> bool:
        return self._read(_DONE) == token

    def forget_drain(self) -> None:
        """Take all notes away."""
        for name in (_WANTED, _DONE):
            (self._directory / name).unlink(missing_ok=True)

    # --- and by the runner --------------------------------------------------------------------

    def drain_wanted(self) -> str | None:
        """The token of the caller."""
        return self._read(_WANTED)

    def answer_drain(self, token: str) -> None:
        """Everything is committed and nothing more is planned."""
        if not self.has_drained(token):
            self._write(_DONE, token)

    def _read(self, name: str) -> str | None:
        try:
            return (self._directory / name).read_text(encoding="utf-8") or None
        except OSError:
            return None

    def _write(self, name: str, text: str) -> None:
        partial = self._directory / f"{name}.new"
        partial.write_text(text, encoding="utf-8")
        partial.replace(self._directory / name)


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _digest(start: GroupOffsetJson) -> str:
    return hashlib.sha256(json.dumps(start).encode()).hexdigest()
