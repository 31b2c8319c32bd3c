"""What a query's checkpoint directory tells the runner: whether a batch is durable, whether to drain.

Only directories of this machine's file system can be asked, by the path in ``kohort.checkpoint``. Spark
writes ``offsets/<n>`` when batch n is planned and ``commits/<n>`` when it is done. ``drain`` leaves a note
beside them; the runner answers with another.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

_OFFSETS, _COMMITS = "offsets", "commits"
_WANTED, _DONE = ".kohort-drain", ".kohort-drained"


def local_path(location: str) -> Path | None:
    """The directory behind a path or ``file:`` URI; None for any other file system."""
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return Path(unquote(parts.path) if parts.scheme else location)
    return None


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
        """The token of whoever asks for it."""
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
