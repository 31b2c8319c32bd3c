"""CRC-32C (Castagnoli), the checksum of record batches and snapshots."""

from collections.abc import Callable

from kohort.primitives.buffers import Buffer

_checksum: Callable[[Buffer, int], int] | None = None


def crc32c(data: Buffer, before: int = 0) -> int:
    """The checksum of ``data``; ``before`` is the checksum of what precedes it, to go on from there."""
    return (_checksum or _load())(data, before)


def _load() -> Callable[[Buffer, int], int]:
    # Importing the package costs 49 ms, three times what Python itself needs: not before the first batch.
    global _checksum  # the imported function, kept after the first call
    import crc32c as package

    _checksum = package.crc32c
    return package.crc32c
