"""What happened to the processes of a group: from the journal, or from snapshots where there is none."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kohort.lake.snapshots import subscribed_topics
from kohort.lake.whatif.happenings import (
    AmbiguousEvent,
    ClientSettings,
    Crash,
    Grow,
    Happening,
    Recording,
    Seat,
    Silence,
    SlowPoll,
    Start,
    Stop,
    Subscribe,
)
from kohort.lake.whatif.settings import ASSIGNORS
from kohort.model.errors import KohortError
from kohort.story.documents import Document, read_document

Row: TypeAlias = Mapping[str, Any]

SAME_PROCESS_MS: Final = 3_600_000  # who is back later than this was started again, whatever it looks like
STATIC_RESTART_MS: Final = 10_000  # how long a static member is away before it is back: nothing records it
_POLL_TIMEOUT: Final = "poll timeout"  # in the reason that consumers give when they leave by themselves
_LEFT, _SLOW, _EXPIRED, _UNKNOWN = "left", "slow", "expired", "unknown"
_SESSION_MS = 45_000
_DEPLOY_MS: Final = 15 * 60_000


class NoHistoryError(KohortError):
    """The lake does not know the group, or nothing of its members."""


class _Came(NamedTuple):
    at: int
    member: str
    seat: Seat


class _Went(NamedTuple):
    at: int
    member: str
    how: str
    since: int  # when its last sign of life was, or when it began to be slow


class _Subscribed(NamedTuple):
    at: int
    member: str
    topics: tuple[str, ...]


_Seen: TypeAlias = _Came | _Went | _Subscribed


def read_recording(group: str, snapshots: Sequence[Row], journal: Sequence[Row]) -> Recording:
    """The history of one group. Rows of ``group_snapshots`` and ``journal`` in order, times in milliseconds.

    Raises ``NoHistoryError`` where there is nothing to replay.
    """
    stable = [row for row in snapshots if row["members"]]
    if not stable:
        raise NoHistoryError(
            f"the lake has no members of group {group!r}",
            hint='the groups it has: kohort lake query "select distinct group_id from group_snapshots"',
        )
    documents = [
        one for one in (read_document(row["document"].encode()) for row in journal) if one is not None
    ]
    reader = _JournalReader()
    seen = list(reader.read(documents))
    has_journal = any(isinstance(one, _Came) for one in seen)
    if not has_journal:
        seen = list(_deploys(list(_from_snapshots(snapshots)), max(len(row["members"]) for row in stable)))
    begin = stable[0]["ts"]
    end = max(
        *(row["ts"] for row in snapshots),
        *(one.at for one in seen),
        *(doc.at for doc in documents or [_NOTHING]),
    )
    seats, happenings = _seated(seen)
    sizes, growth = _sizes(stable)
    assignor = _assignor(stable)
    is_known = assignor in ASSIGNORS
    settings = _settings(stable, documents, assignor if is_known else ClientSettings().assignor)
    generations = reader.rebalances if has_journal else len({row["generation"] for row in stable})
    # Who formed the first generation was there from the beginning, under any settings.
    first = {one.seat for one in happenings if isinstance(one, Start) and one.at <= begin}
    later = [one for one in happenings if not (isinstance(one, Start) and one.at <= begin)]
    return Recording(
        group=group,
        length_ms=end - begin,
        seats=seats,
        topics=sizes,
        running=tuple(sorted(first)),
        happenings=[_moved(one, begin) for one in (*later, *growth)],
        settings=settings,
        rebalances=max(generations - 1, 0),
        reactions_ms=tuple(reader.reactions),
        has_journal=has_journal,
        unknown_assignor=None if is_known else assignor,
    )


_NOTHING = Document(0, "", {}, {})


def _moved(one: Happening | AmbiguousEvent, begin: int) -> Happening | AmbiguousEvent:
    """On a clock that starts with the recording."""
    if isinstance(one, AmbiguousEvent):
        first, second = (tuple(_earlier(each, begin) for each in way) for way in (one.one, one.other))
        return AmbiguousEvent(one.what, first, second)
    return _earlier(one, begin)


def _earlier(one: Happening, begin: int) -> Happening:
    moved = one._replace(at=max(one.at - begin, 0))
    return moved._replace(until=moved.until - begin) if isinstance(moved, Silence | SlowPoll) else moved


# --- from the journal ---------------------------------------------------------------------------


class _JournalReader:
    """Reads the documents of one group."""

    def __init__(self) -> None:
        self.rebalances = 0
        self.reactions: list[int] = []
        self._members: dict[str, tuple[str, ...]] = {}  # topics by member
        self._asked_at: int | None = None  # since when the coordinator waits for everyone to join again
        self._poll_ms: dict[str, int] = {}

    def read(self, documents: Iterable[Document]) -> Iterator[_Seen]:
        for one in documents:
            yield from self._read(one)

    def _read(self, one: Document) -> Iterator[_Seen]:  # noqa: C901  # one case for each event
        details, at = one.details, one.at
        match one.event:
            case "MemberAdded":
                topics = _topics(details["protocols"])
                self._poll_ms[details["member_id"]] = details["rebalance_timeout_ms"]
                yield self._came(at, details["member_id"], details, topics)
            case "GroupLoaded" if details["image"]:
                for each in details["image"]["members"]:
                    if each["member_id"] not in self._members:
                        self._poll_ms[each["member_id"]] = each["rebalance_timeout_ms"]
                        yield self._came(at, each["member_id"], each, subscribed_topics(each["subscription"]))
            case "ConsumerMemberStored":
                topics = tuple(details["details"]["names"])
                if details["member_id"] not in self._members:
                    yield self._came(at, details["member_id"], details["details"], topics)
                else:
                    yield from self._subscribed(at, details["member_id"], topics)
            case "MemberReplaced":
                self._members[details["member_id"]] = self._members.pop(details["old_member_id"], ())
                # It was away for a while before; the coordinator does not see that.
                yield _Went(at - STATIC_RESTART_MS, details["old_member_id"], _LEFT, at - STATIC_RESTART_MS)
                yield _Came(at, details["member_id"], Seat("", "", "", (), details["instance_id"]))
            case "MemberUpdated":
                yield from self._subscribed(at, details["member_id"], _topics(details["protocols"]))
                self._rejoined(one)
            case "JoinParked":
                self._rejoined(one)
            case "MemberRemoved" | "ConsumerMemberDropped":
                if self._members.pop(details["member_id"], None) is not None:
                    yield self._went(one)
            case "RebalanceStarted":
                self._asked_at = at
            case "GenerationStarted" | "ConsumerGroupStored":
                self.rebalances += 1
                self._asked_at = None

    def _came(self, at: int, member: str, details: Row, topics: tuple[str, ...]) -> _Came:
        self._members[member] = topics
        return _Came(
            at, member, Seat("", details["client_id"], details["client_host"], topics, details["instance_id"])
        )

    def _subscribed(self, at: int, member: str, topics: tuple[str, ...]) -> Iterator[_Subscribed]:
        if self._members.get(member) != topics and topics:
            self._members[member] = topics
            yield _Subscribed(at, member, topics)

    def _rejoined(self, one: Document) -> None:
        if (
            self._asked_at is not None
            and one.cause.get("kind") == "MemberRejoined"
            and one.at > self._asked_at
        ):
            self.reactions.append(one.at - self._asked_at)

    def _went(self, one: Document) -> _Went:
        member, cause, at = one.details["member_id"], one.cause, one.at
        match cause.get("kind"):
            case "SessionExpired":
                return _Went(at, member, _EXPIRED, at - int(cause["silent_ms"]))
            case "MemberLeft" if _POLL_TIMEOUT in (cause.get("reason") or ""):
                return _Went(at, member, _SLOW, at - max(self._poll_ms.get(member, 0), 0))
            case "JoinTimedOut":
                return _Went(at, member, _SLOW, at - int(cause["timeout_ms"]))
            case "MemberLeft":
                return _Went(at, member, _LEFT, at)
            case _:
                return _Went(at, member, _EXPIRED, at)


def _topics(protocols: Sequence[Row]) -> tuple[str, ...]:
    return subscribed_topics(protocols[0]["metadata"]) if protocols else ()


# --- from snapshots -----------------------------------------------------------------------------


def _from_snapshots(snapshots: Sequence[Row]) -> Iterator[_Seen]:
    there: dict[str, Row] = {}
    for row in snapshots:
        members = {one["member_id"]: one for one in row["members"]}
        at = row["ts"] if row["since"] is None else min(row["since"], row["ts"])
        for gone in [name for name in there if name not in members]:
            silent = there.pop(gone)["session_timeout_ms"] or _SESSION_MS
            yield _Went(at, gone, _UNKNOWN, at - silent)
        for name, one in members.items():
            topics = tuple(one["subscribed"])
            if name not in there:
                yield _Came(at, name, Seat("", one["client_id"], one["host"], topics, one["instance_id"]))
            elif tuple(there[name]["subscribed"]) != topics:
                yield _Subscribed(at, name, topics)
            there[name] = one


# --- who sat where ------------------------------------------------------------------------------


def _deploys(seen: Sequence[_Seen], seats: int) -> Iterator[_Seen]:
    """Half of all processes gone and back within a quarter of an hour is a deploy: each of them left."""
    gone = [one for one in seen if isinstance(one, _Went) and one.how == _UNKNOWN]
    for one in seen:
        if isinstance(one, _Went) and one.how == _UNKNOWN:
            near = {each.member for each in gone if abs(each.at - one.at) <= _DEPLOY_MS}
            yield one._replace(how=_LEFT, since=one.at) if 2 * len(near) >= max(seats, 3) else one
        else:
            yield one


def _seated(seen: Sequence[_Seen]) -> tuple[dict[str, Seat], list[Happening | AmbiguousEvent]]:
    """Seats, and what happened on each: a process that is back takes the seat that it had."""
    chart = _Chart()
    # Who was silent had left its seat before the coordinator noticed.
    for one in sorted(seen, key=lambda each: each.since if isinstance(each, _Went) else each.at):
        match one:
            case _Came():
                chart.sit(one)
            case _Went():
                chart.stand_up(one)
            case _Subscribed():
                chart.subscribe(one)
    return chart.seats, [happening for name in chart.seats for happening in chart.happenings(name)]


class _Chart:
    def __init__(self) -> None:
        self.seats: dict[str, Seat] = {}
        self._of: dict[str, str] = {}  # seats by member
        self._free: list[str] = []  # the one that became free last is the last
        self._log: dict[str, list[_Seen]] = {}

    def sit(self, one: _Came) -> None:
        name = self._find(one.seat)
        if name is None:
            name = _new_name(one.seat.instance_id or one.seat.client_id or one.member, self.seats)
            self.seats[name] = one.seat._replace(name=name)
            self._log[name] = []
        elif one.seat.topics and one.seat.topics != self.seats[name].topics:
            self._log[name].append(_Subscribed(one.at + 1, one.member, one.seat.topics))
        if name in self._free:
            self._free.remove(name)
        self._of[one.member] = name
        self._log[name].append(one)

    def _find(self, seat: Seat) -> str | None:
        if seat.instance_id is not None:
            return next((n for n, one in self.seats.items() if one.instance_id == seat.instance_id), None)
        same = [name for name in self._free if self.seats[name].client_id == seat.client_id]
        near = [name for name in same if self.seats[name].host == seat.host]
        found = near or same
        return found[-1] if found else None

    def stand_up(self, one: _Went) -> None:
        name = self._of.pop(one.member, None)
        if name is not None:
            self._free.append(name)
            self._log[name].append(one)

    def subscribe(self, one: _Subscribed) -> None:
        name = self._of.get(one.member)
        if name is not None:
            self._log[name].append(one)

    def happenings(self, name: str) -> Iterator[Happening | AmbiguousEvent]:
        log = self._log[name]
        skip: _Seen | None = None
        for place, one in enumerate(log):
            match one:
                case _Subscribed():
                    yield Subscribe(one.at, name, one.topics)
                case _Came():
                    if one is not skip:
                        yield Start(one.at, name)
                case _Went():
                    back = next((each for each in log[place + 1 :] if isinstance(each, _Came)), None)
                    skip = back
                    yield from _gone(name, one, None if back is None else back.at)


def _new_name(wanted: str, taken: Mapping[str, Seat]) -> str:
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted}#{number}"
    return name


def _gone(name: str, one: _Went, back: int | None) -> Iterator[Happening | AmbiguousEvent]:
    again: tuple[Happening, ...] = () if back is None else (Start(back, name),)
    is_soon = back is not None and back - one.at <= SAME_PROCESS_MS
    # Back before it was missed: another process, for the old one had its id still.
    is_other = back is not None and back < one.at
    match one.how:
        case "slow" if back is not None and is_soon:
            yield SlowPoll(one.since, name, back)
        case "expired" if back is not None and is_soon and not is_other:
            yield AmbiguousEvent(
                "stood still or was started again",
                (Silence(one.since, name, back),),
                (Crash(one.since, name), *again),
            )
        case "expired":
            yield Crash(one.since, name)
            yield from again
        case "unknown" if back is not None and is_soon and not is_other:
            yield AmbiguousEvent(
                "left or stood still", (Stop(one.at, name), *again), (Silence(one.since, name, back),)
            )
        case "unknown":
            yield AmbiguousEvent(
                "left or crashed", (Stop(one.at, name), *again), (Crash(one.since, name), *again)
            )
        case _:
            yield Stop(one.at, name)
            yield from again


# --- topics and settings ------------------------------------------------------------------------


def _sizes(snapshots: Sequence[Row]) -> tuple[dict[str, int], list[Grow]]:
    """Partitions of each topic as far as they were assigned, and when there were more."""
    first: dict[str, int] = {}
    sizes: dict[str, int] = {}
    growth: list[Grow] = []
    for row in snapshots:
        found: dict[str, int] = {}
        for member in row["members"]:
            for one in member["assigned"]:
                found[one["topic"]] = max(found.get(one["topic"], 0), one["partition"] + 1)
        at = row["ts"] if row["since"] is None else min(row["since"], row["ts"])
        for topic, count in found.items():
            if topic not in first:
                first[topic] = count
            elif count > sizes[topic]:
                growth.append(Grow(at, topic, count))
            sizes[topic] = max(count, sizes.get(topic, 0))
    return first, growth


def _assignor(snapshots: Sequence[Row]) -> str:
    """What most generations used."""
    found = Counter(row["protocol"] for row in snapshots if row["protocol"])
    return found.most_common(1)[0][0] if found else ClientSettings().assignor


def _settings(snapshots: Sequence[Row], documents: Sequence[Document], assignor: str) -> ClientSettings:
    """What most of the members were set to."""
    members = [member for row in snapshots for member in row["members"]]
    sessions = Counter(one["session_timeout_ms"] for one in members if one["session_timeout_ms"])
    polls = Counter(one.details["rebalance_timeout_ms"] for one in documents if one.event == "MemberAdded")
    is_consumer = snapshots[-1]["group_type"] == "consumer"
    base = ClientSettings()
    return ClientSettings(
        assignor=assignor,
        session_timeout_ms=sessions.most_common(1)[0][0] if sessions else base.session_timeout_ms,
        heartbeat_interval_ms=5_000 if is_consumer else base.heartbeat_interval_ms,
        max_poll_interval_ms=polls.most_common(1)[0][0] if polls else base.max_poll_interval_ms,
        static=sum(one["instance_id"] is not None for one in members) * 2 > len(members),
        protocol="consumer" if is_consumer else "classic",
    )
