"""What a query that is a member of a group commits and reads next: state in, decision out.

Three facts decide, for every partition the member holds:

- what *this checkpoint* has processed: ``to`` in the offset Spark hands to ``latestOffset``, durable there;
- what *the group* has processed: its committed offset;
- what this run has seen before, while nothing was committed.

The position is the largest of them. Nothing before it is missing: the group commits only what was processed,
and the checkpoint knows its own. And nothing is read twice under one checkpoint, even if a commit was refused
and the partition comes back later. A commit is due wherever the group knows less than the position.

Two things overrule this. A topic that was deleted and made again, known by its id, is read from its
beginning. And a group that once acknowledged a larger offset than it has now was reset: it
alone decides then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kohort.model.ids import TopicName
from kohort.model.topics import TopicPartition
from kohort.spark.group.offsets import GroupOffsetSpan, Spans
from kohort.spark.offsets import Offsets, TopicIds, made_again
from kohort.spark.planning import limit, volume


class GroupAssignment(NamedTuple):
    """What the group has given to a member; generation -1 and nothing while it is not in one."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = -1
    member_id: str = ""


NOT_ASSIGNED = GroupAssignment()


def of_these_topics(spans: Spans, topic_ids: TopicIds) -> dict[TopicPartition, GroupOffsetSpan]:
    """The spans without those of topics that had another id."""
    return {where: span for where, span in spans.items() if not _is_of_another(where, span, topic_ids)}


def _is_of_another(where: TopicPartition, span: GroupOffsetSpan, topic_ids: TopicIds) -> bool:
    return bool(span.topic_id) and topic_ids.get(where.topic, span.topic_id) != span.topic_id


class Holding(NamedTuple):
    """One partition of the member."""

    position: int  # everything before it is behind us: processed, or not wanted
    committed: int | None = None  # as far as we know; None: nothing


@dataclass(frozen=True, slots=True)
class HeldPartitions:
    """What a member holds in one assignment, and what it remembers of those before."""

    assignment: GroupAssignment = NOT_ASSIGNED
    held: Mapping[TopicPartition, Holding] = field(default_factory=dict)
    seen: Mapping[TopicPartition, int] = field(default_factory=dict)  # positions of this run, held or not
    topic_ids: TopicIds = field(default_factory=dict)  # of the topics that all these are positions in

    @property
    def positions(self) -> Offsets:
        return {where: holding.position for where, holding in self.held.items()}

    def moved(self, positions: Mapping[TopicPartition, int]) -> "HeldPartitions":
        """Forward to these, never back; partitions that are not held are left alone."""
        held = {
            where: holding._replace(position=max(holding.position, positions.get(where, 0)))
            for where, holding in self.held.items()
        }
        return replace(self, held=held)

    def committed(self, offsets: Mapping[TopicPartition, int]) -> "HeldPartitions":
        """The group knows these now."""
        held = {
            where: holding._replace(committed=offsets.get(where, holding.committed))
            for where, holding in self.held.items()
        }
        return replace(self, held=held)

    def dropped(self) -> "HeldPartitions":
        """Hold nothing more of this assignment: another member has it. What was seen stays known."""
        return replace(self, held={}, seen={**self.seen, **self.positions})

    def restarted(self, positions: Mapping[TopicPartition, int]) -> "HeldPartitions":
        """Elsewhere, back or forth, because the records at the old place are gone."""
        held = {**self.held, **{where: Holding(position) for where, position in positions.items()}}
        seen = {where: position for where, position in self.seen.items() if where not in positions}
        return replace(self, held=held, seen=seen)

    def started_over(self, topic_ids: TopicIds, starts: Mapping[TopicPartition, int]) -> "HeldPartitions":
        """These topics are others than before: nothing holds of them but where they start."""
        held = {where: holding for where, holding in self.held.items() if where.topic not in topic_ids}
        seen = {where: position for where, position in self.seen.items() if where.topic not in topic_ids}
        known = {**self.topic_ids, **topic_ids}
        return replace(self, held=held, seen=seen, topic_ids=known).restarted(starts)


def caught_up(holdings: HeldPartitions, done: Spans) -> HeldPartitions:
    """Spark has made the batch that ends in ``done`` durable."""
    return holdings.moved({where: span.end for where, span in done.items()})


def due_commits(holdings: HeldPartitions) -> Offsets:
    """What the group should know and does not."""
    return {
        where: holding.position
        for where, holding in holdings.held.items()
        if holding.committed is None or holding.committed < holding.position
    }


# --- a new assignment -------------------------------------------------------------------------


class QueryMemory(NamedTuple):
    """What the query remembers when it gets a new assignment, without what a topic made again voids."""

    done: Spans  # by its checkpoint
    seen: Mapping[TopicPartition, int]  # in this run
    acknowledged: Mapping[TopicPartition, int]  # commits that the group is known to have had
    topic_ids: TopicIds
    topics: frozenset[TopicName]  # all it has ever read
    made_again: frozenset[TopicName]
    void: frozenset[TopicPartition]  # what it has read of those


def past_of(
    done: Spans, before: HeldPartitions, acknowledged: Mapping[TopicPartition, int], now: TopicIds
) -> QueryMemory:
    """``now`` are the ids of the topics of the new assignment."""
    seen = {**before.seen, **before.positions}
    in_checkpoint = {where.topic: span.topic_id for where, span in done.items() if span.topic_id}
    others = made_again({**in_checkpoint, **before.topic_ids}, now)
    return QueryMemory(
        of_these_topics(done, now),
        {where: position for where, position in seen.items() if where.topic not in others},
        {where: offset for where, offset in acknowledged.items() if where.topic not in others},
        topic_ids={**before.topic_ids, **now},
        topics=frozenset(where.topic for where in (*done, *seen)),
        made_again=frozenset(others),
        void=frozenset(where for where in (*done, *seen) if where.topic in others),
    )


class KnownOffsets(NamedTuple):
    """What is known of the partitions of a new assignment before logs are asked."""

    positions: Offsets
    committed: Mapping[TopicPartition, int | None]
    unknown: tuple[TopicPartition, ...]  # to be looked up as ``startingOffsets`` says
    new: tuple[TopicPartition, ...]  # of a topic this query reads already: from their beginning
    set_back: tuple[TopicPartition, ...]  # the group was, to their positions
    behind: Offsets  # commits from before the last batch: set back, or the later ones were never made


def known_of(
    assignment: GroupAssignment, committed: Mapping[TopicPartition, int | None], past: QueryMemory
) -> KnownOffsets:
    """Where the partitions of a new assignment go on."""
    positions: Offsets = {}
    set_back = []
    behind: Offsets = {}
    for where in assignment.partitions:
        commit = None if where in past.void else committed.get(where)
        done = past.done.get(where)
        if commit is not None and commit < past.acknowledged.get(where, commit):
            positions[where] = commit
            set_back.append(where)
            continue
        facts = (commit, past.seen.get(where), None if done is None else done.end)
        found = [fact for fact in facts if fact is not None]
        if found:
            positions[where] = max(found)
        if commit is not None and done is not None and where not in past.acknowledged and commit < done.start:
            behind[where] = commit
    rest = [where for where in assignment.partitions if where not in positions]
    return KnownOffsets(
        positions,
        {where: committed.get(where) for where in positions},
        unknown=tuple(where for where in rest if where.topic not in past.topics),
        new=tuple(where for where in rest if where.topic in past.topics),
        set_back=tuple(set_back),
        behind=behind,
    )


def taken_over(
    assignment: GroupAssignment, known: KnownOffsets, starts: Mapping[TopicPartition, int], past: QueryMemory
) -> HeldPartitions:
    """Hold exactly the partitions of ``assignment``; ``starts`` are those that had to be looked up."""
    positions = {**known.positions, **starts}
    held = {
        where: Holding(positions[where], known.committed.get(where))
        for where in assignment.partitions
        if where in positions
    }
    return HeldPartitions(assignment, held, past.seen, past.topic_ids)


# --- records that are gone --------------------------------------------------------------------


class LostRecords(NamedTuple):
    """A position the log does not reach."""

    where: TopicPartition
    position: int
    log_start: int
    log_end: int

    def __str__(self) -> str:
        if self.position > self.log_end:
            return (
                f"{self.where} ends at {self.log_end}, before offset {self.position} where reading goes on: "
                "it was truncated, or deleted and made again"
            )
        return f"offsets {self.position} to {self.log_start - 1} of {self.where} have expired"


def losses(
    positions: Mapping[TopicPartition, int],
    log_starts: Mapping[TopicPartition, int],
    log_ends: Mapping[TopicPartition, int],
) -> list[LostRecords]:
    """Positions before the start of their log, or behind its end; of logs that were asked."""
    found = [
        LostRecords(where, position, log_starts[where], log_ends[where])
        for where, position in sorted(positions.items())
        if where in log_starts and where in log_ends
    ]
    return [loss for loss in found if not loss.log_start <= loss.position <= loss.log_end]


# --- the next batch ---------------------------------------------------------------------------


class PlanLimits(NamedTuple):
    """How much a batch may, or has to, read."""

    at_most: int | None = None
    at_least: int = 0


def next_batch(
    holdings: HeldPartitions, done: Spans, log_ends: Mapping[TopicPartition, int], limits: PlanLimits
) -> Spans | None:
    """The spans of the next batch, what is carried along included; None: nothing (or too little) is new."""
    starts, ids = holdings.positions, holdings.topic_ids
    ends = {where: log_ends[where] for where in starts if where in log_ends}
    there_is = volume(starts, ends)
    goes_back = [where for where in starts if where in done and _goes_back(where, done[where], holdings)]
    if not goes_back and (there_is == 0 or there_is < limits.at_least):
        return None
    if limits.at_most is not None:
        ends = limit(starts, ends, limits.at_most)
    epoch = holdings.assignment.generation
    carried = {where: span._replace(start=span.end) for where, span in of_these_topics(done, ids).items()}
    own = {
        where: GroupOffsetSpan(start, max(start, ends.get(where, start)), epoch, ids.get(where.topic, ""))
        for where, start in starts.items()
    }
    planned = {**carried, **own}
    if planned == done:  # what is read again looks as it did before: the same end would be no batch
        planned |= {where: own[where]._replace(end=own[where].start) for where in goes_back}
    return planned


def _goes_back(where: TopicPartition, span: GroupOffsetSpan, holdings: HeldPartitions) -> bool:
    """Whether the checkpoint has to learn that what it has of a partition does not hold any more."""
    return holdings.held[where].position < span.end or _is_of_another(where, span, holdings.topic_ids)


def newest_only(ends: Mapping[TopicPartition, int], target: Mapping[TopicPartition, int]) -> Offsets:
    """Log ends as they were when the target was taken: for a query that reads what is there and ends."""
    return {where: min(end, target[where]) for where, end in ends.items() if where in target}
