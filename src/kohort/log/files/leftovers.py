"""What an interrupted deletion or compaction leaves in the directory of a partition."""

from collections.abc import Collection
from os.path import basename, dirname

from kohort.log.files.disk import Disk, remove_if_there
from kohort.log.files.quarantine import Quarantine
from kohort.log.files.scan import Damage, salvage
from kohort.log.files.segment import LOG, SEGMENT_SUFFIXES

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
    done = []
    for name, base in [item for item in swaps.items() if item[0].endswith(LOG + SWAP)]:
        next_offset, is_intact = _read(disk, f"{directory}/{name}", base)
        if not is_intact and name.removesuffix(SWAP) in named:
            # Nothing of what it was made from is gone yet, so that is what counts.
            kept = Quarantine(disk, dirname(directory)).keep_whole(
                f"{basename(directory)}/{name}", "a compaction was interrupted, and its result is damaged"
            )
            done.append(f"{name} is damaged and went to {kept}; what it was made from is there")
            for other in [other for other, its_base in swaps.items() if its_base == base]:
                del swaps[other]
                remove_if_there(disk, f"{directory}/{other}")
            continue
        for other, its_base in named.items():
            if base <= its_base < max(next_offset, base + 1) and other.endswith(SEGMENT_SUFFIXES):
                remove_if_there(disk, f"{directory}/{other}")
    for name in swaps:
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
    disk.sync_directory(directory)
    put = [f"put {name.removesuffix(SWAP)} in place, made by an interrupted run" for name in swaps]
    return done + put


def _read(disk: Disk, path: str, base: int) -> tuple[int, bool]:
    """The offset after the last intact batch of a file, and whether there is nothing but intact batches."""
    file = disk.open(path)
    next_offset, is_intact = base, True
    for found in salvage(file, file.size(), base):
        if isinstance(found, Damage):
            is_intact = False
        else:
            next_offset = found.header.next_offset
    return next_offset, is_intact
