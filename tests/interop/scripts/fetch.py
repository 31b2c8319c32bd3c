"""Fetch without sessions: every version, budgets, ends of the log, epochs, unknown topics."""

from collections.abc import Iterator

from tests.interop.scripts.exchange import Answer, Exchange
from tests.interop.scripts.setting import append, batch, make_topic, produce_request

from kohort.records.batch import BatchFields
from kohort.records.compression import Codec
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

Steps = Iterator[tuple[str, Answer]]
LARGE = 1 << 20
NEWEST = 18


def part(index: int = 0, offset: int = 0, limit: int = LARGE, epoch: int = -1) -> FetchPartition:
    """One partition to read from an offset."""
    return FetchPartition(
        partition=index, fetch_offset=offset, partition_max_bytes=limit, current_leader_epoch=epoch
    )


def reading(topic: str | bytes, *parts: FetchPartition, max_bytes: int = LARGE) -> FetchRequest:
    """A sessionless fetch that does not wait."""
    where = FetchTopic(partitions=list(parts))
    if isinstance(topic, bytes):
        where.topic_id = topic
    else:
        where.topic = topic
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=max_bytes, session_id=0, session_epoch=-1, topics=[where]
    )


def fetch_versions(x: Exchange) -> Steps:
    """The same log in each version, from different offsets, with different isolation."""
    name = "script.fetch"
    topic_id = make_topic(x, name)
    append(x, name, batch("a", "b", "c"))
    append(x, name, batch("d", fields=BatchFields(codec=Codec.LZ4)))
    for version in range(4, 13):
        yield f"v{version}", x.get(reading(name, part()), version)
    for version in range(13, NEWEST + 1):
        yield f"v{version}", x.get(reading(topic_id, part()), version)
    for offset in (1, 2, 3, 4, 5, -1, -2, 1 << 40):
        yield f"from {offset}", x.get(reading(name, part(offset=offset)), 12)
    committed = reading(name, part())
    committed.isolation_level = 1
    yield "read committed v4", x.get(committed, 4)
    yield "read committed v12", x.get(committed, 12)
    odd = reading(name, part())
    odd.isolation_level = 7
    yield "isolation 7", x.get(odd, 12)
    append(x, name, batch("z", fields=BatchFields(codec=Codec.ZSTD)))
    yield "zstd in v9", x.get(reading(name, part()), 9)
    yield "zstd in v10", x.get(reading(name, part()), 10)
    yield "behind the zstd batch in v9", x.get(reading(name, part(offset=5)), 9)
    packed = "script.fetch-zstd"
    make_topic(x, packed, compression_type="zstd")
    append(x, packed, batch("a", fields=BatchFields(codec=Codec.ZSTD)))
    for version in (4, 9, 10):
        yield f"a zstd topic in v{version}", x.get(reading(packed, part()), version)


def fetch_budgets(x: Exchange) -> Steps:
    """How many bytes come back, and from which partitions."""
    name, wide = "script.fetch-budget", "script.fetch-wide"
    make_topic(x, name)
    make_topic(x, wide, 100)
    for value in ("a" * 100, "b" * 100, "c" * 100):
        append(x, name, batch(value))
    size = len(batch("a" * 100))
    for limit in (0, 1, size - 1, size, size + 1, 2 * size, -1):
        yield f"partition limit {limit - size:+}", x.get(reading(name, part(limit=limit)), 12)
        yield f"limit {limit - size:+}", x.get(reading(name, part(), max_bytes=limit), 12)
    for index in (0, 50, 99):
        append(x, wide, batch("w" * 50), partition=index)
    every = [part(index) for index in range(100)]
    yield "a hundred partitions, one byte", x.get(reading(wide, *every, max_bytes=1), 12)
    yield "a hundred partitions", x.get(reading(wide, *every), 12)
    backwards = [part(index) for index in (99, 50, 0, 7)]
    yield "in the order asked, one byte", x.get(reading(wide, *backwards, max_bytes=1), 12)


def fetch_refusals(x: Exchange) -> Steps:
    """Epochs, topics and partitions that do not fit."""
    name = "script.fetch-refused"
    topic_id = make_topic(x, name, 2)
    append(x, name, batch("a"))
    for epoch in (-1, 0, 1, 5, -2):
        yield f"leader epoch {epoch}", x.get(reading(name, part(epoch=epoch)), 12)
    for last in (0, 3):
        request = part(offset=1)
        request.last_fetched_epoch = last
        yield f"last fetched epoch {last}", x.get(reading(name, request), 12)
    for version in (4, 7, 12):
        yield f"unknown topic v{version}", x.get(reading("script.none", part()), version)
    yield "unknown id", x.get(reading(bytes(range(16)), part()), 13)
    yield "zero id", x.get(reading(bytes(16), part()), 13)
    yield "invalid name", x.get(reading("no good", part()), 12)
    yield "unknown partition", x.get(reading(name, part(2)), 12)
    yield "unknown partition by id", x.get(reading(topic_id, part(2)), 13)
    yield "negative partition", x.get(reading(name, part(-1)), 12)
    yield "one good, one unknown", x.get(reading(name, part(7), part(0)), 12)
    mixed = reading(topic_id, part(0))
    mixed.topics.insert(0, FetchTopic(topic_id=bytes(range(16)), partitions=[part(0)]))
    yield "an unknown id before a good one", x.get(mixed, 13)
    yield "the same partition twice", x.get(reading(name, part(0), part(0, offset=1)), 12)
    nothing = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=0, session_epoch=-1)
    yield "no topics", x.get(nothing, 12)
    yield "no partitions", x.get(reading(name), 12)


def fetch_waiting(x: Exchange) -> Steps:
    """A fetch at the end of the log waits until something is there, or its time is up."""
    name = "script.fetch-waiting"
    make_topic(x, name, 2)
    append(x, name, batch("a"))
    waiting = reading(name, part(offset=1))
    waiting.max_wait_ms = 10_000
    x.post(waiting, 12, on="reader")
    yield "nothing yet", x.expect_silence("reader")
    yield "a record arrives", x.get(produce_request(name, batch("b")), 9)
    yield "and wakes the reader", x.take("reader")
    short = reading(name, part(offset=2))
    short.max_wait_ms = 100
    yield "time is up", x.get(short, 12)
    none = reading(name, part(offset=2))
    none.min_bytes, none.max_wait_ms = 0, 10_000
    yield "no bytes wanted", x.get(none, 12)
    wrong = reading(name, part(offset=2), part(9))
    wrong.max_wait_ms = 100
    yield "an unknown partition beside one that waits", x.get(wrong, 12)
    beyond = reading(name, part(offset=9))
    beyond.max_wait_ms = 10_000
    yield "out of range does not wait", x.get(beyond, 12)
