"""What a clean shutdown notes: every file of every log with its size, so that a start notices a cut file."""

from collections.abc import Mapping
from typing import NamedTuple

from kohort.log.files.catalog_state import decode, encode
from kohort.log.files.checkpoints import LEADER_EPOCHS
from kohort.log.files.disk import Disk, read_file
from kohort.log.files.leftovers import base_of
from kohort.log.files.segment import SEGMENT_SUFFIXES
from kohort.model.ids import Offset
from kohort.primitives.crc import crc32c

INVENTORY = "kohort.inventory"


class PartitionFiles(NamedTuple):
    """The files of one log."""

    end_offset: Offset
    sizes: Mapping[str, int]  # of segments and their indexes
    epochs_checksum: int  # of the leader-epoch checkpoint

    def changed(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """What is different now: by the name of the file, in words."""
        now = _of_segments(sizes)
        changed = {}
        for name in sorted({*self.sizes, *now}):
            before, size = self.sizes.get(name), now.get(name)
            if size is None:
                changed[name] = f"{name} of {before} bytes is missing"
            elif before is None:
                changed[name] = f"{name} of {size} bytes was not there"
            elif before != size:
                changed[name] = f"{name} has {size} bytes, not {before}"
        return changed


def _of_segments(sizes: Mapping[str, int]) -> dict[str, int]:
    return {
        name: size
        for name, size in sizes.items()
        if name.endswith(SEGMENT_SUFFIXES) and base_of(name) is not None
    }


def take(disk: Disk, directory: str, end_offset: Offset) -> PartitionFiles:
    """Note the files in the directory of a partition."""
    sizes = {entry.name: entry.size for entry in disk.entries(directory)}
    epochs = read_file(disk, f"{directory}/{LEADER_EPOCHS}") or b""
    return PartitionFiles(end_offset, _of_segments(sizes), crc32c(epochs))


def write_inventory(logs: Mapping[str, PartitionFiles], catalog: bytes) -> bytes:
    """The content of the file; ``catalog`` is that of the catalog."""
    return encode(
        {
            "logs": {
                name: [files.end_offset, files.sizes, files.epochs_checksum] for name, files in logs.items()
            },
            "catalog": [len(catalog), crc32c(catalog)],
        }
    )


class Inventory(NamedTuple):
    """What the last run noted when it ended cleanly."""

    logs: Mapping[str, PartitionFiles]
    catalog: tuple[int, int] | None  # size and checksum


NOTHING_NOTED = Inventory({}, None)


def read_inventory(content: bytes) -> Inventory:
    """Nothing is noted in a file that is missing or damaged."""
    record = decode(content.removesuffix(b"\n")) if content else None
    if record is None:
        return NOTHING_NOTED
    logs = {
        name: PartitionFiles(Offset(end), sizes, checksum)
        for name, (end, sizes, checksum) in record["logs"].items()
    }
    size, checksum = record["catalog"]
    return Inventory(logs, (size, checksum))
