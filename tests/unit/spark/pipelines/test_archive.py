"""The process around the archive: what it asks of the source, what it reads of the plan, what it says."""

import json
import signal
from pathlib import Path

import pytest

from kohort import Producer
from kohort.client.admin import Admin
from kohort.spark import sessions
from kohort.spark.group.offsets import GroupOffsetSpan, to_json
from kohort.spark.offsets import topic_partition
from kohort.spark.options import parse_source_options
from kohort.spark.pipelines.archive import (
    ArchiveOptions,
    explain,
    lag_behind,
    plan_of,
    source_options,
    start_spark,
    subscription,
)
from kohort.spark.pipelines.landing import Plan
from kohort.spark.pipelines.spans import Span
from kohort.testing.plugin import Kohort


def options(**more: str) -> ArchiveOptions:
    given = {"bootstrap": "127.0.0.1:9092", "topics": "orders", "group": "g", **more}
    return ArchiveOptions(to=Path("d"), **given)  # type: ignore[arg-type]  # all of these are text


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ("orders", ("subscribe", "orders")),
        ("orders, shop.users", ("subscribe", "orders,shop.users")),
        ("shop[.].*", ("subscribePattern", "shop[.].*")),
        (".*", ("subscribePattern", ".*")),
    ],
)
def test_what_could_be_names_are_names_and_all_else_is_a_pattern(
    topics: str, expected: tuple[str, str]
) -> None:
    assert subscription(topics) == expected


def test_the_source_understands_what_it_is_asked() -> None:
    chosen = source_options(options(instance="one", start="latest"), Path("checkpoint"))
    parsed = parse_source_options(chosen, streaming=True)
    assert parsed.is_member
    assert parsed.include_headers
    assert not parsed.fail_on_data_loss
    assert (parsed.offset_reset, parsed.instance_id, parsed.checkpoint) == ("latest", "one", "checkpoint")


def test_spark_does_not_change_what_ctrl_c_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def session(*_: object, **__: object) -> str:
        signal.signal(signal.SIGINT, lambda *_: None)  # as Spark's context does
        return "spark"

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sessions, "session", session)
    try:
        assert start_spark(options()) == "spark"  # type: ignore[comparison-overlap]  # a stand-in
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_plan_of_a_batch_is_read_from_the_checkpoint(tmp_path: Path) -> None:
    spans = {
        topic_partition("orders", 2): GroupOffsetSpan(5, 9, 1, "id"),
        topic_partition("users", 0): GroupOffsetSpan(3, 3, 1, "other"),
    }
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(to_json(spans))}')
    assert plan_of(tmp_path, 7) == Plan(
        {("orders", 2): Span(5, 9), ("users", 0): Span(3, 3)},
        {"orders": "id"},
        frozenset({("orders", 2), ("users", 0)}),
    )


def test_lag_is_that_of_the_partitions_the_instance_holds(kohort: Kohort) -> None:
    topic = kohort.topic(partitions=3)
    with Producer(bootstrap_servers=kohort.bootstrap) as producer:
        for partition in range(3):
            for _ in range(10):
                producer.send(topic, b"x", partition=partition)
    offsets = {(topic, 0): Span(0, 4), (topic, 1): Span(2, 2), (topic, 2): Span(10, 10)}
    held = frozenset({(topic, 0), (topic, 2)})
    with Admin(kohort.bootstrap) as admin:
        assert lag_behind(admin, Plan(offsets, {}, held)) == 6, "partition 1 was given away"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("[STREAM_FAILED] Query [id = 1] terminated", "[STREAM_FAILED] Query [id = 1] terminated"),
        (
            'top\nFile "x"\nkohort.spark.errors.DataLossError: records are gone\n\norg.apache.X',
            "records are gone",
        ),
        ("", "the query failed"),
    ],
)
def test_a_failed_query_is_explained_in_one_line(message: str, expected: str) -> None:
    assert explain(message) == expected
