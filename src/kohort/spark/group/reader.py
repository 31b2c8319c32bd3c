"""The reader of a streaming query that is a member of a consumer group: ``kafka.group.id`` is given.

Spark's calls come in and are passed on; ``query`` has the run, ``plan`` the decisions. The rules
of commits, rebalances and hand-over are in ``docs/howto/spark-groups.md``.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kohort.spark.errors import TopicMadeAgainError
from kohort.spark.group.checkpoint import Checkpoint, NoNotes, local_path
from kohort.spark.group.logs import accept
from kohort.spark.group.offsets import GroupOffsetJson, Spans, from_json, ranges_of
from kohort.spark.group.plan import of_these_topics
from kohort.spark.group.query import GroupQuery, QueryInputs
from kohort.spark.lifecycle import stop_on_sigterm
from kohort.spark.lookup import Lookup
from kohort.spark.member import QueryMember, assigned_in_a_group
from kohort.spark.offsets import Assign, known_ids
from kohort.spark.options import SourceOptions
from kohort.spark.tasks import RangePartition, read_ranges, task_shares

if TYPE_CHECKING:
    from pyarrow import lib as pa

_log = logging.getLogger(__name__)


class GroupStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query, one member. Made twice and pickled by Spark: it joins with its first offset method."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if isinstance(options.topics, Assign):
            raise assigned_in_a_group()
        self._options = options
        self._schema = schema
        self._client: tuple[QueryMember, Lookup] | None = None
        self._query: GroupQuery | None = None
        self._checkpoint: Checkpoint | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None, "_query": None, "_checkpoint": None}

    # --- offsets, in the runner ---------------------------------------------------------------

    def initialOffset(self) -> GroupOffsetJson:  # noqa: N802  (Spark's name)
        """Nothing: where a partition starts is decided when the group assigns it."""
        stop_on_sigterm()
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  (Spark's name)
        at_most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if at_most is None else ReadMaxRows(at_most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's name)
        """Join, and take the log ends of what the group assigns as the end of the run."""
        self._running().take_target()

    def latestOffset(self, start: GroupOffsetJson, limit: ReadLimit) -> GroupOffsetJson:  # noqa: N802  (Spark's name)
        """Commit what is durable, take part in the group, plan the next batch; ``start`` if there is none."""
        query = self._running()
        if self._checkpoint is not None and (token := self._checkpoint.drain_wanted()) is not None:
            if query.come_to_rest(start):
                self._checkpoint.answer_drain(token)
            return start
        return query.next_end(start, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  (Spark's name)
        """The log ends of what the query holds, in the connector's form, its lag and its membership."""
        return self._query.report() if self._query is not None else None

    def partitions(self, start: GroupOffsetJson, end: GroupOffsetJson) -> Sequence[InputPartition]:
        """The ranges that ``end`` describes, cut for tasks. Without the group: a replay comes before it."""
        stop_on_sigterm()
        if start == end:
            return []
        is_replay = self._query is None or not self._query.has_planned(end)
        spans = self._still_there(from_json(end)) if is_replay else from_json(end)
        return task_shares(self._options, ranges_of(spans))

    def _still_there(self, spans: Spans) -> Spans:
        """For a replay: without what was planned of a topic that has been deleted and made again since."""
        topics = {where.topic for where, span in spans.items() if span.topic_id and span.start < span.end}
        if not topics:
            return spans
        there = of_these_topics(spans, known_ids(self._connected()[1].ids_of(topics)))
        recreated = {where.topic for where in spans if where not in there}
        if recreated:
            accept(TopicMadeAgainError(recreated), self._options)
        return there

    def commit(self, end: GroupOffsetJson) -> None:
        """Nothing: it comes late or never; ``latestOffset`` has committed ``end`` already."""

    def stop(self) -> None:
        """Commit the last batch, if the checkpoint shows that it is done, and leave the group."""
        query, self._query = self._query, None
        client, self._client = self._client, None
        checkpoint = self._checkpoint
        if query is not None:
            query.stop(checkpoint.has_finished if checkpoint is not None else lambda _: False)
        elif client is not None:
            client[0].leave(0)

    def _connected(self) -> tuple[QueryMember, Lookup]:
        """The one client of this query: the member, and questions over its connections."""
        if self._client is None:
            member = QueryMember(self._options)
            self._client = member, Lookup(self._options, member.administer)
        return self._client

    def _running(self) -> GroupQuery:
        if self._query is None:
            stop_on_sigterm()
            self._checkpoint = self._known_checkpoint()
            member, logs = self._connected()
            given = QueryInputs(member, logs, logs.uncommitted_ends, self._checkpoint or NoNotes())
            self._query = GroupQuery(self._options, given)
        return self._query

    def _known_checkpoint(self) -> Checkpoint | None:
        location = self._options.checkpoint
        directory = local_path(location) if location is not None else None
        if directory is None:
            if location is not None:
                _log.warning(
                    "kohort.checkpoint %r is not a local path: a stop does not commit its last batch, and a "
                    "reset of the group is not followed",
                    location,
                )
            return None
        checkpoint = Checkpoint(directory)
        checkpoint.forget_drain()  # of a run before this one
        return checkpoint

    # --- records, in tasks --------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The records of one task's ranges."""
        assert isinstance(partition, RangePartition)
        return read_ranges(self._options, partition)
