"""What a query that is a member of a group commits and reads next: state in, decision out.

Three facts decide, for every partition the member holds:

- what *this checkpoint* has processed: ``to`` in the offset Spark hands to ``latestOffset``, durable there;
- what *the group* has processed: its committed offset;
- what this run has seen before, while nothing was committed.

The position is the largest of them. Nothing before it is missing: the group commits only what was processed,
and the checkpoint knows its own. And nothing is read twice under one checkpoint, even if a commit was refused
and the partition comes back later. A commit is due wherever the group knows less than the position.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kohort.model.topics import TopicPartition
from kohort.spark.group_offsets import Span, Spans
from kohort.spark.offsets import Offsets
from kohort.spark.planning import limit, volume


class Assignment(NamedTuple):
    """What the group has given to a member; generation -1 and nothing while it is not in one."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = -1
    member_id: str = ""


NOT_ASSIGNED = Assignment()


class Holding(NamedTuple):
    """One partition of the member."""

    position: int  # everything before it is behind us: processed, or not wanted
    committed: int | None = None  # as far as we know; None: nothing


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a member holds in one assignment, and what it remembers of those before."""

    assignment: Assignment = NOT_ASSIGNED
    held: Mapping[TopicPartition, Holding] = field(default_factory=dict)
    seen: Mapping[TopicPartition, int] = field(default_factory=dict)  # positions of this run, held or not

    @property
    def positions(self) -> Offsets:
        return {where: holding.position for where, holding in self.held.items()}

    def moved(self, positions: Mapping[TopicPartition, int]) -> "Holdings":
        """Forward to these, never back; partitions that are not held are left alone."""
        held = {
            where: holding._replace(position=max(holding.position, positions.get(where, 0)))
            for where, holding in self.held.items()
        }
        return replace(self, held=held)

    def committed(self, offsets: Mapping[TopicPartition, int]) -> "Holdings":
        """The group knows these now."""
        held = {
            where: holding._replace(committed=offsets.get(where, holding.committed))
            for where, holding in self.held.items()
        }
        return replace(self, held=held)

    def dropped(self) -> "Holdings":
        """Hold nothing more of this assignment: somebody else has it. What was seen stays known."""
        return replace(self, held={}, seen={**self.seen, **self.positions})

    def restarted(self, positions: Mapping[TopicPartition, int]) -> "Holdings":
        """Elsewhere, back or forth, because the records at the old place are gone."""
        held = {
            where: Holding(positions[where]) if where in positions else holding
            for where, holding in self.held.items()
        }
        seen = {where: position for where, position in self.seen.items() if where not in positions}
        return replace(self, held=held, seen=seen)


def caught_up(holdings: Holdings, done: Spans) -> Holdings:
    """Spark has made the batch that ends in ``done`` durable."""
    return holdings.moved({where: span.end for where, span in done.items()})


def due_commits(holdings: Holdings) -> Offsets:
    """What the group should know and does not."""
    return {
        where: holding.position
        for where, holding in holdings.held.items()
        if holding.committed is None or holding.committed < holding.position
    }


# --- a new assignment -------------------------------------------------------------------------


class Known(NamedTuple):
    """What is known of the partitions of a new assignment before logs are asked."""

    positions: Offsets
    committed: Mapping[TopicPartition, int | None]
    unknown: tuple[TopicPartition, ...]  # to be looked up as ``startingOffsets`` says
    new: tuple[TopicPartition, ...]  # of a topic this query reads already: from their beginning

    def set_back(self, done: Spans) -> Offsets:
        """Commits from before the last batch of this checkpoint: as a rule somebody has reset the group."""
        return {
            where: committed
            for where, committed in self.committed.items()
            if committed is not None and where in done and committed < done[where].start
        }


def known_of(
    assignment: Assignment,
    committed: Mapping[TopicPartition, int | None],
    done: Spans,
    before: Holdings,
) -> Known:
    """Where the partitions of a new assignment go on."""
    seen = {**before.seen, **before.positions}
    positions: Offsets = {}
    for where in assignment.partitions:
        facts = [committed.get(where), seen.get(where), done[where].end if where in done else None]
        known = [fact for fact in facts if fact is not None]
        if known:
            positions[where] = max(known)
    topics = {where.topic for where in (*done, *seen)}
    rest = [where for where in assignment.partitions if where not in positions]
    return Known(
        positions,
        {where: committed.get(where) for where in positions},
        unknown=tuple(where for where in rest if where.topic not in topics),
        new=tuple(where for where in rest if where.topic in topics),
    )


def taken_over(
    assignment: Assignment, known: Known, starts: Mapping[TopicPartition, int], before: Holdings
) -> Holdings:
    """Hold exactly the partitions of ``assignment``; ``starts`` are those that had to be looked up."""
    positions = {**known.positions, **starts}
    held = {
        where: Holding(positions[where], known.committed.get(where))
        for where in assignment.partitions
        if where in positions
    }
    return Holdings(assignment, held, {**before.seen, **before.positions})


# --- records that are gone --------------------------------------------------------------------


class Loss(NamedTuple):
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
) -> list[Loss]:
    """Positions before the start of their log, or behind its end; of logs that were asked."""
    found = [
        Loss(where, position, log_starts[where], log_ends[where])
        for where, position in sorted(positions.items())
        if where in log_starts and where in log_ends
    ]
    return [loss for loss in found if not loss.log_start <= loss.position <= loss.log_end]


# --- the next batch ---------------------------------------------------------------------------


class Limits(NamedTuple):
    """How much a batch may, or has to, read."""

    at_most: int | None = None
    at_least: int = 0


def next_batch(
    holdings: Holdings, done: Spans, log_ends: Mapping[TopicPartition, int], limits: Limits
) -> Spans | None:
    """The spans of the next batch, what is carried along included; None: nothing (or too little) is new."""
    starts = holdings.positions
    ends = {where: log_ends[where] for where in starts if where in log_ends}
    there_is = volume(starts, ends)
    goes_back = [where for where in starts if where in done and starts[where] < done[where].end]
    if not goes_back and (there_is == 0 or there_is < limits.at_least):
        return None
    if limits.at_most is not None:
        ends = limit(starts, ends, limits.at_most)
    epoch = holdings.assignment.generation
    carried = {where: Span(span.end, span.end, span.epoch) for where, span in done.items()}
    own = {where: Span(start, max(start, ends.get(where, start)), epoch) for where, start in starts.items()}
    planned = {**carried, **own}
    if planned == done:  # a topic made again that looks like the old one: the same end would be no batch
        planned |= {where: Span(starts[where], starts[where], epoch) for where in goes_back}
    return planned


def newest_only(ends: Mapping[TopicPartition, int], target: Mapping[TopicPartition, int]) -> Offsets:
    """Log ends as they were when the target was taken: for a query that reads what is there and ends."""
    return {where: min(end, target[where]) for where, end in ends.items() if where in target}
