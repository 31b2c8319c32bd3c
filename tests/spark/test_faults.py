"""Faults under real queries: the broker restarts in a batch, a batch outlasts the group, a log is corrupt."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.clients.waiting import eventually
from tests.clients.with_own import Own
from tests.spark.group_stage import QUICK, Stage, all_offsets, group_reader
from tests.spark.test_group_company import Company

from kohort.client.errors import NoBrokerError
from kohort.model.topics import TopicPartition
from kohort.records.batch import CorruptBatchError
from kohort.spark.offsets import OffsetRange, topic_partition
from kohort.spark.tasks import RangePartition
from kohort.testing.broker import Broker
from kohort.testing.intercept import Rule, swallow
from kohort.testing.plugin import Kohort
from kohort.testing.ports import HeldPort

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.slow
PATIENCE_SECONDS = 90


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """One that keeps its records over a restart."""
    with Broker(data=tmp_path / "broker", configs={"group.initial.rebalance.delay.ms": 0}) as started:
        yield started


@pytest.fixture
def stage(broker: Broker, request: pytest.FixtureRequest) -> Stage:
    return Stage(Kohort(broker, request.node.name))


class Readers:
    """Queries of the stage's topic that run until the end of the test, and the rows they have written."""

    def __init__(self, spark: "SparkSession", stage: Stage, root: Path) -> None:
        self._spark, self._stage, self._root = spark, stage, root
        self._running: dict[str, StreamingQuery] = {}
        self._rows: dict[str, list[tuple[TopicPartition, int]]] = {}

    def start(self, name: str, meanwhile: Callable[[], object] = bool, **options: str) -> None:
        """A query whose clients go by ``name``; ``meanwhile`` is called inside every batch."""
        rows = self._rows.setdefault(name, [])

        def keep(batch: "DataFrame", number: int) -> None:
            meanwhile()
            found = batch.select("topic", "partition", "offset").collect()
            rows.extend((topic_partition(row[0], row[1]), row[2]) for row in found)

        given = {"kafka.bootstrap.servers": self._stage.kohort.bootstrap, "subscribe": self._stage.topic}
        given |= {"startingOffsets": "earliest", "kafka.client.id": name, **QUICK}
        given |= {option.replace("__", "."): value for option, value in options.items()}
        source = self._spark.readStream.format("kohort").options(**given).load()
        sink = source.writeStream.foreachBatch(keep).option("checkpointLocation", str(self._root / name))
        self._running[name] = sink.start()

    def until_all(self, *names: str, each: int) -> None:
        """Until these queries have every record; what they have is compared, so a repeated one fails."""
        wanted = all_offsets(self._stage.everywhere(each))
        for name in names:
            self.until(name, f"{name} to have it all", partial(self._has, name, len(wanted)))
            assert self.rows(name) == wanted

    def _has(self, name: str, count: int) -> bool:
        return len(self._rows[name]) >= count

    def until(self, name: str, wanted: str, holds: Callable[[], bool]) -> None:
        """Ask now and then; a query that fails says why."""
        query = self._running[name]
        eventually(wanted, lambda: holds() or bool(query.awaitTermination(1) and holds()), PATIENCE_SECONDS)

    def rows(self, name: str) -> list[tuple[TopicPartition, int]]:
        return sorted(self._rows[name])

    def stop(self) -> None:
        for query in self._running.values():
            query.stop()


@pytest.fixture
def readers(spark: "SparkSession", stage: Stage, tmp_path: Path) -> Iterator[Readers]:
    made = Readers(spark, stage, tmp_path / "checkpoints")
    yield made
    made.stop()


def test_a_restart_of_the_broker_in_a_batch_costs_neither_query_a_record(
    readers: Readers, stage: Stage, broker: Broker
) -> None:
    stage.write(20)
    held = {name: broker.intercept(swallow, api="Fetch", client=name, times=1) for name in ("one", "two")}
    readers.start("one", kafka__group__id=stage.group)
    readers.start("two")
    for name, rule in held.items():
        readers.until(name, "a fetch without an answer", seen_by(rule))
    broker.restart()
    readers.until_all("one", "two", each=20)
    stage.write(5)
    readers.until_all("one", "two", each=25)
    readers.until("one", "the last commit", lambda: stage.committed() == stage.everywhere(25))


def test_the_partitions_of_a_query_in_a_long_batch_go_to_another_member_and_nothing_is_lost(
    readers: Readers, stage: Stage
) -> None:
    working, over = threading.Event(), threading.Event()

    def take_long() -> None:
        working.set()
        assert over.wait(PATIENCE_SECONDS)

    stage.write(10)
    readers.start("slow", take_long, kafka__group__id=stage.group, kafka__max__poll__interval__ms="2000")
    readers.until("slow", "a batch", working.is_set)
    with closing(Company(Own(), stage)) as other:
        eventually("the other to have it all", lambda: has_all(other, stage, 10), PATIENCE_SECONDS)
        over.set()
        stage.write(10)

        def both_have_worked() -> bool:
            other.trigger()
            return len({*readers.rows("slow"), *other.offsets}) == 60 and committed_all(stage, 20)

        readers.until("slow", "the rest", both_have_worked)
    stage.write(5)
    readers.until("slow", "what comes later", lambda: committed_all(stage, 25))
    rows = readers.rows("slow")
    assert sorted({*rows, *other.offsets}) == all_offsets(stage.everywhere(25)), "none is missing"
    assert len(rows) == len(set(rows)), "the query has none twice"
    assert {*all_offsets(stage.everywhere(10))} <= {*rows} & {*other.offsets}, "the long batch: both have it"


def test_a_task_in_a_new_process_waits_for_a_broker_that_is_not_back_yet(tmp_path: Path) -> None:
    with HeldPort() as port, ThreadPoolExecutor(1) as executor:
        with Broker(data=tmp_path, port=port.number) as broker:
            stage = Stage(Kohort(broker, "waiting"), partitions=1)
            stage.write(4)
            address = broker.bootstrap
        reader = group_reader(address, stage.topic, stage.group, kafka__client__id="new")
        share = RangePartition(OffsetRange(stage.topic, 0, 0, 4))
        reading = executor.submit(lambda: sum(batch.num_rows for batch in reader.read(share)))
        assert not wait([reading], 0.5).done
        with Broker(data=tmp_path, port=port.number):
            assert reading.result(PATIENCE_SECONDS) == 4


def test_a_task_gives_up_on_a_broker_that_stays_away() -> None:
    reader = group_reader("127.0.0.1:1", "t", "g", kafkaConsumer__pollTimeoutMs="100")
    with pytest.raises(NoBrokerError, match=r"cannot reach a broker at 127\.0\.0\.1:1"):
        list(reader.read(RangePartition(OffsetRange("t", 0, 0, 4))))


def test_a_corrupt_batch_in_the_log_fails_the_task_and_is_named(stage: Stage, tmp_path: Path) -> None:
    stage.write(3)
    spoil(tmp_path / "broker" / f"{stage.topic}-1")
    query = stage.query(failOnDataLoss="false")
    assert query.trigger() == 9
    read = {one.partition: RangePartition(one) for one in query.read}
    with pytest.raises(CorruptBatchError, match=rf"cannot read {stage.topic}-1 at offset 0: .* checksum"):
        list(query.reader.read(read[1]))
    assert sum(batch.num_rows for batch in query.reader.read(read[2])) == 3, "the others are fine"
    query.stop()
    assert stage.committed() == stage.everywhere(0), "the batch never became durable"
    careless = stage.query(query.end, kafka__check__crcs="false")
    assert sum(batch.num_rows for batch in careless.reader.read(read[1])) == 3, "bytes as they are"


def seen_by(rule: Rule) -> Callable[[], bool]:
    return lambda: bool(rule.seen)


def has_all(other: Company, stage: Stage, each: int) -> bool:
    other.trigger()
    return len(other.holds) == 3 and committed_all(stage, each)


def committed_all(stage: Stage, each: int) -> bool:
    return stage.committed() == stage.everywhere(each)


def spoil(log: Path) -> None:
    """Change a byte of the last record."""
    segment = max(log.glob("*.log"))
    content = segment.read_bytes()
    segment.write_bytes(content[:-2] + bytes([content[-2] ^ 0xFF]) + content[-1:])
