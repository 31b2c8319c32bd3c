"""Where damaged bytes go: ``quarantine`` in the data directory, each with a note. Nothing here is ever read.

There are no replicas: what cannot be read may still be worth something to the people whose data it is.
"""

import json
import os
import time
from typing import NamedTuple

from kohort.log.files.disk import Disk, File, write_all

QUARANTINE = "quarantine"
_CHUNK = 1 << 20


class Quarantine(NamedTuple):
    """The quarantine of one data directory. Files are named by their path in the data directory."""

    disk: Disk
    data: str

    def keep_bytes(self, name: str, span: tuple[int, int], why: str) -> str:
        """Copy a part of a file to quarantine, durably; returns the name of the copy."""
        start, end = span
        copy = self._free(f"{name}.{start}-{end}")
        target = self.disk.open(f"{self.data}/{copy}", create=True)
        copy_bytes(self.disk.open(f"{self.data}/{name}"), span, target)
        target.sync()
        self._note(copy, {"from": name, "first_byte": start, "end_byte": end, "why": why})
        return copy

    def keep_whole(self, name: str, why: str) -> str:
        """Move a file, or the directory of a partition, to quarantine; returns its name there."""
        place = self._free(name)
        self._note(place, {"from": name, "why": why})
        self.disk.rename(f"{self.data}/{name}", f"{self.data}/{place}")
        for changed in (place, name):
            self.disk.sync_directory(os.path.dirname(f"{self.data}/{changed}"))
        return place

    def _free(self, name: str) -> str:
        """A name in quarantine that nothing has yet; its directory exists."""
        wanted = f"{QUARANTINE}/{name}"
        directory = os.path.dirname(f"{self.data}/{wanted}")
        self.disk.make_directory(directory)
        taken = {f"{os.path.dirname(wanted)}/{entry.name}" for entry in self.disk.entries(directory)}
        free, number = wanted, 2
        while free in taken:
            free, number = f"{wanted}.{number}", number + 1
        return free

    def _note(self, name: str, content: dict[str, object]) -> None:
        """Say beside it what it is. All names down from the data directory are durable afterwards."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        text = json.dumps({"what": name, **content, "when": when}, indent=2).encode() + b"\n"
        note = self.disk.open(f"{self.data}/{name}.json", create=True)
        write_all(note, text, 0)
        note.truncate(len(text))
        note.sync()
        while name:
            name = os.path.dirname(name)
            self.disk.sync_directory(f"{self.data}/{name}".rstrip("/"))


def copy_bytes(source: File, span: tuple[int, int], target: File, at: int = 0) -> int:
    """Copy bytes from one file to another; returns the position after them."""
    start, end = span
    for position in range(start, end, _CHUNK):
        content = source.read(min(_CHUNK, end - position), position)
        write_all(target, content, at)
        at += len(content)
    return at
