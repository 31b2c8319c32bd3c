"""The last segment ends anywhere: recovery cuts it at the last good batch."""

from tests.unit.log.bench import PARTITION, Bench, batch, numbered

from kohort.log.log import LogConfig, SyncPolicy
from kohort.testing.faults import FakeDisk

PATH = f"data/{PARTITION}/00000000000000000000.log"


def written(*contents: bytes) -> bytes:
    """The segment that these batches make."""
    disk = FakeDisk()
    bench = Bench(disk)
    bench.append(*contents)
    file = disk.open(PATH)
    return file.read(file.size(), 0)


def opened_with(segment: bytes) -> tuple[Bench, FakeDisk]:
    disk = FakeDisk()
    disk.make_directory(f"data/{PARTITION}")
    disk.open(PATH, create=True).write(segment, 0)
    return Bench(disk), disk


CONTENTS = (batch(b"first", b"second"), numbered(0, 3), batch(b"last one"))


def test_a_segment_torn_at_any_byte_ends_with_its_last_whole_batch() -> None:
    whole = written(*CONTENTS)
    ends, offsets, size, offset = [0], [0], 0, 0
    for content, count in zip(CONTENTS, (2, 3, 1), strict=True):
        size, offset = size + len(content), offset + count
        ends.append(size)
        offsets.append(offset)
    for cut in range(len(whole) + 1):
        bench, disk = opened_with(whole[:cut])
        kept = max(number for number, end in enumerate(ends) if end <= cut)
        assert bench.log.end_offset == offsets[kept]
        assert disk.open(PATH).size() == ends[kept]
        assert bool([r for r in bench.storage.reports() if r.what.startswith("cut")]) == (cut != ends[kept])
        (done,) = bench.append(batch(b"goes on"))
        assert done.base_offset == offsets[kept]
        assert bench.values()[-1] == b"goes on"


def test_one_wrong_bit_anywhere_in_a_batch_costs_that_batch_alone() -> None:
    whole = written(*CONTENTS)
    start = len(CONTENTS[0])
    outside_the_checksum = range(start + 12, start + 16)  # the leader epoch
    for position in range(start, start + len(CONTENTS[1])):
        if position in outside_the_checksum:
            continue
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        bench, _ = opened_with(bytes(damaged))
        assert [record.offset for record in bench.records()] == [0, 1, 5]


def test_a_batch_torn_by_a_crash_is_gone_and_its_sequence_free_again() -> None:
    for kept in range(len(numbered(1))):
        disk = FakeDisk()
        bench = Bench(disk, policy=SyncPolicy.NEVER, config=LogConfig())
        bench.append(numbered(0))
        file = disk.open(PATH)
        file.write(numbered(1)[:kept], file.size())
        disk.kill()
        bench.open()
        assert bench.log.end_offset == 1
        (again, following) = bench.append(numbered(0), numbered(1))
        assert (again.duplicate, following.duplicate, following.base_offset) == (True, False, 1)
