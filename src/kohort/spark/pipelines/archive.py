"""The archive: a Spark query, member of its group, that lands topics in tables of Parquet files.

What makes it exact is in ``landing`` and ``table``; here is the process around them.
"""

import json
import re
import signal
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.client.admin import Admin
from kohort.client.admin.topics import OffsetSpec
from kohort.client.errors import BrokerError, UnknownTopicError
from kohort.client.settings import ClientOptions, secured
from kohort.model.errors import KohortError
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition, is_legal_name, show_topic_id
from kohort.spark.group.offsets import from_json, held_in
from kohort.spark.pipelines.compaction import Sizes, compact
from kohort.spark.pipelines.files import CannotExchangeError, LocalFiles, check_directory
from kohort.spark.pipelines.forms import Evolve, Values
from kohort.spark.pipelines.instances import checkpoint_of, claimed
from kohort.spark.pipelines.json_shape import Fields
from kohort.spark.pipelines.landing import BatchReport, Lander, Plan
from kohort.spark.pipelines.progress import Ended, Landed, MergedFiles, Started, Tell, Trouble
from kohort.spark.pipelines.registry import loader_of
from kohort.spark.pipelines.spans import Span
from kohort.spark.pipelines.table import Table, tables
from kohort.spark.pipelines.table_schema import pin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_LOOK_SECONDS = 0.1
_MOST_NAMED = 5  # topics in a hint
_LAST_BATCH_SECONDS = 60.0
_MERGE_SECONDS = 60.0
_CLIENT = ClientOptions(client_id="kohort-archive", connect_timeout_ms=5_000, api_timeout_ms=15_000)


class NoSuchTopicError(KohortError):
    """A topic to archive does not exist, and nothing of it has landed before."""


class PipelineError(KohortError):
    """The query failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            reason,
            hint="what has landed stays, and the same command goes on from there",
            retriable=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """What to archive, and how. ``topics``: names with commas between, or a regular expression."""

    bootstrap: str
    topics: str
    to: Path
    group: str
    values: Values = Values.BINARY
    evolve: Evolve = Evolve.OFF
    is_delta: bool = False
    registry: str | None = field(default=None, repr=False)  # it may hold a password
    contract: Mapping[str, Fields] = field(default_factory=dict)
    trigger_seconds: float = 10.0
    once: bool = False
    start: str = "earliest"
    max_records: int | None = None
    instance: str | None = None
    master: str | None = None
    memory: str = "1g"
    merge: Sizes = field(default_factory=Sizes)
    security: Mapping[str, str] = field(default_factory=dict, repr=False)  # by Kafka's names


def subscription(topics: str) -> tuple[str, str]:
    """The option that says which topics: names if all parts could be names, else a regular expression."""
    names = [name.strip() for name in topics.split(",")]
    return ("subscribe", ",".join(names)) if all(map(is_legal_name, names)) else ("subscribePattern", topics)


def source_options(options: ArchiveOptions, checkpoint: Path) -> dict[str, str]:
    """The options of the source for this pipeline."""
    how, which = subscription(options.topics)
    chosen = {
        how: which,
        "kafka.bootstrap.servers": options.bootstrap,
        "kafka.group.id": options.group,
        "kafka.client.id": _CLIENT.client_id,
        "kafka.metadata.max.age.ms": "5000",  # a new topic is to be seen soon
        "includeHeaders": "true",
        "startingOffsets": "group",
        "kohort.offset.reset": options.start,
        "kohort.checkpoint": str(checkpoint),
        "failOnDataLoss": "false",  # what is gone is a gap in the table, and the rest goes on
    }
    chosen |= {f"kafka.{name}": value for name, value in options.security.items()}
    if options.max_records is not None:
        chosen["maxOffsetsPerTrigger"] = str(options.max_records)
    if options.instance is not None:
        chosen["kohort.instance"] = options.instance
    return chosen


def plan_of(checkpoint: Path, batch: int) -> Plan:
    """What a batch reads, from the note Spark makes of it before it runs: a replay reads exactly the same."""
    line = (checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
    spans = from_json(json.loads(line))
    return Plan(
        {(where.topic, int(where.partition)): Span(span.start, span.end) for where, span in spans.items()},
        {where.topic: span.topic_id for where, span in spans.items() if span.start < span.end},
        frozenset((where.topic, int(where.partition)) for where in held_in(spans)),
    )


def topic_ids(admin: Admin, topics: Collection[str]) -> dict[str, str]:
    """The ids of topics now, as text; "" for a topic that is gone, and from brokers that have none."""
    ids: dict[str, str] = {}
    described = admin.describe_topics(topics)
    for name, found in described.items():
        if isinstance(found, UnknownTopicError):
            ids[name] = ""
        elif isinstance(found, BrokerError):
            raise found
        else:
            ids[name] = show_topic_id(found.topic_id) if any(found.topic_id) else ""
    return ids


def lag_behind(admin: Admin, done: Plan) -> int | None:
    """How many offsets wait in the partitions the instance holds; None if no broker answers."""
    wanted = {
        TopicPartition(TopicName(topic), Partition(number)): done.offsets[topic, number]
        for topic, number in done.held
    }
    latest = dict.fromkeys(wanted, OffsetSpec.LATEST)
    try:
        ends = admin.list_offsets(latest)
    except KohortError:
        return None
    return sum(
        max(0, end.offset - wanted[where].end)
        for where, end in ends.items()
        if not isinstance(end, BrokerError)
    )


def check_topics(options: ArchiveOptions, admin: Admin) -> None:
    """Raises NoSuchTopicError for a name without topic and, with ``once``, for a pattern that fits none."""
    how, which = subscription(options.topics)
    there = sorted(topic.name for topic in admin.list_topics() if not topic.is_internal)
    known = f"topics are {', '.join(there[:_MOST_NAMED])}{' …' if len(there) > _MOST_NAMED else ''}"
    hint = known if there else "there are no topics yet"
    if how == "subscribe":
        landed = {table.topic for table in tables(options.to)} if options.to.is_dir() else set()
        missing = sorted({*which.split(",")} - {*there} - landed)
        if missing:
            raise NoSuchTopicError(f"--topics: there is no topic {missing[0]!r}", hint=hint)
    elif options.once and not any(re.fullmatch(which, name) for name in there):
        raise NoSuchTopicError(f"--topics: no topic matches {which!r}", hint=hint)


def archive(
    options: ArchiveOptions, tell: Tell, stopping: threading.Event, spark: "SparkSession | None" = None
) -> None:
    """Run until ``stopping`` is set or, with ``once``, until everything there is has landed.

    On its own session, or on ``spark``, which goes on afterwards. Raises KohortError: NoBrokerError at once
    rather than after Spark has started.
    """
    from kohort.spark.sessions import warm_up

    with ExitStack() as held:
        admin = held.enter_context(Admin(options.bootstrap, secured(_CLIENT, options.security, is_text=True)))
        cluster = admin.describe_cluster().cluster_id or "none"
        check_topics(options, admin)
        check_directory(options.to)
        files = LocalFiles(options.to.resolve())
        instance = held.enter_context(claimed(files, options.instance))
        checkpoint = files.at(checkpoint_of(cluster, options.group, instance))
        for topic, fields in options.contract.items():
            pin(Table(files, topic, options.values), fields)
        if stopping.is_set():
            return
        if spark is None:
            spark = start_spark(options)
            held.callback(spark.stop)
        warm_up(spark)  # before the query takes partitions of others
        run = _Run(options, files, admin, tell, stopping)
        query = run.start(spark, instance, checkpoint)
        tell(Started(instance, options.group))
        run.watch(query, checkpoint)
        tell(Ended(run.batches, run.rows))


def start_spark(options: ArchiveOptions) -> "SparkSession":
    """A session that is no larger than the work: it runs beside other things. Ctrl-C means what it did."""
    from kohort.spark.sessions import session

    on_interrupt = signal.getsignal(signal.SIGINT)
    started = session(
        f"kohort archive {options.group}",
        master=options.master,
        conf={
            "spark.driver.memory": options.memory,
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xss4m",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.minBatchesToRetain": "20",
        },
    )
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, on_interrupt)  # Spark's would cancel the batch that is to be finished
    return started


class _Run:
    """One run of the query. Batches land in a thread of Spark's; everything else happens in ours."""

    def __init__(
        self, options: ArchiveOptions, files: LocalFiles, admin: Admin, tell: Tell, stopping: threading.Event
    ) -> None:
        self._options = options
        self._files = files
        self._admin = admin
        self._tell = tell
        self._stopping = stopping
        self._merges = True
        self._merged_at = time.monotonic()
        self.batches = 0
        self.rows = 0

    def start(self, spark: "SparkSession", instance: str, checkpoint: Path) -> "StreamingQuery":
        reports: list[BatchReport] = []
        lander = Lander(
            root=self._files.root,
            instance=instance,
            values=self._options.values,
            evolve=self._options.evolve,
            is_delta=self._options.is_delta,
            loader=loader_of(self._options.registry),
            plan=lambda batch: plan_of(checkpoint, batch),
            topic_ids=lambda topics: topic_ids(self._admin, topics),
            report=reports.append,
        )

        def land(frame: "DataFrame", batch: int) -> None:
            began = time.monotonic()
            lander.land(frame, batch)
            lag = lag_behind(self._admin, plan_of(checkpoint, batch))
            self._landed(reports.pop(), round(time.monotonic() - began, 3), lag)

        records = (
            spark.readStream.format("kohort").options(**source_options(self._options, checkpoint)).load()
        )
        writer = records.writeStream.foreachBatch(land).option("checkpointLocation", checkpoint.as_uri())
        if self._options.once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(
                processingTime=f"{int(self._options.trigger_seconds * 1_000)} milliseconds"
            )
        return writer.start()

    def _landed(self, report: BatchReport, seconds: float, lag: int | None) -> None:
        self.batches += 1
        self.rows += sum(report.rows.values())
        self._tell(Landed(*report, seconds=seconds, lag=lag))

    def watch(self, query: "StreamingQuery", checkpoint: Path) -> None:
        """Until the query ends or is to end; raises PipelineError if it fails."""
        from pyspark.errors import StreamingQueryException

        try:
            while not self._stopping.is_set():
                if query.awaitTermination(_LOOK_SECONDS):  # type: ignore[arg-type]  # seconds may be fractions
                    return
                self._merge_now_and_then()
            self._come_to_rest(query, checkpoint)
        except StreamingQueryException as error:
            raise PipelineError(explain(str(error))) from error

    def _come_to_rest(self, query: "StreamingQuery", checkpoint: Path) -> None:
        """Stop between two batches: the source commits the last one then, and leaves the group."""
        from kohort.spark.group.drain import drain_at

        if self._options.once or self._options.trigger_seconds <= 1:
            drain_at(query, checkpoint, _LAST_BATCH_SECONDS)  # exact, but has to wait for the next trigger
            return
        deadline = time.monotonic() + _LAST_BATCH_SECONDS
        while query.status["isTriggerActive"] and time.monotonic() < deadline:
            query.awaitTermination(_LOOK_SECONDS)  # type: ignore[arg-type]  # seconds may be fractions
        query.stop()

    def _merge_now_and_then(self) -> None:
        if not self._merges or time.monotonic() - self._merged_at < _MERGE_SECONDS:
            return
        self._merged_at = time.monotonic()
        try:
            root = self._files.root
            for done in compact(tables(root), root, self._options.merge, lambda: not self._stopping.is_set()):
                self._tell(MergedFiles(*done))
        except (CannotExchangeError, OSError) as error:
            self._merges = False
            self._tell(Trouble(f"small files stay as they are: {error}"))


def explain(message: str) -> str:
    """The line of a failed query's message that says why: the last error Python named, or the first line."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    named = [line for line in lines if "Error: " in line and not line.startswith("org.")]
    chosen = named[-1] if named else lines[0] if lines else "the query failed"
    return chosen.rpartition("Error: ")[2] if named else chosen
