"""Produce: every version, and every way to be refused."""

import struct
import time
from collections.abc import Iterator

from tests.interop.scripts.exchange import Answer, Exchange
from tests.interop.scripts.setting import T0, batch, make_topic, produce_request, ready_group, records

from kohort.primitives.crc import crc32c
from kohort.records.batch import BatchFields, build_batch
from kohort.records.compression import Codec
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC = "script.produce"
HOUR = 3_600_000
Steps = Iterator[tuple[str, Answer]]

ATTRIBUTES, LAST_DELTA, COUNT, CRC, MAGIC = 21, 23, 57, 17, 16


def patched(blob: bytes, position: int, format_: str, value: int, *, sealed: bool = True) -> bytes:
    """A batch with one header field overwritten; ``sealed``: with a checksum that fits again."""
    changed = bytearray(blob)
    struct.pack_into(format_, changed, position, value)
    if sealed:
        struct.pack_into(">I", changed, CRC, crc32c(bytes(changed[ATTRIBUTES:])))
    return bytes(changed)


def produce_versions(x: Exchange) -> Steps:
    """The same batch in each version, by name and by id; acks; several partitions in one request."""
    topic_id = make_topic(x, TOPIC, 2)
    for version in range(3, 13):
        yield f"v{version}", x.get(produce_request(TOPIC, batch("a", "b")), version)
    yield "v13 by id", x.get(produce_request(topic_id, batch("a")), 13)
    yield "v13 unknown id", x.get(produce_request(bytes(range(16)), batch("a")), 13)
    yield "v13 zero id", x.get(produce_request(bytes(16), batch("a")), 13)
    x.post_unanswered(produce_request(TOPIC, batch("silent"), acks=0), 9)
    yield "only Metadata answers after acks 0", x.get(MetadataRequest(topics=[]), 9)
    yield "acks 1", x.get(produce_request(TOPIC, batch("one"), acks=1), 9)
    for acks in (2, -2, 100):
        yield f"acks {acks}", x.get(produce_request(TOPIC, batch("a"), acks=acks), 9)
    x.post_unanswered(produce_request("script.nowhere", batch("a"), acks=0), 9, on="lost")
    x.post(MetadataRequest(topics=[]), 9, on="lost")
    yield "a failed acks 0 closes the connection", x.take("lost")
    for codec in Codec:
        blob = batch("x" * 40, "y", fields=BatchFields(codec=codec))
        yield f"codec {codec.name}", x.get(produce_request(TOPIC, blob, partition=1), 9)
    zstd = batch("z", fields=BatchFields(codec=Codec.ZSTD))
    yield "zstd in v6", x.get(produce_request(TOPIC, zstd), 6)
    yield "zstd in v7", x.get(produce_request(TOPIC, zstd), 7)


def produce_targets(x: Exchange) -> Steps:
    """Topics and partitions that are not there, internal, repeated or several."""
    name = "script.produce-targets"
    make_topic(x, name, 2)
    ready_group(x, "script.produce-targets")
    for version in (3, 7, 8, 9, 12):
        yield f"unknown topic v{version}", x.get(produce_request("script.none", batch("a")), version)
    for partition in (2, -1):
        yield f"partition {partition}", x.get(produce_request(name, batch("a"), partition=partition), 9)
    yield "invalid name", x.get(produce_request("no good", batch("a")), 9)
    yield "empty name", x.get(produce_request("", batch("a")), 9)
    yield "internal topic", x.get(produce_request("__consumer_offsets", batch("a")), 9)
    good = PartitionProduceData(index=0, records=batch("good"))
    bad = PartitionProduceData(index=1, records=patched(batch("bad"), CRC, ">I", 1, sealed=False))
    both = [TopicProduceData(name=name, partition_data=[good, bad])]
    yield "one good, one bad", x.get(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=both), 9)
    elsewhere = TopicProduceData(name="script.none", partition_data=[good])
    mixed = [elsewhere, TopicProduceData(name=name, partition_data=[good])]
    yield "one known, one unknown", x.get(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=mixed), 9)
    yield "no topics", x.get(ProduceRequest(acks=-1, timeout_ms=5000), 9)
    empty = [TopicProduceData(name=name)]
    yield "no partitions", x.get(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=empty), 9)


def produce_damaged(x: Exchange) -> Steps:
    """Batches that are not what they should be."""
    name = "script.produce-damaged"
    make_topic(x, name)
    whole = batch("a", "b")
    # Null records are left out: Kafka fails on them without ever answering.
    wrong = {
        "no bytes": b"",
        "seven bytes": whole[:7],
        "sixty bytes": whole[:60],
        "cut in the middle": whole[:-3],
        "two batches": whole + whole,
        "a tail of zeros": whole + bytes(20),
        "wrong checksum": patched(whole, CRC, ">I", 1, sealed=False),
        "magic 0": patched(whole, MAGIC, ">b", 0),
        "magic 1": patched(whole, MAGIC, ">b", 1),
        "magic 3": patched(whole, MAGIC, ">b", 3),
        "negative length": patched(whole, 8, ">i", -1),
        "length too small": patched(whole, 8, ">i", 20),
        "length too large": patched(whole, 8, ">i", len(whole)),
        "base offset 5": patched(whole, 0, ">q", 5),
        "leader epoch 99": patched(whole, 12, ">i", 99),
        "count 0": patched(whole, COUNT, ">i", 0),
        "count 3": patched(whole, COUNT, ">i", 3),
        "count -1": patched(whole, COUNT, ">i", -1),
        "last delta 0": patched(whole, LAST_DELTA, ">i", 0),
        "last delta 5": patched(whole, LAST_DELTA, ">i", 5),
        "last delta -1": patched(whole, LAST_DELTA, ">i", -1),
        "control batch": patched(whole, ATTRIBUTES, ">h", 0x20),
        "codec 5": patched(whole, ATTRIBUTES, ">h", 5),
        "codec 7": patched(whole, ATTRIBUTES, ">h", 7),
        "gzip that is none": patched(whole, ATTRIBUTES, ">h", 1),
        "delete horizon": patched(whole, ATTRIBUTES, ">h", 0x40),
        "transactional without a producer": patched(whole, ATTRIBUTES, ">h", 0x10),
        "unused attribute bits": patched(whole, ATTRIBUTES, ">h", 0x4000),
    }
    for label, blob in wrong.items():
        yield label, x.get(produce_request(name, blob), 9)
    yield "two batches in v3", x.get(produce_request(name, whole + whole), 3)
    yield "the next good batch", x.get(produce_request(name, whole), 9)


def produce_limits(x: Exchange) -> Steps:
    """Sizes, keys and times that a topic refuses."""
    compacted, small, stamped, segment = (
        f"script.produce-{kind}" for kind in ("compacted", "small", "stamped", "segment")
    )
    make_topic(x, compacted, cleanup_policy="compact")
    make_topic(x, small, max_message_bytes="200")
    make_topic(x, stamped, message_timestamp_type="LogAppendTime")
    make_topic(x, segment, segment_bytes="1048576", max_message_bytes="3000000")
    yield "null key, compacted", x.get(produce_request(compacted, batch("a", "b", key=None)), 9)
    mixed = build_batch([*records("a"), *records("b", "c", key=None), *records("d")])
    yield "some null keys, compacted", x.get(produce_request(compacted, mixed), 9)
    yield "null keys, compacted, v7", x.get(produce_request(compacted, mixed), 7)
    yield "tombstone, compacted", x.get(produce_request(compacted, batch(None)), 9)
    yield "too large", x.get(produce_request(small, batch("x" * 300)), 9)
    yield "too large, v3", x.get(produce_request(small, batch("x" * 300)), 3)
    zipped = batch("x" * 3000, fields=BatchFields(codec=Codec.GZIP))
    yield "small when compressed", x.get(produce_request(small, zipped), 9)
    yield "larger than a segment", x.get(produce_request(segment, batch("x" * 1_200_000)), 9)
    default = batch("x" * 1_048_600)
    yield "above the default limit", x.get(produce_request(compacted, default), 9)
    future = int(time.time() * 1000) + 2 * HOUR
    yield "two hours ahead", x.get(produce_request(compacted, batch("a", at=future)), 9)
    yield "half an hour ahead", x.get(produce_request(compacted, batch("a", at=future - 90 * 60_000)), 9)
    yield "long ago", x.get(produce_request(compacted, batch("a", at=1)), 9)
    yield "no timestamp", x.get(produce_request(compacted, batch("a", at=-1)), 9)
    yield "append time", x.get(produce_request(stamped, batch("a", at=T0)), 9)
    marked = patched(batch("a"), ATTRIBUTES, ">h", 0x08)
    yield "append time set by the client", x.get(produce_request(stamped, marked), 9)
    yield "append time on a topic without", x.get(produce_request(compacted, marked), 9)
    ahead = batch("a", at=future)
    yield "two hours ahead, append time", x.get(produce_request(stamped, ahead), 9)
