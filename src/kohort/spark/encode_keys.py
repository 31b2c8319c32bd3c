"""The hash of a whole column of keys: what ``client.partitioner`` computes for one key, for all at once."""

import numpy as np
import numpy.typing as npt
from pyarrow import lib as pa

from kohort.client.producer.records import murmur2
from kohort.records.from_columns import Int64s, bounds, is_valid

_UInt32s = npt.NDArray[np.uint32]

_SEED = np.uint32(0x9747B28C)
_MULTIPLIER = np.uint32(0x5BD1E995)
_LONG = 512  # few rows have longer keys, and a step for all of them costs as much as a step for one


def partitions_for_keys(keys: pa.Array, partitions: int) -> Int64s:
    """The partition of each key, as every Java producer chooses it; that of a null means nothing."""
    return ((murmur2_column(keys) & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)).astype(np.int64)


def murmur2_column(keys: pa.Array) -> _UInt32s:
    """``murmur2`` of each element of a binary array; that of a null is 0."""
    hashes = np.zeros(len(keys), np.uint32)
    if len(keys) == 0:
        return hashes
    at = bounds(keys).astype(np.int64)
    starts, sizes = at[:-1], np.diff(at)
    valid = is_valid(keys)
    short = np.flatnonzero(valid & (sizes <= _LONG))
    content = keys.buffers()[2]
    # Words and tails are read four bytes at a time: behind the last key there must be some to read.
    data = np.frombuffer((content.to_pybytes() if content is not None else b"") + bytes(4), np.uint8)
    hashes[short] = _hash(data, starts[short], sizes[short])
    for row in np.flatnonzero(valid & (sizes > _LONG)):
        hashes[row] = murmur2(data[at[row] : at[row + 1]].tobytes())
    return hashes


def _hash(data: npt.NDArray[np.uint8], starts: Int64s, sizes: Int64s) -> _UInt32s:
    """Of keys at ``starts``: longest first, so that those with another word are always the first ones."""
    order = np.argsort(-sizes, kind="stable")
    starts, sizes = starts[order], sizes[order]
    words = np.ndarray((len(data) - 3,), "<u4", data, strides=(1,))  # the word at any byte
    hashed = _SEED ^ sizes.astype(np.uint32)
    counts = sizes >> 2
    for number in range(int(counts.max(initial=0))):
        live = int(np.searchsorted(-counts, -number))
        block = words[starts[:live] + 4 * number] * _MULTIPLIER
        block = (block ^ block >> np.uint32(24)) * _MULTIPLIER
        hashed[:live] = hashed[:live] * _MULTIPLIER ^ block
    rest = (sizes & 3).astype(np.uint32)
    tails = words[starts + (sizes & ~3)] & ((np.uint32(1) << np.uint32(8) * rest) - np.uint32(1))
    hashed = np.where(rest > 0, (hashed ^ tails) * _MULTIPLIER, hashed)
    hashed = (hashed ^ hashed >> np.uint32(13)) * _MULTIPLIER
    unsorted = np.empty_like(hashed)
    unsorted[order] = hashed ^ hashed >> np.uint32(15)
    return unsorted
