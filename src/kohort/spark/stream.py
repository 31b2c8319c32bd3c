"""Streams that choose their own partitions, as Spark's connector does; ``commit=group`` tells a group.

The checkpoint has the connector's offsets and the ids of the topics, ``{"topic": {"0": 23, "id": "…"}}``: a
topic that is deleted and made again while the query is stopped is another one, however long it is.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from kohort.client.errors import UnknownTopicError
from kohort.model.topics import TopicPartition
from kohort.spark import planning
from kohort.spark.errors import DataLossError, TopicMadeAgainError
from kohort.spark.lifecycle import stop_on_sigterm
from kohort.spark.lookup import Lookup
from kohort.spark.offsets import (
    OffsetJson,
    OffsetRange,
    Offsets,
    TopicIds,
    from_json,
    ids_from_json,
    known_ids,
    made_again,
    show,
    to_json,
)
from kohort.spark.options import SourceOptions
from kohort.spark.positions import resolve
from kohort.spark.progress import Patience, Survey, compare, reported
from kohort.spark.tasks import RangePartition, read_ranges, task_shares

if TYPE_CHECKING:
    from pyarrow import lib as pa

_log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream.format("kohort")`` without membership."""

    def __init__(self, options: SourceOptions, now_ms: Callable[[], float] | None = None) -> None:
        self._options = options
        self._lookup = Lookup(options)
        self._patience = Patience(options.min_offsets_per_trigger, options.max_trigger_delay_ms)
        self._now_ms = now_ms or _monotonic_ms
        self._initial: OffsetJson | None = None
        self._ends: Offsets = {}
        self._planned: OffsetJson = {}
        self._log_starts: Offsets = {}  # as they were when that was planned, if they were asked for
        self._topic_ids: TopicIds = {}  # as this run saw them last
        self._committed: Offsets | None = None
        self._is_available_now = False
        self._target: Offsets | None = None

    # --- what Spark asks ----------------------------------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  (Spark's name)
        """Spark knows no limit with both bounds: the lower one is ours to keep then."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's name)
        self._is_available_now = True

    def initialOffset(self) -> OffsetJson:  # noqa: N802  (Spark's name)
        """Where a new query starts; Spark asks twice and must hear the same."""
        stop_on_sigterm()
        if self._initial is None:
            options = self._options
            partitions = self._lookup.partitions()
            found = resolve(options.starting, partitions, self._lookup, reset=options.offset_reset)
            self._initial = to_json(found, known_ids(self._lookup.topic_ids()))
            _log.info("starting at %s", self._initial)
        return self._initial

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:  # noqa: N802  (Spark's name)
        stop_on_sigterm()
        starts, ids = from_json(start), ids_from_json(start)
        if self._target is None:
            starts, self._ends = self._go_on(starts, {**self._topic_ids, **ids})
        self._log_starts = {}
        self._commit({where: offset for where, offset in starts.items() if where in self._ends})
        reached = self._limited(starts, self._ends, limit)
        self._planned = to_json(reached, {**ids, **self._topic_ids})
        return start if self._planned == start else self._planned

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  (Spark's name)
        """The log ends as of the last batch and the lag behind it, for Spark's progress reports."""
        return reported(self._ends, from_json(self._planned)) if self._ends else None

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[RangePartition]:
        """From the two alone, for a replay; a partition that is new in ``end`` starts at its beginning."""
        stop_on_sigterm()
        starts, ends, ids = from_json(start), from_json(end), ids_from_json(end)
        others = made_again(ids_from_json(start), ids)
        if end != self._planned and start != end:
            ends = self._without_lost_topics(ends, ids)
        fresh = [where for where in ends if where not in starts or where.topic in others]
        planned = planning.ranges(starts | self._first_offsets(fresh), ends)
        if self._options.fail_on_data_loss:
            self._check_there(planned, self._log_starts if end == self._planned else {})
        return task_shares(self._options, planned)

    def read(self, partition: RangePartition) -> "Iterator[pa.RecordBatch]":  # type: ignore[override]  # ours
        return read_ranges(self._options, partition)

    def stop(self) -> None:
        self._lookup.close()

    # --- how it is answered -------------------------------------------------------------------

    def _commit(self, done: Offsets) -> None:
        """Spark has made everything before these offsets durable: let the group know, once."""
        if self._options.commit == "group" and done != self._committed:
            self._lookup.commit(done)
            self._committed = done

    def _go_on(self, starts: Offsets, known: TopicIds) -> tuple[Offsets, Offsets]:
        """Where the next batch starts and may end; ``known`` are the ids of the topics that starts are in."""
        survey = self._survey(starts)
        if others := made_again(known, survey.topic_ids):
            self._lose(TopicMadeAgainError(others))
            starts = {where: offset for where, offset in starts.items() if where.topic not in others}
        for loss in compare(starts, survey, known):
            self._lose(DataLossError(loss.message))
            if not loss.is_cut:
                # Nothing says which topic it was. Left out of one batch, it is a new partition in the next.
                survey.ends.pop(loss.partition, None)
        self._topic_ids = {**self._topic_ids, **survey.topic_ids}
        if self._is_available_now:
            self._target = survey.ends
        return starts, survey.ends

    def _without_lost_topics(self, ends: Offsets, ids: TopicIds) -> Offsets:
        """For a replay: without what was planned of a topic that has been deleted and made again since."""
        others = made_again(ids, known_ids(self._lookup.ids_of(ids))) if ids else set()
        if others:
            self._lose(TopicMadeAgainError(others))
        return {where: end for where, end in ends.items() if where.topic not in others}

    def _survey(self, starts: Offsets) -> Survey:
        """Ends and ids of the topics now. A log that seems to have shrunk is asked for again: its new
        leader may not know the end yet."""
        options = self._options
        for attempt in range(options.offset_retries + 1):
            if attempt:
                time.sleep(options.offset_retry_ms / 1_000)
            partitions = self._lookup.partitions(missing_ok=True)
            survey = Survey(self._lookup.log_ends(partitions), known_ids(self._lookup.topic_ids()))
            if all(survey.ends.get(where, start) >= start for where, start in starts.items()):
                break
        return survey

    def _limited(self, starts: Offsets, ends: Offsets, limit: ReadLimit) -> Offsets:
        if isinstance(limit, ReadAllAvailable):
            return ends
        # What is gone already needs no share of the limit.
        self._log_starts = first = self._lookup.log_starts(ends)
        begin = {where: max(starts.get(where, offset), offset) for where, offset in first.items()}
        may_wait = not self._is_available_now and starts.keys() <= ends.keys()
        if may_wait and self._patience.waits(planning.volume(begin, ends), self._now_ms()):
            return starts
        return planning.limit(begin, ends, limit.max_rows) if isinstance(limit, ReadMaxRows) else ends

    def _first_offsets(self, fresh: Sequence[TopicPartition]) -> Offsets:
        if not fresh:
            return {}
        existing = set(self._lookup.partitions(missing_ok=True))
        gone = [where for where in fresh if where not in existing]
        if gone:
            self._lose(DataLossError(f"{show(gone)} disappeared before they were read"))
        found = self._lookup.log_starts([where for where in fresh if where in existing])
        late = [where for where, offset in found.items() if offset > 0]
        if late:
            self._lose(DataLossError(f"{show(late)} are new and have lost their first records already"))
        return found

    def _check_there(self, planned: Sequence[OffsetRange], known: Offsets) -> None:
        """Fail here, once and clearly, rather than in every attempt of a task; ``known`` was just asked."""
        try:
            unknown = [one.where for one in planned if one.where not in known]
            first = known | self._lookup.log_starts(unknown)
        except UnknownTopicError as error:
            raise DataLossError(str(error)) from error
        for one in planned:
            if one.start < first[one.where]:
                self._lose(DataLossError(f"{one} is wanted, and the log starts at {first[one.where]}"))

    def _lose(self, loss: DataLossError) -> None:
        if self._options.fail_on_data_loss:
            raise loss
        _log.warning("%s", loss.args[0])


def _monotonic_ms() -> float:
    return time.monotonic() * 1_000
