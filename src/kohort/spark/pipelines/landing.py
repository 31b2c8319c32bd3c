"""A micro-batch on its way into the tables: cut off what has landed, write the rest aside, then publish it.

Runs on the driver, in ``foreachBatch``. Whatever fails here fails the batch, and Spark brings it again.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from kohort.model.errors import KohortError
from kohort.spark.pipelines.files import LocalFiles
from kohort.spark.pipelines.forms import Evolve, Values
from kohort.spark.pipelines.json_shape import Loader, load
from kohort.spark.pipelines.ledger import Landing, LedgerPosition, OverlapError, PendingMove
from kohort.spark.pipelines.spans import Span, Spans, size, subtract
from kohort.spark.pipelines.staging import Staged, staged_files
from kohort.spark.pipelines.table import PARQUET, STATE, Table
from kohort.spark.pipelines.values import StagingTarget, write_aside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGING = f"{STATE}/_staging"

# Days are those of UTC, and other readers than Spark want timestamps as the format has them now.
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_ATTEMPTS = 10
_OFFSETS_A_TASK = 250_000

Partition = tuple[str, int]
TopicIds = Mapping[str, str]


class Plan(NamedTuple):
    """What a micro-batch reads: offsets by partition, and the topics' ids when it was planned, if known.

    ``offsets`` has partitions, too, that the instance has given away; ``held`` are those it had.
    """

    offsets: Mapping[Partition, Span]
    topic_ids: TopicIds
    held: frozenset[Partition] = frozenset()


class OvertakenError(KohortError):
    """Another instance has landed the same offsets each time we tried."""

    def __init__(self, topics: Collection[str]) -> None:
        super().__init__(
            f"another instance lands the same offsets of {', '.join(sorted(topics))} again and again",
            hint="instances that share a directory must share their group too",
            retriable=True,
        )


class StrayRecordError(KohortError):
    """A record outside the offsets the batch was planned with: the source and its plan disagree."""


class BatchReport(NamedTuple):
    """What became of a micro-batch. ``rows`` are by topic.

    ``skipped`` offsets had landed before; ``gone`` ones were of a topic that has been made again since.
    """

    batch: int
    rows: Mapping[str, int]
    bad: int
    skipped: int
    gone: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lander:
    """Lands micro-batches in the tables under ``root``."""

    root: Path
    instance: str
    values: Values
    evolve: Evolve = Evolve.OFF
    is_delta: bool = False
    loader: Loader = load
    plan: Callable[[int], Plan]  # of a batch, by its number
    topic_ids: Callable[[Collection[str]], TopicIds]  # of topics now; "" for one that is gone or has none
    report: Callable[[BatchReport], None]

    def land(self, frame: "DataFrame", batch: int) -> None:
        """For ``foreachBatch``: when it returns, the batch is in the tables and on the disk."""
        for name, value in _SETTINGS.items():
            frame.sparkSession.conf.set(name, value)
        plan = self.plan(batch)
        planned = {partition: span for partition, span in plan.offsets.items() if span.size > 0}
        topics = {topic for topic, _ in planned}
        tables = {
            topic: Table(LocalFiles(self.root), topic, self.values, is_delta=self.is_delta)
            for topic in topics
        }
        landed: list[_TableLanding] = []
        for _ in range(_ATTEMPTS):
            ids = self._ids_of(topics, plan)
            ledgers = {topic: table.ledger() for topic, table in tables.items()}
            missing = {
                (topic, number): ledgers[topic].missing(LedgerPosition(ids[topic], number), span)
                for (topic, number), span in planned.items()
                if topic in ids
            }
            missing = {partition: spans for partition, spans in missing.items() if spans}
            if not missing:
                gone = size([span for (topic, _), span in planned.items() if topic not in ids])
                self.report(_summary(batch, size(list(planned.values())) - gone, gone, landed))
                return
            landed += self._attempt(_Cut(frame, batch, plan, missing), tables, ids)
        raise OvertakenError(topics)

    def _ids_of(self, topics: Collection[str], plan: Plan) -> TopicIds:
        """Under which ids these topics land. None for one that was made again since the batch was planned.

        Its offsets in the plan are of the old topic; those of the new one come from its beginning.
        """
        found = {}
        for topic, now in (self.topic_ids(topics) if topics else {}).items():
            planned = plan.topic_ids.get(topic, "")
            if not (planned and now) or planned == now:
                found[topic] = planned or now
        return found

    def _attempt(self, cut: "_Cut", tables: Mapping[str, Table], ids: TopicIds) -> list["_TableLanding"]:
        """Write what is missing aside, and publish it table by table; what was overtaken stays missing."""
        files = LocalFiles(self.root)
        name = f"{self.instance}-{cut.batch:08}-{uuid4().hex[:8]}"
        directory = f"{STAGING}/{self.instance}/{name}"
        tasks = 1 + sum(map(size, cut.missing.values())) // _OFFSETS_A_TASK
        write_aside(
            cut.frame_of_missing(),
            self.values,
            cut.topics(),
            StagingTarget(files, directory, tasks, self.evolve, self.loader),
        )
        staged = staged_files(files, directory)
        published = []
        read_from = self._ids_of(cut.topics(), cut.plan)
        for topic in sorted(cut.topics()):
            if read_from.get(topic) != ids[topic]:
                continue  # created again while it was read: which records belong to which is unknown
            part = _part(topic, ids[topic], cut, [one for one in staged if one.topic == topic])
            try:
                tables[topic].publish(part.landings, _moves(part.files, tables[topic], name))
            except OverlapError:
                continue
            published.append(part)
        files.remove_tree(directory)
        return published


class _Cut(NamedTuple):
    """A micro-batch, and which of its offsets have not landed yet."""

    frame: "DataFrame"
    batch: int
    plan: Plan
    missing: Mapping[Partition, Spans]

    def topics(self) -> set[str]:
        return {topic for topic, _ in self.missing}

    def frame_of_missing(self) -> "DataFrame":
        """The records that are missing; the whole batch, without a filter, if all are."""
        from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

        landed = [
            (topic, partition, *span)
            for (topic, partition), whole in self.plan.offsets.items()
            for span in subtract(whole, self.missing.get((topic, partition), ()))
        ]
        if not landed:
            return self.frame
        # A join, and no condition that names them: of thousands of partitions Spark cannot read one.
        names = "_topic string, _partition int, _first bigint, _end bigint"
        spans = self.frame.sparkSession.createDataFrame(landed, names)
        is_there = (
            (F.col("topic") == F.col("_topic"))
            & (F.col("partition") == F.col("_partition"))
            & (F.col("offset") >= F.col("_first"))
            & (F.col("offset") < F.col("_end"))
        )
        return self.frame.join(F.broadcast(spans), is_there, "left_anti")


class _TableLanding(NamedTuple):
    """What of a micro-batch lands in one table."""

    topic: str
    landings: Sequence[Landing]
    files: Sequence[Staged]


def _part(topic: str, topic_id: str, cut: _Cut, staged: Sequence[Staged]) -> _TableLanding:
    """The landings of one topic, with its files' rows; raises StrayRecordError."""
    missing = {partition: spans for (name, partition), spans in cut.missing.items() if name == topic}
    good: Counter[int] = Counter()
    bad: Counter[int] = Counter()
    for one in staged:
        for partition, span in one.spans.items():
            spans = missing.get(partition, ())
            if not spans or span.first < spans[0].first or span.end > spans[-1].end:
                found = f"records from {span.first} to {span.end - 1}"
                raise StrayRecordError(
                    f"{topic}-{partition} has {found} in a batch of {spans}",
                    hint="nothing of it has landed in this table; please report it, with the batch's offsets",
                )
        (bad if one.is_bad else good).update(one.rows)
    landings = [
        Landing(
            LedgerPosition(topic_id, partition),
            span,
            *((good[partition], bad[partition]) if number == 0 else (0, 0)),
        )
        for partition, spans in sorted(missing.items())
        for number, span in enumerate(spans)
    ]
    return _TableLanding(topic, landings, staged)


def _moves(staged: Sequence[Staged], table: Table, name: str) -> list[PendingMove]:
    return [
        PendingMove(
            one.path, f"{table.bad_path if one.is_bad else table.path}/{one.date}/{name}-{number:03}{PARQUET}"
        )
        for number, one in enumerate(staged)
    ]


def _summary(batch: int, wanted: int, gone: int, parts: Sequence[_TableLanding]) -> BatchReport:
    landings = [landing for part in parts for landing in part.landings]
    rows: Counter[str] = Counter()
    for part in parts:
        rows[part.topic] += sum(landing.rows for landing in part.landings)
    return BatchReport(
        batch=batch,
        rows=rows,
        bad=sum(landing.bad for landing in landings),
        skipped=wanted - size([landing.span for landing in landings]),
        gone=gone,
        files=sum(len(part.files) for part in parts),
    )
