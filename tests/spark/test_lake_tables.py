"""The tables of the lake: hand-worked answers on small frames, and a lake filled from a broker."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kohort import Consumer, Producer
from kohort.lake import schemas, tables
from kohort.lake.landing import Cluster, Event, Files, fill, land
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
    found = tables.lag_samples(
        tables.offset_commits(records),
        frame(spark, schemas.LOG_ENDS, ends),
        frame(spark, schemas.GROUP_SNAPSHOTS, snapshots),
    )
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
    found = tables.lag_status(frame(spark, schemas.LAG_SAMPLES, samples))
    last = {row.group_id: row for row in found.orderBy("ts").collect()}
    assert {name: (row.rule, row.status) for name, row in last.items()} == {
        name: (rule, status) for name, (rule, status, _) in WINDOWS.items()
    }
    assert {row.rule for row in last.values()} == {rule.number for rule in RULES}


def test_a_lake_is_filled_from_a_broker_once_and_from_its_files_alike(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(configs={"num.partitions": 2}, data=tmp_path / "data") as broker:
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
        lake, copy = Lake(tmp_path / "lake"), Lake(tmp_path / "copy")
        source = Cluster(bootstrap=broker.bootstrap, options={})
        with lake.writing():
            fill(spark, lake, source, events.append, samples=3)
            again = land(spark, lake, source)
    assert again is not None
    assert again.rows == {"log_ends": 2}  # nothing else is new
    landed = events[0].rows
    assert (sorted(landed), landed["log_ends"]) == (["journal", "log_ends", "records"], 8)
    with copy.writing():
        with monkeypatch.context() as earlier:  # the broker has written since the ends were looked up
            earlier.setattr("kohort.lake.landing.log_end", lambda those: max(log_end(those) - 2, 0))
            land(spark, copy, Files(tmp_path / "data"))
        land(spark, copy, Files(tmp_path / "data"))
    records = copy.read(spark, schemas.RECORDS, copy.manifest().fresh("records"))
    places = rows(records.select("src_partition", "src_offset"))
    assert places == sorted(set(places))
    commits = tables.offset_commits(records).drop("load")
    assert rows(commits) == rows(lake.read(spark, schemas.OFFSET_COMMITS))
    told = lake.read(spark, schemas.REBALANCES).select("gen_to", "inferred")
    assert rows(told) == [(1, False), (2, False)]  # the first generation, and the empty one behind it
    guessed = tables.rebalances(tables.group_snapshots(records, {}), copy.read(spark, schemas.JOURNAL))
    assert rows(guessed.select("gen_to", "inferred")) == [(1, True), (2, True)]  # files have no journal


def rows(frame: "DataFrame") -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())
