"""Processor time of whole families of processes, from /proc."""

import os
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


class _Process(NamedTuple):
    parent: int
    seconds: float  # its own, and of the children it has waited for


def _all() -> dict[int, _Process]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # it has ended meanwhile
            found[int(entry.name)] = _Process(int(fields[1]), sum(map(int, fields[11:15])) / _TICKS)
    return found


def family(processes: dict[int, _Process], root: int) -> set[int]:
    """A process and all that descend from it."""
    members, found = {root}, {root}
    while found:
        found = {pid for pid, one in processes.items() if one.parent in found and pid not in members}
        members |= found
    return members


def processor_seconds(pid: int) -> float:
    """What a process has used up to now, with all its threads."""
    return _all()[pid].seconds


class Meter:
    """Seconds of processor time of this process and of those it starts from now on, and theirs."""

    def __init__(self) -> None:
        self._others = family(_all(), os.getpid()) - {os.getpid()}

    def seconds(self) -> float:
        processes = _all()
        return sum(processes[pid].seconds for pid in family(processes, os.getpid()) - self._others)
