"""A story in lines that can be read at night: one block for each rebalance, oldest first."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import assert_never

from kohort.story.advice import advice
from kohort.story.names import counted, short_names, show_partitions, show_span
from kohort.story.rebalance import Arrival, Cause, End, GroupKind, Lost, Move, Rebalance, Story, Unowned

ShowTime = Callable[[int], str]

_MOST_ROWS = 8  # of one kind; who needs them all takes JSON
_LABEL = 12
INDENT = _LABEL + 2  # columns before the facts of a block
_WORTH_ADDING = 100  # milliseconds without an owner, of several partitions
_NO_REASON = "; reason not provided"


def story_lines(story: Story, show_time: ShowTime) -> list[str]:
    """Blocks of rebalances with what happened between them, in the order of time.

    The first line of a block begins at the margin, all others are indented.
    """
    names = short_names(story.people)
    blocks = [(one.at, [f"{show_time(one.at)}  {_named(one.sentence, names)}"]) for one in story.incidents]
    blocks += [(one.started_at, _Block(one, names).lines(show_time)) for one in story.rebalances]
    blocks.sort(key=lambda block: block[0])
    lines: list[str] = []
    was_long = False
    for _, block in blocks:
        is_long = len(block) > 1
        if lines and (is_long or was_long):
            lines.append("")
        lines += block
        was_long = is_long
    return lines


def unowned_line(story: Story, show_time: ShowTime) -> str | None:
    """What has no owner at the end of the story, if anything."""
    if not story.unowned:
        return None
    since = min(one.since for one in story.unowned)
    who = show_partitions(one.partition for one in story.unowned)
    return f"{who}: no owner since {show_time(since)}"


def _named(sentence: str, names: Mapping[str, str]) -> str:
    """A sentence of the journal with short names in it."""
    for member_id, name in names.items():
        sentence = sentence.replace(member_id, name)
    return sentence.replace(_NO_REASON, "")


class _Block:
    """One rebalance in lines."""

    def __init__(self, rebalance: Rebalance, names: Mapping[str, str]) -> None:
        self._rebalance = rebalance
        self._names = names

    def lines(self, show_time: ShowTime) -> list[str]:
        rebalance = self._rebalance
        lines = [f"{show_time(rebalance.started_at)}  {self._sentence(rebalance.cause)}"]
        facts: tuple[tuple[str, Sequence[str]], ...] = (
            ("result", [self._result()]),
            ("phases", self._phases()),
            ("removed", self._removed()),
            (
                "replaced",
                [f"{one.instance_id}: {self._transition(*one[1:])}" for one in rebalance.replacements],
            ),
            ("joined", self._joined()),
            ("not used", [self._sentence(one.cause) for one in rebalance.unused_ids]),
            ("gave up", self._given_up()),
            ("waits for", self._awaited()),
            ("members", self._members()),
            ("partitions", self._partitions()),
            ("no owner", self._unowned()),
            ("incomplete", self._incomplete()),
            ("advice", [found] if (found := advice(rebalance)) is not None else []),
        )
        for label, values in facts:
            for number, value in enumerate(values):
                lines.append(f"  {'' if number else label:{_LABEL}}{value}".rstrip())
        return lines

    # --- words --------------------------------------------------------------------------------

    def _name(self, member_id: str | None) -> str:
        return "no owner" if member_id is None else self._names.get(member_id, member_id)

    def _all(self, member_ids: Iterable[str]) -> str:
        named = [self._name(one) for one in member_ids]
        more = len(named) - _MOST_ROWS
        return ", ".join(named[:_MOST_ROWS]) + (f" and {more} more" if more > 0 else "")

    def _sentence(self, cause: Cause) -> str:
        return _named(str(cause["sentence"]), self._names)

    def _transition(self, before: str | None, after: str | None) -> str:
        return f"{self._name(before)} → {self._name(after)}"

    # --- facts --------------------------------------------------------------------------------

    def _result(self) -> str:
        rebalance = self._rebalance
        total = show_span(rebalance.total_ms or 0)
        cause = "" if rebalance.end_cause is None else self._sentence(rebalance.end_cause)
        match rebalance.end:
            case _ if rebalance.kind is GroupKind.CONSUMER:
                return self._result_of_epoch(total, cause)
            case End.STABLE:
                how = "cooperative" if rebalance.is_cooperative else "eager"
                leader = f", {self._name(rebalance.leader)} leads" if rebalance.leader is not None else ""
                protocol = f"{rebalance.protocol} ({how})"
                return f"stable after {total}: generation {rebalance.generation}, {protocol}{leader}"
            case End.EMPTY:
                return f"empty after {total}: generation {rebalance.generation} has no members"
            case End.RESTARTED:
                return f"none: after {total} it began again, because {cause}"
            case End.LOST:
                return f"none: cut off after {total}, {cause}"
            case End.RUNNING:
                phase = "members join" if rebalance.prepared_at is None else "the assignment is awaited"
                return f"none yet: {phase}"
            case _:
                assert_never(rebalance.end)

    def _result_of_epoch(self, total: str, cause: str) -> str:
        """How the rebalance of a consumer group ended, or where it is."""
        rebalance = self._rebalance
        match rebalance.end:
            case End.STABLE:
                return f"stable after {total}: epoch {rebalance.generation}, {rebalance.protocol} (consumer)"
            case End.EMPTY:
                return f"empty: epoch {rebalance.generation} has no members"
            case End.RESTARTED:
                return f"epoch {rebalance.generation}, overtaken after {total}: {cause}"
            case End.LOST:
                return f"epoch {rebalance.generation}, cut off after {total}: {cause}"
            case End.RUNNING:
                where = "no heartbeat has come since" if rebalance.prepared_at is None else "members follow"
                return f"not stable yet: epoch {rebalance.generation}, {where}"
            case _:
                assert_never(rebalance.end)

    def _phases(self) -> list[str]:
        rebalance = self._rebalance
        if rebalance.kind is GroupKind.CONSUMER:
            return self._phases_of_epoch()
        if rebalance.prepared_by is None or rebalance.preparing_ms is None:
            return []
        lines = [
            f"preparing {show_span(rebalance.preparing_ms)}: {self._why_prepared(rebalance.prepared_by)}"
        ]
        if rebalance.completing_ms is not None:
            leader = rebalance.assigned_after_ms
            came = "" if leader is None else f": the leader's assignment came after {show_span(leader)}"
            lines.append(f"completing {show_span(rebalance.completing_ms)}{came}")
            late = [one for one in rebalance.syncs if one.after_ms > rebalance.completing_ms]
            lines += [f"{self._name(one.member_id)} took it after {show_span(one.after_ms)}" for one in late]
        return lines

    def _phases_of_epoch(self) -> list[str]:
        """The target comes with a heartbeat; then members follow, each with heartbeats of its own."""
        rebalance = self._rebalance
        if rebalance.prepared_at is None or not rebalance.preparing_ms:
            return []
        lines = [f"assigning {show_span(rebalance.preparing_ms)}: until a member sent a heartbeat"]
        if rebalance.completing_ms is not None:
            lines.append(f"reconciling {show_span(rebalance.completing_ms)}")
        return lines

    def _given_up(self) -> list[str]:
        """What members of a consumer group gave up for others, and how long that took them."""
        rows = []
        for one in self._rebalance.revocations:
            if one.given_after_ms is not None:
                took = show_span(one.given_after_ms - one.asked_after_ms)
                what = f"{self._name(one.member_id)}: {show_partitions(one.partitions)}"
                rows.append(f"+{show_span(one.given_after_ms):8} {what}, {took} after it was asked")
        return _few(rows)

    def _awaited(self) -> list[str]:
        rebalance = self._rebalance
        if rebalance.kind is GroupKind.CLASSIC:
            return [self._all(rebalance.awaited)] if rebalance.awaited else []
        rows = []
        holding = set()
        for one in rebalance.revocations:
            if one.given_after_ms is None and one.member_id in rebalance.awaited:
                holding.add(one.member_id)
                waiting = f"; {self._all(one.waiting)} waits" if one.waiting else ""
                what = f"{self._name(one.member_id)} to give up {show_partitions(one.partitions)}"
                rows.append(f"{what}, asked +{show_span(one.asked_after_ms)}{waiting}")
        others = [one for one in rebalance.awaited if one not in holding]
        rows += [f"a heartbeat of {self._all(others)}"] if others else []
        return _few(rows)

    def _why_prepared(self, cause: Cause) -> str:
        prolonged = len(self._rebalance.delays)
        more = f", prolonged {'once' if prolonged == 1 else f'{prolonged} times'}" if prolonged else ""
        if cause["kind"] == "InitialDelayPassed":
            return f"the initial delay passed{more}, {counted(cause['members'], 'member')} came"
        if cause["kind"] == "EveryoneJoined" and cause["members"] == 1:
            return f"its only member had joined{more}"
        return self._sentence(cause) + more

    def _removed(self) -> list[str]:
        rebalance = self._rebalance
        return _few(
            [
                f"+{show_span(one.after_ms):8} {self._sentence(one.cause)}"
                if self._name(one.member_id) in self._sentence(one.cause)
                else f"+{show_span(one.after_ms):8} {self._name(one.member_id)}: {self._sentence(one.cause)}"
                for one in rebalance.removals
                if one.cause != rebalance.cause
            ]
        )

    def _joined(self) -> list[str]:
        last = self._rebalance.last_arrival
        rows = []
        for one in self._rebalance.arrivals.values():
            row = f"+{show_span(one.after_ms):8} {self._name(one.member_id)}{self._how(one)}"
            if last is not None and one is last[0]:
                row += f", the last, {show_span(last[1])} behind"
            rows.append(row)
        return _few(rows)

    def _how(self, arrival: Arrival) -> str:
        new = ", new" if arrival.is_new else ""
        return f"{new} ({_named(arrival.reason, self._names)})" if arrival.reason else new

    def _members(self) -> list[str]:
        rebalance = self._rebalance
        added, removed = rebalance.members_added, rebalance.members_removed
        if rebalance.prepared_at is None or not (added or removed):
            return []
        changes = [f"+ {self._all(added)}"] if added else []
        changes += [f"- {self._all(removed)}"] if removed else []
        return [f"{len(rebalance.members)}: {'; '.join(changes)}"]

    def _partitions(self) -> list[str]:
        rebalance = self._rebalance
        if rebalance.end is not End.STABLE and not (rebalance.kind is GroupKind.CONSUMER and rebalance.moves):
            return []
        if not rebalance.is_readable:
            return ["this is not a group of consumers: its assignments cannot be read"]
        if not rebalance.is_assignment_known:
            return ["the assignment before is not in the journal: what moved is unknown"]
        if not rebalance.moves:
            return [
                f"all {rebalance.stayed} stayed where they were" if rebalance.stayed else "none are assigned"
            ]
        rows = [self._how_many()]
        by_way: dict[tuple[str | None, str | None], list[Move]] = {}
        for move in rebalance.moves:
            by_way.setdefault((move.before, move.after), []).append(move)
        return rows + _few(
            [
                f"{self._transition(*way)}: {show_partitions(one.partition for one in moves)}"
                for way, moves in by_way.items()
            ]
        )

    def _how_many(self) -> str:
        moves = self._rebalance.moves
        counts = (
            (sum(one.before is not None and one.after is not None for one in moves), "moved"),
            (sum(one.before is None for one in moves), "new"),
            (sum(one.after is None for one in moves), "taken away"),
            (self._rebalance.stayed, "stayed"),
        )
        return ", ".join(f"{count} {what}" for count, what in counts if count)

    def _unowned(self) -> list[str]:
        alike: dict[tuple[int, Lost, str], list[Unowned]] = {}
        for one in self._rebalance.unowned:
            if one.until is not None and one.until > one.since:
                alike.setdefault((one.until - one.since, one.lost, self._since(one)), []).append(one)
        rows = []
        for (span, lost, since), ones in sorted(alike.items(), reverse=True):
            at_most = "up to " if lost is Lost.EAGER else ""
            rows.append(
                f"{at_most}{show_span(span)}{since}: {show_partitions(one.partition for one in ones)}"
            )
        if len(self._rebalance.unowned) > 1 and self._rebalance.unowned_ms >= _WORTH_ADDING:
            at_most = "up to " if any(one.at_most for one in self._rebalance.unowned) else ""
            rows.append(f"{at_most}{self._rebalance.unowned_ms / 1_000:.1f} partition-seconds in all")
        return _few(rows)

    def _since(self, one: Unowned) -> str:
        """What made a partition lose its owner before this rebalance began."""
        if one.lost is Lost.EAGER or one.since >= self._rebalance.started_at:
            return ""
        match one.lost:
            case Lost.REVOKED:
                return ", since the rebalance before took them away"
            case Lost.SILENT:
                return f", since {self._name(one.was)} was last heard of"
            case Lost.AWAY:
                return f", since {self._name(one.was)} left for a while"
            case Lost.GONE:
                return f", since {self._name(one.was)} is gone"
            case _:
                assert_never(one.lost)

    def _incomplete(self) -> list[str]:
        rebalance = self._rebalance
        rows = ["its beginning is not in the journal"] if rebalance.is_partial else []
        if rebalance.dropped:
            rows.append(
                f"the journal lost {counted(rebalance.dropped, 'event')} meanwhile, of this group or others"
            )
        return rows


def _few(rows: list[str]) -> list[str]:
    """The rows, or as many as are worth reading: the first ones and the last."""
    if len(rows) <= _MOST_ROWS:
        return rows
    head, tail = rows[: _MOST_ROWS - 2], rows[-1:]
    return [*head, f"… {len(rows) - len(head) - len(tail)} more (--json has all)", *tail]
