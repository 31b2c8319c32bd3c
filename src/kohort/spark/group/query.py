"""A streaming query in its group: asks the member and the logs, lets ``plan`` decide, carries it out.

Lives in Spark's runner process for one run of the query. Every wait in here has an end: a trigger that finds
the group rebalancing or a broker away returns without news, and the next one tries again.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, assert_never

from kohort.model.errors import KohortError
from kohort.model.ids import TopicName
from kohort.model.topics import TopicPartition
from kohort.spark.errors import DataLossError, FencedError, TopicMadeAgainError
from kohort.spark.group.checkpoint import AcknowledgedOffsets, NoNotes, Notes
from kohort.spark.group.logs import GroupLogs, QueryLogs, accept
from kohort.spark.group.offsets import GroupOffsetJson, Spans, from_json, to_json
from kohort.spark.group.plan import (
    NOT_ASSIGNED,
    GroupAssignment,
    HeldPartitions,
    KnownOffsets,
    PlanLimits,
    caught_up,
    due_commits,
    known_of,
    newest_only,
    next_batch,
    past_of,
    taken_over,
)
from kohort.spark.member import CommitVerdict, NotJoinedError, Participant, verdict
from kohort.spark.offsets import (
    AtOffsets,
    AtTimestamps,
    Earliest,
    FromGroup,
    Latest,
    Offsets,
    OffsetsSpec,
    TopicIds,
    listed,
    made_again,
    show,
)
from kohort.spark.options import SourceOptions
from kohort.spark.positions import resolve
from kohort.spark.progress import reported

_log = logging.getLogger(__name__)

_JOIN_MS = 10_000.0  # the first join of a run; brokers alone wait three seconds for more members
_REJOIN_MS = 3_000.0  # a rebalance that leaves nothing to do meanwhile
_WHILE_HOLDING_MS = 200.0  # one that leaves some partitions: they go on
_WHOLE_RUN_MS = 60_000.0  # a query that ends by itself must not mistake a slow group for an empty one
_ASK_MS = 10_000  # a commit, or a question about commits; less if default.api.timeout.ms is less
_GOODBYE_MS = 3_000.0


class QueryInputs(NamedTuple):
    """What a query is given besides its options."""

    member: Participant
    logs: QueryLogs
    uncommitted: Callable[[Collection[TopicPartition]], Offsets]  # log ends, whatever the isolation level
    notes: Notes = NoNotes()
    clock: Callable[[], float] = time.monotonic


class GroupQuery:
    """One run of a query as a member of its group."""

    def __init__(self, options: SourceOptions, given: QueryInputs) -> None:
        self._options = options
        self._member, self._logs, self._clock = given.member, given.logs, given.clock
        self._topics = GroupLogs(options, given.logs, given.uncommitted)
        self._ask_ms = min(_ASK_MS, self._setting("default_api_timeout_ms", _ASK_MS))
        self._holdings = HeldPartitions()
        self._has_joined = False
        self._target: Offsets | None = None
        self._ends: Offsets = {}
        self._start: GroupOffsetJson | None = None
        self._acknowledged = AcknowledgedOffsets(self._group_id, given.notes)
        self._planned: GroupOffsetJson | None = None
        self._planned_at: float | None = None
        self._idle_since = self._clock()

    def _setting(self, name: str, default: int) -> int:
        return int(str(self._options.consumer_settings.get(name, default)))

    @property
    def _group_id(self) -> str:
        return self._options.group_id or ""

    def report(self) -> dict[str, Any]:
        """What Spark's progress events show: log ends, lag and membership."""
        planned = {where: span.end for where, span in from_json(self._planned or {}).items()}
        held = self._holdings
        reached = {where: max(at, planned.get(where, at)) for where, at in held.positions.items()}
        generation = held.assignment.generation if self._has_joined else -1
        return reported(self._ends, reached, group=self._group_id, generation=generation)

    def has_planned(self, end: GroupOffsetJson) -> bool:
        """Whether this run has, and so has looked at the topics just now."""
        return self._planned == end

    # --- a trigger ----------------------------------------------------------------------------

    def next_end(self, start: GroupOffsetJson, at_most: int | None) -> GroupOffsetJson:
        """The end of the next batch, or ``start`` itself if there is nothing to read.

        ``start`` is durable: what it says is committed first, before the group hears anything else of us.
        """
        self._note_time_of_batch()
        try:
            seen = self._topics.look(self._holdings.held)
            is_as_seen = self._commit(start, seen.ids)
            return self._plan(start, at_most, seen.ends if is_as_seen else None)
        except KohortError as error:
            is_running = self._has_joined and self._target is None
            if not (error.retriable and is_running):
                raise
            _log.warning("no new batch for group %r, trying again: %s", self._group_id, error)
            return start

    def _plan(self, start: GroupOffsetJson, at_most: int | None, seen: Offsets | None) -> GroupOffsetJson:
        """``seen``: the ends of what was held a moment ago, if they are known."""
        is_new = self._take_part(start)
        held = self._holdings.held
        ends = self._topics.ends(held) if seen is None or is_new or seen.keys() != held.keys() else seen
        self._check_losses(ends, every=is_new)
        if is_new:
            self._commit_due()  # where the query starts, and what could not be committed before
        self._ends = ends
        readable = ends if self._target is None else newest_only(ends, self._target)
        spans = next_batch(self._holdings, self._done(start), readable, PlanLimits(at_most, self._at_least()))
        if spans is None:
            return start
        self._idle_since = self._planned_at = self._clock()
        self._planned = to_json(spans)
        return self._planned

    def _done(self, start: GroupOffsetJson) -> Spans:
        """What the checkpoint has. Where it names no topic id, it means the first one this run has seen."""
        return {
            where: span
            if span.topic_id
            else span._replace(topic_id=self._topics.first_ids.get(where.topic, ""))
            for where, span in from_json(start).items()
        }

    def _at_least(self) -> int:
        waited_ms = (self._clock() - self._idle_since) * 1_000
        is_due = self._target is not None or waited_ms >= self._options.max_trigger_delay_ms
        return 0 if is_due else self._options.min_offsets_per_trigger or 0

    def _note_time_of_batch(self) -> None:
        """The group hears of us only between batches: say so before a batch takes too long for it."""
        if self._planned_at is None:
            return
        taken_ms = (self._clock() - self._planned_at) * 1_000
        self._planned_at = None
        limit_ms = self._setting("max_poll_interval_ms", 300_000)
        if taken_ms > limit_ms / 2:
            _log.warning(
                "a batch took %.1f s; group %r waits %.1f s for a member between batches before it gives its "
                'partitions away: raise "kafka.max.poll.interval.ms" or lower "maxOffsetsPerTrigger"',
                taken_ms / 1_000,
                self._group_id,
                limit_ms / 1_000,
            )

    # --- commits ------------------------------------------------------------------------------

    def commit(self, start: GroupOffsetJson) -> None:
        """Tell the group what is behind us, if it does not know; FencedError under ``failOnFenced``.

        Nothing is committed for a topic that was created again: the next reader would miss its beginning.
        """
        self._commit(start, self._topics.ids_of(self._holdings.held))

    def _commit(self, start: GroupOffsetJson, ids: TopicIds) -> bool:
        """The same, with the ids the topics have now; whether they are those we hold."""
        recreated = self._made_again(ids)
        self._catch_up(start)
        self._commit_due(leave_out=recreated)
        if recreated:
            self._start_over(recreated)
        return not recreated

    def come_to_rest(self, start: GroupOffsetJson) -> bool:
        """Commit, and plan nothing more; whether that is done, or has to be tried again."""
        try:
            self.commit(start)
        except KohortError as error:
            if not error.retriable:
                raise
            _log.warning("the last batch is not committed to group %r yet: %s", self._group_id, error)
            return False
        return True

    def _catch_up(self, start: GroupOffsetJson) -> None:
        """Spark has made what ends in ``start`` durable."""
        if start == self._start:
            return  # where the query has gone back meanwhile, it must not jump forward again
        self._start = start
        self._acknowledged.catch_up(start)
        self._holdings = caught_up(self._holdings, self._done(start))
        held = self._holdings.held.items()
        self._acknowledged.add({where: one.committed for where, one in held if one.committed is not None})

    def _commit_due(
        self, timeout_ms: float | None = None, leave_out: Collection[TopicName] = frozenset()
    ) -> None:
        due = due_commits(self._holdings)
        offsets = {where: offset for where, offset in due.items() if where.topic not in leave_out}
        if not offsets:
            return
        try:
            self._member.commit(offsets, self._ask_ms if timeout_ms is None else timeout_ms)
        except KohortError as error:
            self._not_committed(offsets, error)
        else:
            self._holdings = self._holdings.committed(offsets)
            self._acknowledged.add(offsets)

    def _not_committed(self, offsets: Offsets, error: KohortError) -> None:
        match verdict(error):
            case CommitVerdict.FENCED:
                self._holdings = self._holdings.dropped()
                fenced = FencedError(self._group_id, offsets.keys(), str(error))
                if self._options.fail_on_fenced:
                    raise fenced from error
                _log.warning("%s; their new owners may process records again", fenced)
            case CommitVerdict.LATER:
                _log.warning("offsets of %s are not committed yet: %s", show(offsets), error)
            case CommitVerdict.FATAL:
                raise error
            case never:
                assert_never(never)

    # --- the assignment -----------------------------------------------------------------------

    def _take_part(self, start: GroupOffsetJson) -> bool:
        """Answer what the group asks; whether the assignment is another one than before."""
        assignment = self._member.poll(self._patience_ms())
        if not self._has_joined and assignment != NOT_ASSIGNED:
            self._has_joined = True
            self._topics.check_names(may_wait=self._target is None or bool(start))
        if assignment == self._holdings.assignment:
            return False
        before, self._holdings = self._holdings, self._holdings.dropped()
        self._topics.existing([where for where in before.held if where not in assignment.partitions])
        self._holdings = self._taken_over(assignment, start, before)
        _log.info(
            "group %r, generation %d: this query has %s",
            self._group_id,
            assignment.generation,
            show(assignment.partitions) or "nothing",
        )
        return True

    def _patience_ms(self) -> float:
        if self._target is not None:
            return _WHOLE_RUN_MS
        if not self._has_joined:
            return _JOIN_MS
        return _WHILE_HOLDING_MS if self._holdings.held else _REJOIN_MS

    def _taken_over(
        self, assignment: GroupAssignment, start: GroupOffsetJson, before: HeldPartitions
    ) -> HeldPartitions:
        """Find out where the partitions of a new assignment go on."""
        ids = self._topics.ids_of(assignment.partitions)
        past = past_of(self._done(start), before, self._acknowledged.offsets, ids)
        if past.made_again:
            accept(TopicMadeAgainError(past.made_again), self._options)
            self._acknowledged.forget(past.made_again)
        known = known_of(assignment, self._member.committed(assignment.partitions, self._ask_ms), past)
        self._tell_of_resets(known)
        unknown = self._topics.existing(known.unknown)
        starts = resolve(self._place(unknown), unknown, self._logs, reset=self._options.offset_reset)
        return taken_over(assignment, known, starts | self._topics.starts(known.new), past)

    def _tell_of_resets(self, known: KnownOffsets) -> None:
        if known.set_back:
            _log.warning(
                "group %r was set back, %s: reading again from there",
                self._group_id,
                listed(f"{where} to {known.positions[where]}" for where in sorted(known.set_back)),
            )
        if known.behind:
            _log.warning(
                "group %r has committed less than this checkpoint has processed, %s: the query goes on from "
                "its checkpoint; if the group was reset to read again, start with a new checkpoint, and give "
                "queries the option "
                '"kohort.checkpoint": then they know a reset from a commit that failed, and follow it',
                self._group_id,
                listed(f"{where} only {known.behind[where]}" for where in sorted(known.behind)),
            )

    def _place(self, partitions: Collection[TopicPartition]) -> OffsetsSpec:
        """Where to start without a commit. JSON names all partitions of a topic, a member holds some."""
        match self._options.starting:
            case FromGroup():
                return Earliest() if self._options.offset_reset == "earliest" else Latest()
            case AtOffsets(offsets):
                return AtOffsets({where: offsets[where] for where in partitions if where in offsets})
            case AtTimestamps(times, or_latest):
                chosen = {where: times[where] for where in partitions if where in times}
                return AtTimestamps(chosen, or_latest)
            case place:
                return place

    def take_target(self) -> None:
        """Read what is there now and no more; NotJoinedError if the group does not settle in time."""
        assignment = self._member.poll(_WHOLE_RUN_MS)
        if assignment == NOT_ASSIGNED:
            raise NotJoinedError(self._options.group_id, _WHOLE_RUN_MS)
        self._target = self._logs.log_ends(assignment.partitions)

    # --- logs ---------------------------------------------------------------------------------

    def _made_again(self, ids: TopicIds) -> TopicIds:
        """The topics that are others than those we hold."""
        return {topic: ids[topic] for topic in made_again(self._holdings.topic_ids, ids)}

    def _start_over(self, topic_ids: TopicIds) -> None:
        """Another id under the same name is another topic, however long it is: nothing goes on there."""
        accept(TopicMadeAgainError(topic_ids), self._options)
        recreated = [where for where in self._holdings.held if where.topic in topic_ids]
        starts = self._topics.starts(recreated)
        self._acknowledged.forget(topic_ids)
        self._holdings = self._holdings.started_over(topic_ids, starts)
        self._commit_due()

    def _check_losses(self, ends: Mapping[TopicPartition, int], *, every: bool) -> None:
        """Positions outside their log: of a new assignment all are looked at, later those behind the end."""
        positions = self._holdings.positions
        doubtful = {where: positions[where] for where, end in ends.items() if every or positions[where] > end}
        found = self._topics.losses(doubtful, ends)
        recreated = self._made_again(self._topics.ids_of([loss.where for loss in found]))
        if recreated:  # just now, since we looked at the ids
            self._start_over(recreated)
        others = [loss for loss in found if loss.where.topic not in recreated]
        if others:
            accept(DataLossError("; ".join(map(str, others))), self._options)
            self._holdings = self._holdings.restarted({loss.where: loss.log_start for loss in others})

    # --- the end ------------------------------------------------------------------------------

    def stop(self, is_durable: Callable[[GroupOffsetJson], bool]) -> None:
        """Commit the last batch if it is known to be durable, and leave."""
        try:
            if self._planned is not None and is_durable(self._planned):
                self._catch_up(self._planned)
                self._commit_due(_GOODBYE_MS)  # without another look at topics: nothing may hold up the end
        except KohortError as error:
            _log.warning("the last batch was not committed to group %r: %s", self._group_id, error)
        finally:
            self._member.leave(_GOODBYE_MS)
