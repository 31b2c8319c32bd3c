"""What an interrupted deletion or compaction leaves in the directory of a partition."""

from collections.abc import Collection

from kohort.log.disk import Disk, remove_if_there
from kohort.log.segment import LOG, SEGMENT_SUFFIXES
from kohort.log.walk import headers

CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"


def base_of(name: str) -> int | None:
    """The offset a file is named after, or ``None`` for a file that is not."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isdecimal() else None


def tidy(disk: Disk, directory: str, names: Collection[str]) -> list[str]:
    """Undo or finish what was interrupted; returns what was done, in words.

    A compaction writes ``.cleaned`` files, renames all of them to ``.swap`` once they are complete, removes
    the segments they replace and gives them their names. So a ``.cleaned`` file means that nothing has been
    replaced yet by it or by the ``.swap`` files after it, and any other ``.swap`` file is to be finished.
    """
    if not any(name.endswith((CLEANED, SWAP, DELETED)) for name in names):
        return []
    named = {name: base for name in names if (base := base_of(name)) is not None}
    cleaned = {name: base for name, base in named.items() if name.endswith(CLEANED)}
    undone = min(cleaned.values(), default=None)
    swaps = {name: base for name, base in named.items() if name.endswith(SWAP)}
    abandoned = [name for name, base in swaps.items() if undone is not None and base >= undone]
    removed = [name for name in named if name.endswith(DELETED)] + abandoned + list(cleaned)
    for name in removed:
        remove_if_there(disk, f"{directory}/{name}")
    for name in abandoned:
        del swaps[name]
    finished = _finish(disk, directory, named, swaps) if swaps else []
    return [f"removed {name}, left by an interrupted run" for name in removed] + finished


def _finish(disk: Disk, directory: str, named: dict[str, int], swaps: dict[str, int]) -> list[str]:
    """Put complete ``.swap`` files in the place of the segments they were made from."""
    ranges = [
        (base, _next_offset(disk, f"{directory}/{name}"))
        for name, base in swaps.items()
        if name.endswith(LOG + SWAP)
    ]
    if ranges:
        first, end = min(base for base, _ in ranges), max(end for _, end in ranges)
        for name, base in named.items():
            if first <= base < end and name.endswith(SEGMENT_SUFFIXES):
                remove_if_there(disk, f"{directory}/{name}")
    for name in swaps:
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
    disk.sync_directory(directory)
    return [f"put {name.removesuffix(SWAP)} in place, made by an interrupted compaction" for name in swaps]


def _next_offset(disk: Disk, path: str) -> int:
    file = disk.open(path)
    next_offset = 0
    for _, header in headers(file, 0, file.size()):
        next_offset = header.next_offset
    return next_offset
