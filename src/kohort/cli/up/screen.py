"""The screen of ``kohort up``: what broker, groups, archive and lake do, looked at every second."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kohort.cli.up.archive import GROUP, ArchiveView
from kohort.cli.up.child import ChildPhase, ChildView
from kohort.cli.up.lake import LakeView
from kohort.cli.up.services import CLIENT, Row
from kohort.client.admin import AsyncAdmin
from kohort.client.errors import BrokerError
from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_MOST = 9  # lines for topics, and for groups; a screen is no list
_LEAST = 2  # one of them, and how many more there are
_SLOW_START = "Spark takes some seconds"
_FRAME = 4  # lines of a table beside its rows
_COLOURS = {
    ChildPhase.OFF: "dim",
    ChildPhase.WAITING: "dim",
    ChildPhase.STARTING: "yellow",
    ChildPhase.RUNNING: "green",
    ChildPhase.RESTARTING: "red",
    ChildPhase.STOPPING: "yellow",
    ChildPhase.STOPPED: "dim",
}
_CHILDREN = ("archive", "lake")  # their lines say what they do, not where they are
_GROUP_COLOURS = {"Stable": "green", "Empty": "dim", "Dead": "dim"}


_Line = TypeVar("_Line")


class TopicLine(NamedTuple):
    """One topic; ``archived`` is None without an archive."""

    name: str
    partitions: int
    records: int
    rate: float
    archived: int | None


class GroupLine(NamedTuple):
    """One group; ``lag`` is None before its first commit."""

    name: str
    state: str
    members: int
    lag: int | None


@dataclass(slots=True)
class Picture:
    """All that is on the screen."""

    rows: list[Row]
    began: float
    archive: ArchiveView | None = None
    lake: LakeView | None = None
    topics: list[TopicLine] = field(default_factory=list)
    groups: list[GroupLine] = field(default_factory=list)
    trouble: str = ""


# Looking


class Observer:
    """Asks the broker, as any client would, and the archive's ledgers."""

    def __init__(self, admin: AsyncAdmin, archive: Path | None) -> None:
        self._admin = admin
        self._archive = archive
        self._ends: dict[str, tuple[float, int]] = {}

    async def topics(self, now: float) -> list[TopicLine]:
        """All topics but internal ones, those with most records first."""
        from kohort.cli.groups.lookup import log_ranges

        found = [topic for topic in await self._admin.list_topics() if not topic.is_internal]
        wanted = [TopicPartition(topic.name, one.partition) for topic in found for one in topic.partitions]
        ranges = await log_ranges(self._admin, wanted)
        landed = await asyncio.to_thread(landed_rows, self._archive) if self._archive is not None else None
        lines = []
        for topic in found:
            places = [TopicPartition(topic.name, one.partition) for one in topic.partitions]
            spans = [ranges[place] for place in places if place in ranges]
            lines.append(
                TopicLine(
                    topic.name,
                    len(places),
                    sum(end - first for first, end in spans),
                    self._rate(topic.name, now, sum(end for _, end in spans)),
                    None if landed is None else landed.get(topic.name, 0),
                )
            )
        return sorted(lines, key=lambda line: (-line.records, line.name))

    def _rate(self, topic: str, now: float, end: int) -> float:
        """Records a second since the last look."""
        before, was = self._ends.get(topic, (now, end))
        self._ends[topic] = (now, end)
        return max(0.0, (end - was) / (now - before)) if now > before else 0.0

    async def groups(self) -> list[GroupLine]:
        """All groups, those with members first."""
        from kohort.cli.groups.lookup import lag_of

        lines = []
        listed = [group.group_id for group in await self._admin.list_groups()]
        for group_id, group in (await self._admin.describe_groups(listed)).items():
            if isinstance(group, BrokerError):
                continue
            lags = [one.lag for one in await lag_of(self._admin, group) if one.lag is not None]
            lines.append(GroupLine(group_id, group.state, len(group.members), sum(lags) if lags else None))
        return sorted(lines, key=lambda line: (-line.members, line.name))


def landed_rows(archive: Path) -> dict[str, int]:
    """How many records of each topic have landed, bad ones included."""
    from kohort.spark.pipelines.table import tables

    return {
        table.topic: sum(one.rows + one.bad for one in table.ledger().landed.values())
        for table in tables(archive)
    }


# Drawing


def draw(picture: Picture, now: float, height: int | None = None) -> "RenderableType":
    """The picture, for a terminal of any width; of a low one, the first of all topics and groups."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    width = max(len(row.what) for row in picture.rows)
    lines = [
        _fact(row.what, Text(row.where, "cyan"), width) for row in picture.rows if row.what not in _CHILDREN
    ]
    if picture.archive is not None:
        lines.append(_fact("archive", _archive_text(picture, picture.archive, now), width))
    if picture.lake is not None:
        lines.append(_fact("lake", _lake_text(picture.lake, now), width))
    if picture.trouble:
        lines.append(Text(picture.trouble, "red"))
    up = Text(f"up {_duration(now - picture.began)} · Ctrl-C stops it", "dim")
    body: list[RenderableType] = [Panel(Group(*lines), title="kohort is up", subtitle=up, padding=(0, 1))]
    tables = _FRAME * bool(picture.topics) + _FRAME * bool(picture.groups)
    room = None if height is None else height - (len(lines) + 2) - tables - 1  # and the cursor's line
    for_topics, for_groups = shares(room, len(picture.topics), len(picture.groups))
    if picture.topics:
        body.append(_topic_table(picture.topics, for_topics, with_archive=picture.archive is not None))
    if picture.groups:
        body.append(_group_table(picture.groups, for_groups))
    return Group(*body)


def shares(room: int | None, topics: int, groups: int) -> tuple[int, int]:
    """How many lines so many topics and groups get of those there are."""
    for_topics, for_groups = min(topics, _MOST), min(groups, _MOST)
    if room is None or for_topics + for_groups <= room:
        return for_topics, for_groups
    for_groups = min(for_groups, max(_LEAST, room - for_topics, room // 2))
    return min(for_topics, max(_LEAST, room - for_groups)), for_groups


def _first(lines: Sequence[_Line], room: int) -> tuple[Sequence[_Line], int]:
    """The lines that have room, and how many there are beside them; that is said in one line, too."""
    shown = len(lines) if len(lines) <= room else room - 1
    return lines[:shown], len(lines) - shown


def _fact(name: str, value: "Text", width: int) -> "Text":
    from rich.text import Text

    return Text.assemble((f"{name:{width}}  ", "bold"), value, overflow="ellipsis", no_wrap=True)


def _archive_text(picture: Picture, archive: ArchiveView, now: float) -> "Text":
    facts = []
    if archive.phase is ChildPhase.STARTING and not archive.batches:
        facts.append(_SLOW_START)
    if archive.phase is ChildPhase.RUNNING:
        facts.append(f"{sum(line.archived or 0 for line in picture.topics):,} rows")
        lag = next((group.lag for group in picture.groups if group.name == GROUP), None)
        facts += [f"lag {lag:,}"] if lag is not None else []
        facts += [f"{archive.bad:,} bad"] if archive.bad else []
        if archive.landed_at is not None:
            facts.append(f"last batch {_duration(now - archive.landed_at)} ago")
    return _child_text(archive, facts)


def _lake_text(lake: LakeView, now: float) -> "Text":
    facts = []
    if lake.phase is ChildPhase.WAITING:
        facts.append("Spark starts with the first group")
    if lake.phase is ChildPhase.STARTING and lake.landed_at is None:
        facts.append(_SLOW_START)
    if lake.phase is ChildPhase.RUNNING:
        facts.append(f"{lake.rows:,} rows landed")
        made = lake.refreshed_at
        facts.append("no tables yet" if made is None else f"tables made {_duration(now - made)} ago")
    return _child_text(lake, facts)


def _child_text(child: ChildView, facts: list[str]) -> "Text":
    from rich.text import Text

    facts += [child.detail] if child.detail else []
    return Text.assemble((child.phase, _COLOURS[child.phase]), " · " if facts else "", " · ".join(facts))


def _topic_table(topics: list[TopicLine], room: int, *, with_archive: bool) -> "Table":
    table = _table("topic", "partitions", "records", "per second", *(["archived"] if with_archive else []))
    shown, more = _first(topics, room)
    for line in shown:
        rate = f"{line.rate:,.0f}" if line.rate >= 0.5 else "-"
        archived = [] if not with_archive else ["-" if line.archived is None else f"{line.archived:,}"]
        table.add_row(line.name, str(line.partitions), f"{line.records:,}", rate, *archived)
    if more:
        table.add_row(f"and {more} more", style="dim")
    return table


def _group_table(groups: list[GroupLine], room: int) -> "Table":
    from rich.text import Text

    table = _table("group", "members", "lag", "state")
    table.columns[-1].justify = "left"
    shown, more = _first(groups, room)
    for line in shown:
        state = Text(line.state, _GROUP_COLOURS.get(line.state, "yellow"))
        table.add_row(line.name, str(line.members), "-" if line.lag is None else f"{line.lag:,}", state)
    if more:
        table.add_row(f"and {more} more", style="dim")
    return table


def _table(first: str, *numbers: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=True)
    table.add_column(first, min_width=16, overflow="ellipsis", no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", min_width=10)
    return table


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min"
    return f"{whole // 3_600} h {whole % 3_600 // 60} min"


# Showing


class ScreenSource(NamedTuple):
    """Where to look: the broker, and the archive's directory if there is one."""

    bootstrap: str
    archive: Path | None


async def show_until(
    stopping: asyncio.Event,
    picture: Picture,
    sight: ScreenSource,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Keep the picture on the terminal until ``stopping`` is set; an error of a look is shown, not raised."""
    from rich.live import Live

    async with AsyncAdmin(sight.bootstrap, CLIENT) as admin:
        observer = Observer(admin, sight.archive)
        with Live(draw(picture, clock()), auto_refresh=False, vertical_overflow="crop") as live:
            while not stopping.is_set():
                try:
                    picture.topics = await observer.topics(clock())
                    picture.groups = await observer.groups()
                    picture.trouble = ""
                except (KohortError, OSError) as error:
                    picture.trouble = str(error)
                live.update(draw(picture, clock(), live.console.height), refresh=True)
                await _wait(stopping, 1.0)


async def _wait(stopping: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return


def changes(name: str, say: Callable[[str], None]) -> Callable[[ChildView], None]:
    """For output that is no terminal: a line when a child changes its state or has landed something."""
    last = ""

    def tell(view: ChildView) -> None:
        nonlocal last
        landed = f", {view.rows:,} rows landed" if view.rows else ""
        line = f"{name}: {view.phase}{f' ({view.detail})' if view.detail else ''}{landed}"
        if line != last:  # a batch may land nothing: all of it was there, or it only moved an offset
            last = line
            say(line)

    return tell
