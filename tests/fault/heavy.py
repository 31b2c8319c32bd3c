"""Produce requests whose bytes cost the most to look at: empty gzip members, bombs, very many batches."""

import struct
import zlib
from collections.abc import Iterator

from tests.broker.asking import T0, batch, produce_request
from tests.fault.weird import CHECKED, CRC

from kohort.codec.schema import Message
from kohort.primitives.crc import crc32c
from kohort.records.batch import BatchFields, NewRecord, build_batch
from kohort.records.compression import Codec

LARGEST_BATCH = 1_048_588  # bytes: the default of max.message.bytes
_EMPTY_MEMBER = zlib.compress(b"", wbits=31)
_BOMB = 64 * 1024 * 1024  # bytes that a few kilobytes become
_SIZE = 8  # of a record batch: where its length is
_BEHIND_SIZE = 12


def empty_members(size: int = LARGEST_BATCH) -> bytes:
    """A gzip batch of one record, with as many empty members behind it as ``size`` bytes hold."""
    blob = batch("v", fields=BatchFields(codec=Codec.GZIP))
    grown = bytearray(blob + _EMPTY_MEMBER * ((size - len(blob)) // len(_EMPTY_MEMBER)))
    struct.pack_into(">i", grown, _SIZE, len(grown) - _BEHIND_SIZE)
    struct.pack_into(">I", grown, CRC, crc32c(bytes(grown[CHECKED:])))
    return bytes(grown)


def bomb(codec: Codec) -> bytes:
    """A small batch whose one record is large."""
    return build_batch([NewRecord(T0, b"k", bytes(_BOMB))], BatchFields(codec=codec))


def heavy_produces(name: str) -> Iterator[Message]:
    """Requests for a topic with two partitions."""
    members = empty_members()
    yield produce_request(name, members, members)
    for codec in (Codec.GZIP, Codec.ZSTD):
        yield produce_request(name, bomb(codec))
    request = produce_request(name, batch("v", fields=BatchFields(codec=Codec.GZIP)))
    request.topic_data[0].partition_data *= 2_000
    yield request
