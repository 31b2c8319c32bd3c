"""The tables of the lake: hand-worked answers on small frames, and a lake filled from a broker."""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kohort import Consumer, Producer
from kohort.lake import schemas, tables
from kohort.lake.expiry import RULES as EXPIRY_RULES
from kohort.lake.expiry import offset_expiry
from kohort.lake.landing import (
    Cadence,
    Event,
    Files,
    LoadLanded,
    Refreshed,
    SourceCluster,
    fill,
    follow,
    land,
)
from kohort.lake.queries import ask
from kohort.lake.report import report
from kohort.lake.segments import log_end
from kohort.lake.status import RULES
from kohort.lake.store import Lake, with_load
from kohort.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow
START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def frame(spark: "SparkSession", table: schemas.TableInfo, rows: Sequence[dict[str, Any]]) -> "DataFrame":
    schema = with_load(table)
    return spark.createDataFrame(
        [tuple(({"load": 1} | row).get(name) for name in schema.names) for row in rows], schema
    )


def commit(offset: int, committed: int, seconds: float, **others: Any) -> dict[str, Any]:  # noqa: ANN401
    base = {"kind": "offset_commit", "tombstone": False, "group_id": "g", "topic": "t", "partition": 0}
    place = {"src_partition": 0, "src_offset": offset, "ts": at(seconds), "commit_ts": at(seconds)}
    return base | place | {"committed": committed} | others


def marker(offset: int, producer: int, result: str) -> dict[str, Any]:
    return {
        "kind": "control",
        "src_partition": 0,
        "src_offset": offset,
        "producer_id": producer,
        "details": result,
    }


def test_commits_count_once_and_those_of_transactions_when_they_are_committed(spark: "SparkSession") -> None:
    records = [
        commit(0, 10, 1),
        commit(0, 10, 1),  # landed twice
        commit(1, 20, 2, producer_id=7),
        marker(2, 7, "COMMIT"),
        commit(3, 30, 3, producer_id=7),
        marker(4, 7, "ABORT"),
        marker(5, 7, "COMMIT"),  # of another transaction, which had no commits here
        commit(6, 40, 4, producer_id=8),  # still open
        commit(7, 50, 5, problem="cut off"),
    ]
    found = tables.offset_commits(frame(spark, schemas.RECORDS, records))
    assert sorted((row.src_offset, row.committed) for row in found.collect()) == [(0, 10), (1, 20)]


def test_lag_is_the_log_end_less_the_newest_commit_at_that_time(spark: "SparkSession") -> None:
    records = frame(spark, schemas.RECORDS, [commit(0, 5, 10), commit(1, 8, 30)])
    ends = [
        {"ts": at(seconds), "topic": "t", "partition": 0, "log_start": 0, "log_end": end}
        for seconds, end in ((0, 5), (20, 7), (25, 9), (40, 9), (50, 8))
    ]
    snapshots = [
        {
            "group_id": "g",
            "generation": 1,
            "members": [("m", None, "c", "/h", 1, ["t"], [("t", 0)])],
            "ts": at(22),
            "src_partition": 0,
            "src_offset": 9,
        }
    ]
    timed = tables.time_lags(tables.offset_commits(records), frame(spark, schemas.LOG_ENDS, ends))
    found = tables.lag_samples(timed, frame(spark, schemas.GROUP_SNAPSHOTS, snapshots))
    rows = found.selectExpr("unix_seconds(ts) as second", "committed", "lag", "time_lag_ms", "owner").orderBy(
        "ts"
    )
    begin = int(START.timestamp())
    assert [(row[0] - begin, *row[1:]) for row in rows.collect()] == [
        (20, 5, 2, 0, None),  # the log was first seen to end behind 5 just now
        (25, 5, 4, 5_000, "m"),
        (40, 8, 1, 15_000, "m"),  # an end behind 8 was first seen at 25
        (50, 8, 0, 0, "m"),
    ]


def window(*samples: tuple[int, int], owner: str | None = "m", last_commit: float | None = None) -> list[Any]:
    """Samples of (committed, log_end), ten seconds apart, each with a commit but for ``last_commit``."""
    return [
        {
            "ts": at(10 * number),
            "committed": committed,
            "log_end": end,
            "lag": max(end - committed, 0),
            "commit_ts": at(10 * number if last_commit is None else last_commit),
            "owner": owner,
            "has_members": True,
        }
        for number, (committed, end) in enumerate(samples)
    ]


WINDOWS = {
    "nothing waits": (1, "OK", window((5, 5))),
    "the commit went back": (2, "REWOUND", window((9, 9), (4, 9), (5, 9))),
    "no member has the partition": (3, "UNOWNED", window((5, 9), (5, 9), owner=None)),
    "two samples show no movement": (4, "UNKNOWN", window((5, 9), (5, 9))),
    "it was done with all at a moment": (5, "OK", window((5, 5), (5, 6), (5, 7))),
    "no commit since the window began": (6, "STOPPED", window((5, 9), (5, 9), (5, 9), last_commit=-5)),
    "commits of the same offset": (7, "STALLED", window((5, 9), (5, 10), (5, 11))),
    "it moves and falls behind": (8, "LAGGING", window((5, 9), (6, 11), (7, 13))),
    "it moves and its lag is the same": (9, "OK", window((5, 9), (6, 10), (7, 11))),
    "it moves and its lag got smaller once": (9, "OK", window((5, 9), (8, 11), (9, 14))),
    "what got smaller before the window does not count": (
        8, "LAGGING", window((0, 50), *((n, 10 + 2 * n) for n in range(1, 12))),
    ),
}  # fmt: skip


def test_each_rule_of_lag_status_decides_a_window(spark: "SparkSession") -> None:
    samples = [
        row | {"group_id": name, "topic": "t", "partition": 0}
        for name, (_, _, rows) in WINDOWS.items()
        for row in rows
    ]
    found = tables.lag_status(tables.judged(frame(spark, schemas.LAG_SAMPLES, samples)))
    last = {row.group_id: row for row in found.orderBy("ts").collect()}
    assert {name: (row.rule, row.status) for name, row in last.items()} == {
        name: (rule, status) for name, (rule, status, _) in WINDOWS.items()
    }
    assert {row.rule for row in last.values()} == {rule.number for rule in RULES}


def stored(
    name: str, kind: str, state: str, since: float | None, *subscribed: list[str], number: int = 1
) -> dict[str, Any]:
    """A snapshot of a group whose members subscribe to these."""
    members: list[tuple[Any, ...]] = [(str(topics), None, "c", "/h", 1, topics, []) for topics in subscribed]
    since_ts = None if since is None else at(since)
    place = {"group_id": name, "src_partition": 0, "src_offset": number}
    return place | {"group_type": kind, "state": state, "since": since_ts, "members": members, "ts": at(0)}


# Each group has committed at second 10; the retention is 100 seconds.
EXPIRIES: dict[str, tuple[int, int | None, list[dict[str, Any]], dict[str, Any]]] = {
    "a member subscribes to the topic": (1, None, [stored("", "classic", "Stable", 5, ["t"])], {}),
    "another topic": (5, 110, [stored("", "classic", "Stable", 5, ["u"])], {}),
    "connectors": (2, None, [stored("", "classic", "Stable", 5, [])], {}),
    "the commit has an end": (3, 42, [stored("", "classic", "Empty", 30)], {"expire_ts": at(42)}),
    "classic, empty since 30": (
        4, 130, [stored("", "classic", "Stable", 5, ["t"]), stored("", "classic", "Empty", 30, number=2)], {},
    ),
    "classic, empty, not known since when": (5, 110, [stored("", "classic", "Empty", None)], {}),
    "KIP-848, empty": (5, 110, [stored("", "consumer", "Empty", None)], {}),
    "never had members": (5, 110, [], {}),
}  # fmt: skip


def test_offsets_expire_when_the_rules_say(spark: "SparkSession") -> None:
    commits = [
        row
        for name, (_, _, _, others) in EXPIRIES.items()
        for row in (
            commit(0, 1, 1) | {"group_id": name},
            commit(1, 2, 10) | {"group_id": name} | others,
            commit(2, 2, 9) | {"group_id": name, "topic": "gone"},
            commit(3, 0, 11, tombstone=True) | {"group_id": name, "topic": "gone"},
        )
    ]
    snapshots = [row | {"group_id": name} for name, (_, _, those, _) in EXPIRIES.items() for row in those]
    found = offset_expiry(
        frame(spark, schemas.OFFSET_COMMITS, commits),
        frame(spark, schemas.GROUP_SNAPSHOTS, snapshots),
        100_000,
    )
    begin = int(START.timestamp())
    asked = found.selectExpr("group_id", "rule", f"unix_seconds(expires) - {begin} as second").collect()
    assert {row.group_id: (row.rule, row.second) for row in asked} == {
        name: (rule, second) for name, (rule, second, _, _) in EXPIRIES.items()
    }
    assert len(asked) == len(EXPIRIES)
    assert {row.rule for row in asked} == {rule.number for rule in EXPIRY_RULES}


def test_a_lake_is_filled_from_a_broker_once_and_from_its_files_alike(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(
        configs={"num.partitions": 2, "offsets.retention.minutes": 60}, data=tmp_path / "data"
    ) as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(10):
                producer.send("orders", b"%d" % number, partition=number % 2)
        with Consumer(
            "orders", bootstrap_servers=broker.bootstrap, group_id="billing", auto_offset_reset="earliest"
        ) as consumer:
            seen = 0
            while seen < 10:
                seen += sum(map(len, consumer.poll(1_000).values()))
            consumer.commit()
        events: list[Event] = []
        stopping = threading.Event()

        def hear(event: Event) -> None:
            events.append(event)
            if len(events) == 3:
                stopping.set()

        lake, copy = Lake(tmp_path / "lake"), Lake(tmp_path / "copy")
        source = SourceCluster(bootstrap=broker.bootstrap, options={})
        with lake.writing():
            follow(spark, lake, source, Cadence(trigger=0, refresh=3_600, samples=3), stopping, hear)
    # It lands at each trigger, and makes the tables at once and in the end.
    assert [type(event) for event in events] == [LoadLanded, Refreshed, LoadLanded, Refreshed]
    assert events[2].rows == {"log_ends": 2}  # nothing else is new
    landed = events[0].rows
    assert (sorted(landed), landed["log_ends"]) == (["journal", "log_ends", "records"], 8)
    with copy.writing():
        with monkeypatch.context() as earlier:  # the broker has written since the ends were looked up
            earlier.setattr("kohort.lake.landing.log_end", lambda those: max(log_end(those) - 2, 0))
            land(spark, copy, Files(tmp_path / "data"))
        fill(spark, copy, Files(tmp_path / "data"), lambda _: None)
    for table, key in ((schemas.RECORDS, "(src_partition, src_offset)"), (schemas.JOURNAL, "event_id")):
        there = copy.read(spark, table)
        assert there.count() == there.selectExpr(key).distinct().count()
    assert rows(copy.read(spark, schemas.OFFSET_COMMITS)) == rows(lake.read(spark, schemas.OFFSET_COMMITS))
    told = lake.read(spark, schemas.REBALANCES).select("gen_to", "inferred")
    assert rows(told) == [(1, False), (2, False)]  # the first generation, and the empty one behind it
    assert ask(spark, lake.root, "select gen_to, inferred from rebalances order by gen_to", 9) == (
        ["gen_to", "inferred"],
        [[1, False], [2, False]],
    )
    asked = "select partition, expires - counts_from = interval 60 minutes from offset_expiry order by 1"
    assert ask(spark, lake.root, asked, 9)[1] == [[0, True], [1, True]]
    page = report(spark, lake.root)
    assert "1 group, 2 rebalances" in page
    assert all(f'<figure id="{name}"' in page for name in ("timeline", "phases", "lag", "members", "commits"))
    assert rows(copy.read(spark, schemas.REBALANCES).select("gen_to", "inferred")) == rows(told)
    snapshots, journal = copy.read(spark, schemas.GROUP_SNAPSHOTS), copy.read(spark, schemas.JOURNAL)
    guessed = tables.rebalances(tables.stories(snapshots, journal.limit(0)))
    assert rows(guessed.select("gen_to", "inferred")) == [(1, True), (2, True)]  # as from files of Kafka


def rows(frame: "DataFrame") -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())
