"""CRC-32C."""

import subprocess
import sys

from kohort.primitives.crc import crc32c


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


def test_a_checksum_may_be_taken_in_pieces_of_any_kind() -> None:
    assert crc32c(memoryview(b"6789"), crc32c(bytearray(b"12345"))) == 0xE3069283


def test_nothing_slow_is_imported_before_it_is_needed() -> None:
    modules = "kohort.records.produced, kohort.records.offsets_topic"
    script = f"import sys, {modules}; print(sorted({{'crc32c', 'cramjam'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
