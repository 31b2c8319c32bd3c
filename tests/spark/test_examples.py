"""Every example, as its own text says to use it, in the session and on the broker of the tests."""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from examples import enrich, exactly_once_table, migrate_connector_job, shared_group, wordcount
from tests.clients.libraries import quietly
from tests.clients.waiting import eventually
from tests.spark.group_stage import Stage

import kohort as clients
from kohort.spark.group.drain import drain
from kohort.testing.plugin import Kohort

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("spark")]

Keyed = tuple[bytes | None, bytes]


def write(to: Kohort, topic: str, records: Iterable[Keyed]) -> None:
    with clients.Producer(bootstrap_servers=to.bootstrap) as producer:
        for key, value in records:
            producer.send(topic, value, key=key)


def read(of: Kohort, topic: str, count: int) -> list[Any]:
    """So many values of a topic, decoded."""
    found: list[Any] = []
    with clients.Consumer(bootstrap_servers=of.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        for record in consumer:
            found.append(json.loads(record.value or b""))
            if len(found) == count:
                return found
    return found


def numbered(numbers: range) -> list[Keyed]:
    return [(str(number % 7).encode(), str(number).encode()) for number in numbers]


@contextmanager
def stopped_at_the_end(query: "StreamingQuery") -> "Iterator[StreamingQuery]":
    try:
        yield query
    finally:
        query.stop()


def test_words_are_counted_and_a_second_run_adds_what_is_new(
    spark: "SparkSession", kohort: Kohort, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = kohort.topic(partitions=2)
    write(kohort, topic, [(None, b"To be, or not to be"), (None, b"that is")])
    wordcount.count(spark, kohort.bootstrap, topic, tmp_path)
    write(kohort, topic, [(None, b"the question: to be")])
    wordcount.main([topic, str(tmp_path), "--bootstrap", kohort.bootstrap])
    found = {row["word"]: row["count"] for row in spark.read.parquet(str(tmp_path / "words")).collect()}
    assert found == {"to": 3, "be": 3, "or": 1, "not": 1, "that": 1, "is": 1, "the": 1, "question": 1}
    assert "question" in capsys.readouterr().out


def test_orders_are_joined_with_the_newest_record_of_their_customer(
    spark: "SparkSession", kohort: Kohort, tmp_path: Path
) -> None:
    topics = enrich.EnrichTopics(kohort.bootstrap, kohort.topic(), kohort.topic(partitions=2), kohort.topic())

    def order(number: int, customer: str) -> Keyed:
        return None, json.dumps({"order": number, "customer": customer, "total": 9.5}).encode()

    write(kohort, topics.customers, [(b"ann", b'{"city": "Graz"}'), (b"bob", b'{"city": "Linz"}')])
    write(kohort, topics.customers, [(b"ann", b'{"city": "Wien"}')])
    write(kohort, topics.orders, [order(1, "ann"), order(2, "bob"), order(3, "eve")])
    with stopped_at_the_end(enrich.start(spark, topics, str(tmp_path), once=False)) as query:
        query.processAllAvailable()
        first = read(kohort, topics.enriched, 3)
        write(kohort, topics.customers, [(b"eve", b'{"city": "Bern"}')])
        write(kohort, topics.orders, [order(4, "eve")])
        query.processAllAvailable()
    last = read(kohort, topics.enriched, 4)[-1]
    cities = {one["order"]: one.get("city") for one in first}
    assert cities == {1: "Wien", 2: "Linz", 3: None}
    assert last == {"order": 4, "customer": "eve", "total": 9.5, "city": "Bern"}, "customers are read anew"


def test_a_table_has_each_record_once_though_all_are_delivered_again(
    kohort: Kohort, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, table = kohort.topic(partitions=3), tmp_path / "table.sqlite"

    def run(group: str, checkpoint: str) -> None:
        options = {
            "--group": group,
            "--checkpoint": str(tmp_path / checkpoint),
            "--bootstrap": kohort.bootstrap,
        }
        given = [part for option in options.items() for part in option]
        exactly_once_table.main([topic, str(table), *given, "--once"])

    first, another = kohort.group(), kohort.group()
    write(kohort, topic, numbered(range(50)))
    run(first, "a")
    write(kohort, topic, numbered(range(50, 80)))
    run(another, "b")  # from the beginning: it knows neither the checkpoint nor the commits of the first
    with closing(sqlite3.connect(table)) as database:
        values = sorted(int(value) for (value,) in database.execute("SELECT value FROM records"))
    assert values == list(range(80))
    told = [line.split()[2] for line in capsys.readouterr().out.splitlines() if line.startswith("batch")]
    assert [number for number in told if number != "0"] == ["50", "30"]


def test_a_job_shares_its_group_with_a_service_and_takes_over_when_it_stops(
    spark: "SparkSession", kohort: Kohort, tmp_path: Path
) -> None:
    stage = Stage(kohort, partitions=4)
    share = shared_group.Share(kohort.bootstrap, stage.topic, stage.group)
    handled: list[tuple[int, int]] = []
    stopping = threading.Event()

    def handle(record: Any) -> None:  # noqa: ANN401 - kafka-python has no types
        handled.append((record.partition, record.offset))

    rows, checkpoint = str(tmp_path / "rows"), str(tmp_path / "checkpoint")
    quietly("kafka")  # calls what is deprecated while it is imported
    with ThreadPoolExecutor(1) as executor:
        service = executor.submit(shared_group.serve, share, handle, stopping)
        try:
            with stopped_at_the_end(shared_group.start_job(spark, share, checkpoint, rows)) as job:
                until(job, service, "both to have partitions", lambda: owners(stage) == {"service", "job"})
                stage.write(10)
                until(job, service, "all to be committed", lambda: stage.committed() == stage.everywhere(10))
                by_service = len(handled)
                stopping.set()
                until(job, service, "the job to have it all", lambda: owners(stage) == {"job"})
                stage.write(10)
                until(job, service, "the job to do it all", lambda: stage.committed() == stage.everywhere(20))
                drain(job)
        finally:
            stopping.set()
    by_job = [(row[0], row[1]) for row in spark.read.parquet(rows).select("partition", "offset").collect()]
    assert {*handled, *by_job} == {(number, offset) for number in range(4) for offset in range(20)}
    assert by_service == len(handled) > 0
    assert len(by_job) == len(set(by_job))


def owners(stage: Stage) -> set[str]:
    """The client ids of the members that have partitions, if all partitions have one."""
    (found,) = stage.ask(lambda admin: admin.describe_groups([stage.group])).values()
    assert not isinstance(found, BaseException)
    if sum(len(one.assignment) for one in found.members) < len(stage.places):
        return set()
    return {one.client_id for one in found.members if one.assignment}


def until(job: "StreamingQuery", service: Future[None], wanted: str, holds: Callable[[], bool]) -> None:
    """Ask now and then; whoever fails meanwhile says why."""

    def has_come() -> bool:
        if service.done():
            service.result()
        return holds() or bool(job.awaitTermination(1))

    eventually(wanted, has_come, 90)


def test_a_migrated_job_goes_on_where_the_old_checkpoint_ends(
    spark: "SparkSession", kohort: Kohort, tmp_path: Path
) -> None:
    topic, group = kohort.topic(partitions=2), kohort.group()
    old, new = tmp_path / "old", tmp_path / "new"
    rows, more_rows = str(tmp_path / "rows"), str(tmp_path / "more")
    options = {"kafka.bootstrap.servers": kohort.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    write(kohort, topic, numbered(range(20)))
    # Without a group the checkpoint has the connector's form.
    assert migrate_connector_job.start(spark, "kohort", options, rows, str(old)).awaitTermination(120)
    write(kohort, topic, numbered(range(20, 30)))
    planned_only = json.dumps({topic: {"0": 1_000, "1": 1_000}})
    (old / "offsets" / "1").write_text("\n".join(("v1", "{}", planned_only)))
    arguments = ["--to", more_rows, "--checkpoint", str(new), "--old-checkpoint", str(old), "--group", group]
    migrate_connector_job.main([topic, *arguments, "--bootstrap", kohort.bootstrap])
    found = [int(row["value"]) for row in spark.read.parquet(rows, more_rows).collect()]
    assert sorted(found) == list(range(30))
