"""Micro-batches as plain frames on their way into the tables."""

import datetime
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kohort.spark.pipelines.delta_log import DeltaLog
from kohort.spark.pipelines.files import LocalFiles
from kohort.spark.pipelines.forms import Evolve, Values
from kohort.spark.pipelines.json_shape import Loader, load
from kohort.spark.pipelines.landing import BatchReport, Lander, Partition, Plan
from kohort.spark.pipelines.registry import RegistryLoader
from kohort.spark.pipelines.spans import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)
EVENING = datetime.datetime(2026, 11, 15, 23, 59, 58, tzinfo=datetime.UTC)


def record(topic: str, partition: int, offset: int, value: bytes | None = None) -> tuple[Any, ...]:
    """One a second, so that the third is of the next day."""
    when = EVENING + datetime.timedelta(seconds=offset)
    value = f"{topic}-{partition}@{offset}".encode() if value is None else value
    return (b"k", value, topic, partition, offset, when, 0, [("h", b"1")] if offset == 0 else None)


@dataclass
class Archive:
    """An archive in a directory, fed by hand."""

    spark: "SparkSession"
    root: Path
    values: Values = Values.BINARY
    evolve: Evolve = Evolve.OFF
    is_delta: bool = False
    loader: Loader = load
    reports: list[BatchReport] = field(default_factory=list)
    topic_ids: list[str] = field(default_factory=lambda: ["id"])  # one after the other, the last for ever

    def land(
        self, rows: Iterable[tuple[Any, ...]], offsets: Mapping[Partition, Span], *, topic_id: str = ""
    ) -> BatchReport:
        """A batch that was planned when all topics had this id."""
        frame = self.spark.createDataFrame(list(rows), SCHEMA)
        plan = Plan(offsets, {topic: topic_id for topic, _ in offsets})
        Lander(
            root=self.root,
            instance="1",
            values=self.values,
            evolve=self.evolve,
            is_delta=self.is_delta,
            loader=self.loader,
            plan=lambda _: plan,
            topic_ids=self._ids,
            report=self.reports.append,
        ).land(frame, len(self.reports))
        return self.reports[-1]

    def _ids(self, topics: Collection[str]) -> Mapping[str, str]:
        return dict.fromkeys(topics, self.topic_ids.pop(0) if len(self.topic_ids) > 1 else self.topic_ids[0])

    def read(self, table: str) -> "DataFrame":
        return self.spark.read.option("mergeSchema", "true").parquet(str(self.root / table))

    def offsets(self, table: str) -> list[tuple[int, int]]:
        return sorted((row.partition, row.offset) for row in self.read(table).collect())


@pytest.fixture
def archive(spark: "SparkSession", tmp_path: Path) -> Archive:
    return Archive(spark, tmp_path / "archive")


def test_topics_land_in_tables_of_their_own_by_day_and_replays_add_nothing(archive: Archive) -> None:
    rows = [record("a", 0, offset) for offset in range(4)] + [record("b", 3, 7)]
    planned = {("a", 0): Span(0, 5), ("b", 3): Span(7, 8), ("c", 0): Span(9, 9)}
    assert archive.land(rows, planned) == BatchReport(0, {"a": 4, "b": 1}, 0, 0, 0, 3)
    assert archive.land(rows, planned) == BatchReport(1, {}, 0, 6, 0, 0)
    assert archive.read("a").columns == [
        "key", "value", "headers", "topic", "partition", "offset", "timestamp", "date",
    ]  # fmt: skip
    days = {row.date.isoformat(): row["count"] for row in archive.read("a").groupBy("date").count().collect()}
    assert days == {"2026-11-15": 2, "2026-11-16": 2}
    first = archive.read("a").where("offset = 0").collect()[0]
    assert (bytes(first.key), bytes(first.value), first.headers[0].key) == (b"k", b"a-0@0", "h")
    assert not list((archive.root / "_kohort" / "_staging").rglob("*.parquet"))


def test_an_overlap_lands_only_what_is_new_and_a_new_life_of_a_topic_lands_whole(archive: Archive) -> None:
    crowd = {("a", partition): Span(0, 3) for partition in range(2, 2_000)}  # without a record
    archive.land([record("a", 0, offset) for offset in range(3)], {("a", 0): Span(0, 3), **crowd})
    wider = [record("a", 0, offset) for offset in range(1, 6)] + [record("a", 1, 0)]
    assert archive.land(wider, {("a", 0): Span(1, 6), ("a", 1): Span(0, 1), **crowd}).rows == {"a": 4}
    assert archive.offsets("a") == [(0, offset) for offset in range(6)] + [(1, 0)]
    archive.topic_ids = ["another"]
    assert archive.land([record("a", 0, 0)], {("a", 0): Span(0, 1)}).rows == {"a": 1}


def test_what_was_planned_of_a_topic_does_not_land_as_records_of_the_one_made_after_it(
    archive: Archive,
) -> None:
    rows = [record("a", 0, offset) for offset in range(5)]
    archive.topic_ids = ["new"]
    assert archive.land(rows[3:], {("a", 0): Span(3, 9)}, topic_id="old") == BatchReport(0, {}, 0, 0, 6, 0)
    assert archive.land(rows, {("a", 0): Span(0, 5)}, topic_id="new").rows == {"a": 5}
    assert archive.offsets("a") == [(0, offset) for offset in range(5)]


def test_a_topic_that_is_made_again_while_it_is_read_lands_nothing(archive: Archive) -> None:
    archive.topic_ids = ["old", "new"]
    report = archive.land([record("a", 0, 0)], {("a", 0): Span(0, 1)}, topic_id="old")
    assert (report.rows, report.gone) == ({}, 1)
    assert not (archive.root / "a" / "_kohort" / "ledger.json").exists()


def test_two_topics_of_one_name_that_are_both_gone_are_not_taken_for_one(archive: Archive) -> None:
    archive.topic_ids = [""]
    for topic_id in ("first", "second"):
        report = archive.land([record("a", 0, 0)], {("a", 0): Span(0, 1)}, topic_id=topic_id)
        assert report.rows == {"a": 1}


def test_text_that_is_none_goes_to_the_side_table_with_a_reason(archive: Archive) -> None:
    archive.values = Values.UTF8
    tombstone = (b"k", None, "a", 0, 2, EVENING, 0, None)
    rows = [record("a", 0, 0, "grüße".encode()), record("a", 0, 1, b"\xff\xfe"), tombstone]
    report = archive.land(rows, {("a", 0): Span(0, 3)})
    assert (report.rows, report.bad) == ({"a": 2}, 1)
    assert [row.value for row in archive.read("a").orderBy("offset").collect()] == ["grüße", None]
    (bad,) = archive.read("a+bad").collect()
    assert (bytes(bad.value), bad.offset, bad.reason) == (b"\xff\xfe", 1, "not UTF-8")


def test_json_becomes_columns_by_the_schema_of_the_first_batch(archive: Archive) -> None:
    archive.values = Values.JSON
    first = [record("a", 0, 0, b'{"id": 1, "to": {"city": "Oslo"}}'), record("b", 0, 0, b'{"x": [1.5]}')]
    archive.land(first, {("a", 0): Span(0, 1), ("b", 0): Span(0, 1)})
    later = [
        record("a", 0, 1, b'{"id": 2, "new": true}'),
        record("a", 0, 2, b'{"id": "two"}'),
        record("a", 0, 3, b"oops"),
    ]
    report = archive.land(later, {("a", 0): Span(1, 4)})
    assert (report.rows, report.bad) == ({"a": 1}, 2)
    rows = archive.read("a").select("value.id", "value.to.city", "extra").orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [(1, "Oslo", None), (2, None, '{"new": true}')]
    bad = archive.read("a+bad").orderBy("offset").collect()
    assert [row.reason[:30] for row in bad] == [
        "id is a string, not a bigint",
        "not JSON: Expecting value: lin",
    ]
    assert archive.read("b").select("value.x").collect()[0][0] == [1.5]


def test_json_of_other_types_gets_columns_of_its_own_and_old_files_stay_readable(archive: Archive) -> None:
    archive.values, archive.evolve, archive.is_delta = Values.JSON, Evolve.VERSION, True
    archive.land([record("a", 0, 0, b'{"id": 1, "to": {"city": "Oslo"}}')], {("a", 0): Span(0, 1)})
    drifting = [
        record("a", 0, 1, b'{"id": 0.5, "to": {"city": "Rome", "zip": 7}}'),
        record("a", 0, 2, b'{"id": "two", "tags": ["x"]}'),
        record("a", 0, 3, b"oops"),
        record("a", 0, 4, b'{"id": 4}'),
    ]
    report = archive.land(drifting, {("a", 0): Span(1, 5)})
    assert (report.rows, report.bad) == ({"a": 3}, 1)
    names = ("value.id", "value.id__2", "value.id__3", "value.to.zip", "value.tags", "extra")
    rows = archive.read("a").orderBy("offset").select(*names).collect()
    assert [tuple(row) for row in rows] == [
        (1, None, None, None, None, None),
        (None, 0.5, None, 7, None, None),
        (None, None, "two", None, ["x"], None),
        (None, 4.0, None, None, None, None),
    ]
    assert [row.offset for row in archive.read("a+bad").collect()] == [3]
    for table, files in (("a", 3), ("a+bad", 1)):  # whoever reads it as Delta finds the same columns
        snapshot = DeltaLog(LocalFiles(archive.root), table).snapshot()
        assert len(snapshot.files) == files
        assert types(snapshot.columns()) == types(archive.read(table).schema.jsonValue()["fields"])


def types(fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in fields}


def test_values_of_a_schema_registry_become_columns(archive: Archive, tmp_path: Path) -> None:
    schema = {"type": "record", "name": "A", "fields": [{"name": "id", "type": "long"}]}
    (tmp_path / "7.avsc").write_text(json.dumps(schema))
    archive.values, archive.loader = Values.REGISTRY, RegistryLoader(str(tmp_path))
    rows = [record("a", 0, 0, b"\0\0\0\0\7\x0a"), record("a", 0, 1, b"\0\0\0\0\x08\x0a")]
    assert archive.land(rows, {("a", 0): Span(0, 2)}).bad == 1
    assert [row.id for row in archive.read("a").select("value.id").collect()] == [5]
    assert [row.reason for row in archive.read("a+bad").collect()] == ["there is no schema 8 in the registry"]


def test_json_without_a_single_object_is_kept_aside(archive: Archive) -> None:
    archive.values = Values.JSON
    assert archive.land([record("a", 0, 0, b"7")], {("a", 0): Span(0, 1)}).bad == 1
    assert archive.read("a+bad").collect()[0].reason.startswith("no schema yet")
