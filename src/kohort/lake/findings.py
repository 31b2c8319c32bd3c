"""What is worth a look in a group: numbered rules over its rebalances, sessions and members. Pure Python."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from kohort.story.names import counted

Row = Mapping[str, Any]

_MINUTE = 60_000
STORM_REBALANCES: Final = 5
STORM_MS: Final = 10 * _MINUTE
FLAPS: Final = 3
FLAP_MS: Final = 60 * _MINUTE
HOT_FACTOR: Final = 2


class FindingRule(NamedTuple):
    """One rule: its number, its name, and what it means."""

    number: int
    finding: str
    meaning: str


STORM: Final = FindingRule(
    1, "STORM", f"{STORM_REBALANCES} or more rebalances started within {STORM_MS // _MINUTE} minutes"
)
FLAPPING: Final = FindingRule(
    2,
    "FLAPPING",
    f"one client joined {FLAPS} times or more within {FLAP_MS // _MINUTE} minutes, under other member ids",
)
UNASSIGNED: Final = FindingRule(
    3,
    "UNASSIGNED_TOPIC",
    "members subscribe to other topics than each other, and no member has a partition of a topic",
)
IDLE: Final = FindingRule(
    4, "IDLE_MEMBER", "a member has no partition: there are more members than partitions"
)
HOT: Final = FindingRule(
    5,
    "HOT_MEMBER",
    f"a member has more than {HOT_FACTOR} times as many partitions as its fair share, and at least 4",
)
UNOWNED: Final = FindingRule(
    6, "UNOWNED_PARTITIONS", "members have some partitions of a topic, and no member has the others"
)
RULES: Final = (STORM, FLAPPING, UNASSIGNED, IDLE, HOT, UNOWNED)

_LEAST_HOT = 4
_LINKS = 12  # of a chain of causes, or of partitions, are named
_SETTLED = "Stable"


def findings_of(group: Row) -> Iterator[dict[str, Any]]:
    """The findings of one group; ``members`` as they are now."""
    yield from _storms(group)
    yield from _flapping(group)
    members = group["members"] or []
    if members:
        yield from _members(group, members)


def _finding(
    rule: FindingRule, group: Row, span: tuple[int, int | None], subject: str, sentence: str
) -> dict[str, Any]:
    return {
        "group_id": group["group_id"],
        "finding": rule.finding,
        "rule": rule.number,
        "since": span[0],
        "until": span[1],
        "subject": subject,
        "sentence": sentence,
    }


def _storms(group: Row) -> Iterator[dict[str, Any]]:
    rebalances = sorted(group["rebalances"] or (), key=lambda one: one["start_ts"])
    for storm in runs([one["start_ts"] for one in rebalances], STORM_REBALANCES, STORM_MS):
        those = [rebalances[number] for number in storm]
        causes: dict[str, int] = defaultdict(int)
        for one in those:
            causes[one["trigger"]] += 1
        ranked = sorted(causes.items(), key=lambda each: (-each[1], each[0]))
        first, last = those[0]["start_ts"], max(one["end_ts"] or one["start_ts"] for one in those)
        shown = ", ".join(f"{name} ({count})" for name, count in ranked)
        chain = _chain([one["trigger"] for one in those])
        sentence = f"{len(those)} rebalances in {(last - first) / 1_000:,.0f} s: {shown}; in order: {chain}"
        yield _finding(STORM, group, (first, last), ranked[0][0], sentence)


def _chain(causes: Sequence[str]) -> str:
    """The causes in their order; of one that follows itself how often, of a long chain the beginning."""
    links = [(cause, len(list(same))) for cause, same in groupby(causes)]
    named = [cause if count == 1 else f"{cause} ({count} times)" for cause, count in links[:_LINKS]]
    return " → ".join(named + ["…"] * (len(links) > _LINKS))


def _flapping(group: Row) -> Iterator[dict[str, Any]]:
    by_client: dict[str, list[Row]] = defaultdict(list)
    for session in group["sessions"] or ():
        if not session["instance_id"]:
            by_client[session["client_id"]].append(session)
    for client, mine in sorted(by_client.items()):
        # Clients of one name that are there side by side are not one client that comes and goes.
        mine.sort(key=lambda one: one["joined"])
        returns = [
            one
            for number, one in enumerate(mine)
            if number == 0
            or (mine[number - 1]["left"] is not None and mine[number - 1]["left"] <= one["joined"])
        ]
        for run in runs([one["joined"] for one in returns], FLAPS, FLAP_MS):
            first, last = returns[run[0]]["joined"], returns[run[-1]]["left"]
            sentence = f"{client} joined {len(run)} times, each time under a new member id"
            yield _finding(FLAPPING, group, (first, last), client, sentence)


def runs(times: Sequence[int], count: int, span: int) -> Iterator[range]:
    """The longest stretches of sorted times of which any ``count`` neighbours lie within ``span``."""
    begin = end = -1
    for last in range(count - 1, len(times)):
        if times[last] - times[last - count + 1] > span:
            continue
        if begin >= 0 and last - count + 1 <= end:
            end = last
            continue
        if begin >= 0:
            yield range(begin, end + 1)
        begin, end = last - count + 1, last
    if begin >= 0:
        yield range(begin, end + 1)


def _members(group: Row, members: Sequence[Row]) -> Iterator[dict[str, Any]]:
    now = max((one["joined"] for one in group["sessions"] or ()), default=0)
    counts = {one["member_id"]: len(one["assigned"]) for one in members}
    total = sum(counts.values())
    wanted = [frozenset(one["subscribed"]) for one in members]
    owned = {each["topic"] for one in members for each in one["assigned"]}
    if len(set(wanted)) > 1:
        for topic in sorted(set().union(*wanted) - owned):
            sentence = f"members subscribe to {topic}, some do not, and no member has a partition of it"
            yield _finding(UNASSIGNED, group, (now, None), topic, sentence)
    yield from _unowned(group, members, now)
    share = total / len(members)
    for one in members:
        number, name = counts[one["member_id"]], one["client_id"] or one["member_id"]
        if number == 0 and total:
            sentence = f"{name} has no partition: {len(members)} members share {total} partitions"
            yield _finding(IDLE, group, (now, None), one["member_id"], sentence)
        elif number >= _LEAST_HOT and number > HOT_FACTOR * share:
            sentence = f"{name} has {number} of {total} partitions, its fair share is {share:.1f}"
            yield _finding(HOT, group, (now, None), one["member_id"], sentence)


def _unowned(group: Row, members: Sequence[Row], now: int) -> Iterator[dict[str, Any]]:
    """While a group reconciles, partitions are between two owners; that is no finding."""
    if group["state"] != _SETTLED:
        return
    owned: dict[str, set[int]] = defaultdict(set)
    for member in members:
        for each in member["assigned"]:
            owned[each["topic"]].add(each["partition"])
    for topic, those in sorted(owned.items()):
        others = sorted(set(range(group["partitions"].get(topic, 0))) - those)
        if others:
            shown = ", ".join(map(str, others[:_LINKS])) + ", …" * (len(others) > _LINKS)
            sentence = f"no member has {counted(len(others), 'partition')} of {topic}: {shown}"
            yield _finding(UNOWNED, group, (now, None), topic, sentence)
