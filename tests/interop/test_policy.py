"""Deletion by policy beside Kafka: the same records with the same settings, and the same ones are left.

``tests/property/log/test_policy.py`` walks through many more mixes, on a model of these rules.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.interop.conftest import need
from tests.interop.scripts.exchange import Exchange
from tests.interop.scripts.fetch import part, reading
from tests.interop.scripts.list_offsets import asking, at
from tests.interop.scripts.setting import append, make_topic, settle
from tests.interop.targets import SETTINGS, Target, kohort_broker, kohort_missing
from tools.peers.kafka_broker import kafka_broker
from tools.peers.pins import Peer

from kohort.records.batch import batches, build_batch, read_records
from kohort.records.record import NewRecord
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

pytestmark = [pytest.mark.interop, pytest.mark.slow]

OFTEN = {
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "200",
}
DAY = 86_400_000
NO_TIME = None
WEEK_OLD, DAY_OLD, NEW, SOON = -8 * DAY, -DAY, 0, 1_800_000
HALF = 600_000  # two of these do not fit in the smallest segment that Kafka allows


@dataclass(frozen=True)
class Case:
    """A topic and what is appended to it: one batch for each time, counted from now, or absolute."""

    times: list[int | None]
    configs: dict[str, str] = field(default_factory=dict)
    keys: str = ""  # one letter for each batch; capitals are tombstones. Without keys: the first letter
    size: int = HALF
    absolute: bool = False
    deleted: int = 0  # DeleteRecords up to here, before policies run


COMPACT = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}
EACH_ITS_SEGMENT = {"segment_bytes": "1048576"}
CASES: dict[str, Case] = {
    "no timestamps": Case([NO_TIME] * 4),
    "no timestamps, nothing is kept by time": Case([NO_TIME] * 4, {"retention_ms": "1"}),
    "timestamps of 1970": Case([0, 1, 2], absolute=True),
    "old records": Case([WEEK_OLD, WEEK_OLD, WEEK_OLD]),
    "a young segment protects those after it": Case([WEEK_OLD, NEW, WEEK_OLD, WEEK_OLD]),
    "records of the future": Case([SOON, WEEK_OLD, WEEK_OLD]),
    "old before none before old": Case([WEEK_OLD, NO_TIME, WEEK_OLD]),
    "many batches in a segment count as one": Case([WEEK_OLD, WEEK_OLD, NEW, WEEK_OLD], size=100),
    "old records kept by choice": Case([WEEK_OLD] * 3, {"retention_ms": "-1"}),
    "bytes": Case([NEW] * 5, {"retention_bytes": "1300000"}),
    "bytes, not one to spare": Case([NEW] * 3, {"retention_bytes": "0"}),
    "bytes and time": Case([NEW, WEEK_OLD, WEEK_OLD, NEW, NEW], {"retention_bytes": "2400000"}),
    "records were deleted, the next are old": Case([NEW, WEEK_OLD, NEW], deleted=1),
    "append time counts": Case([0, 1], {"message_timestamp_type": "LogAppendTime"}, absolute=True),
    "compaction": Case([DAY_OLD] * 5, COMPACT, keys="abaab"),
    "compaction without timestamps": Case([NO_TIME] * 5, COMPACT, keys="abaab"),
    "compaction waits for young records": Case(
        [DAY_OLD, DAY_OLD, NEW, DAY_OLD, DAY_OLD],
        {**COMPACT, "min_compaction_lag_ms": "3600000"},
        keys="aaaaa",
    ),
    "compaction waits for records without timestamps": Case(
        [DAY_OLD, DAY_OLD, NO_TIME, DAY_OLD], {**COMPACT, "min_compaction_lag_ms": "3600000"}, keys="aaaa"
    ),
    "compaction is not worth it": Case(
        [NEW] * 4, {**COMPACT, "min_cleanable_dirty_ratio": "1.0"}, keys="aaaa"
    ),
    "compaction is due, worth it or not": Case(
        [DAY_OLD] * 4,
        {**COMPACT, "min_cleanable_dirty_ratio": "1.0", "max_compaction_lag_ms": "3600000"},
        keys="aaaa",
    ),
    "compaction without timestamps is never due": Case(
        [NO_TIME] * 4,
        {**COMPACT, "min_cleanable_dirty_ratio": "1.0", "max_compaction_lag_ms": "3600000"},
        keys="aaaa",
    ),
    "tombstones stay for a day": Case([DAY_OLD] * 4, COMPACT, keys="aAbb"),
    "compaction and deletion": Case(
        [WEEK_OLD, WEEK_OLD, NEW, NEW, NEW], {**COMPACT, "cleanup_policy": "compact,delete"}, keys="abccc"
    ),
}


def batch(case: Case, number: int, now: int) -> bytes:
    when = case.times[number]
    timestamp = -1 if when is None else when if case.absolute else now + when
    key = case.keys[number] if case.keys else None
    value = None if key is not None and key.isupper() else b"x" * case.size
    return build_batch([NewRecord(timestamp, None if key is None else key.lower().encode(), value)])


def fill(x: Exchange, topic: str, case: Case, now: int) -> None:
    make_topic(x, topic, 1, **EACH_ITS_SEGMENT, **case.configs)
    for number in range(len(case.times)):
        append(x, topic, batch(case, number, now))
    if case.deleted:
        deleted = DeleteRecordsPartition(partition_index=0, offset=case.deleted)
        topics = [DeleteRecordsTopic(name=topic, partitions=[deleted])]
        x.ask(DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2)


def left(x: Exchange, topic: str) -> list[int]:
    """Start and end of a log, then the offsets of the records that can be read."""
    start = x.ask(asking(topic, at(-2)), 5).topics[0].partitions[0].offset
    end = x.ask(asking(topic, at(-1)), 5).topics[0].partitions[0].offset
    offset, found = start, [start, end]
    while offset < end:
        answer = x.ask(reading(topic, part(offset=offset, limit=1 << 26), max_bytes=1 << 26), 11)
        content = bytes(answer.responses[0].partitions[0].records or b"")
        if not content:
            break
        for position, header in batches(content):
            found += [
                each.offset for each in read_records(content, position, header) if each.offset >= offset
            ]
            offset = header.next_offset
    return found


def outcome(x: Exchange) -> dict[str, list[int]]:
    """Append everything, let both policies run over it, and say what is left."""
    now = time.time_ns() // 1_000_000
    topics = {name: f"policy-{number}" for number, name in enumerate(CASES)}
    for name, topic in topics.items():
        fill(x, topic, CASES[name], now)
    # Policies go over logs in rounds: when they have been over these twice, they have been over all.
    old, outdated = Case([WEEK_OLD]), Case([DAY_OLD] * 4, COMPACT, keys="aaaa")
    for round_ in ("first", "second"):
        fill(x, f"{round_}-old", old, now)
        settle("retention", lambda: len(left(x, f"{round_}-old")) == 2)  # noqa: B023 - called at once
        fill(x, f"{round_}-outdated", outdated, now)
        settle("compaction", lambda: len(left(x, f"{round_}-outdated")) == 4)  # noqa: B023 - called at once
    return {name: left(x, topic) for name, topic in topics.items()}


@contextmanager
def exchange(target: Target) -> Iterator[Exchange]:
    x = Exchange(target.address)
    try:
        yield x
    finally:
        x.close()


def test_the_same_records_are_left_as_in_kafka(tmp_path: Path) -> None:
    need(Peer.KAFKA)
    assert kohort_missing() is None
    settings = {**SETTINGS, **OFTEN}
    with kafka_broker(settings, tmp_path / "kafka") as broker:
        kafka = Target("kafka", broker.bootstrap, broker.data)
        with exchange(kafka) as x:
            expected = outcome(x)
    kohort_settings = {name: value for name, value in settings.items() if not name.startswith("log.initial")}
    with kohort_broker(tmp_path / "kohort", kohort_settings) as target, exchange(target) as x:
        assert outcome(x) == expected
