"""How a story is printed: what the group is now, its rebalances, and partitions without an owner."""

from collections.abc import Iterable
from datetime import datetime
from textwrap import wrap

from kohort.cli.screen import is_terminal, say
from kohort.client.admin.results import GroupInfo
from kohort.primitives.strings import visible
from kohort.story.names import counted
from kohort.story.rebalance import Story
from kohort.story.text import INDENT, ShowTime, story_lines, unowned_line

NARROWEST = 40  # columns; a narrower terminal wraps what it likes


def show_story(story: Story, group: GroupInfo | None, *, is_all: bool) -> None:
    """The story between how the group is now and partitions without an owner."""
    show_time, day = _clock(story)
    _print([_headline(story, group), _range_shown(story, is_all, day, show_time), ""])
    lines = story_lines(story, show_time)
    unowned = unowned_line(story, show_time)
    if unowned is not None:
        lines += ["", unowned]
    if story.unreadable:
        lines += ["", f"{counted(story.unreadable, 'document')} of the journal could not be read"]
    _print(lines)


def _headline(story: Story, group: GroupInfo | None) -> str:
    if group is not None:
        return f"{group.group_id}: {group.state}, {counted(len(group.members), 'member')}"
    reason = "" if story.removed is None else f": {story.removed['sentence']}"
    return f"{story.group_id} is gone{reason}"


def _range_shown(story: Story, is_all: bool, day: str, show_time: ShowTime) -> str:
    count = counted(len(story.rebalances), "rebalance")
    if not story.rebalances:
        begins = "" if story.first_at is None else f", which begins {show_time(story.first_at)}"
        return f"no rebalance of it is in the journal{begins}"
    return f"{'all that is in the journal' if is_all else 'its last'}: {count}, oldest first{day}"


def _clock(story: Story) -> tuple[ShowTime, str]:
    """How times are shown: without the date if they are all of one day, which is shown once then."""
    days = {datetime.fromtimestamp(at / 1_000).date() for at in _times(story)}
    if len(days) != 1:
        return (lambda at: _moment(at).replace("T", " ")), ""
    return (lambda at: _moment(at).partition("T")[2]), f", on {days.pop().isoformat()}"


def _times(story: Story) -> Iterable[int]:
    yield from (one.started_at for one in story.rebalances)
    yield from (one.at for one in story.incidents)
    yield from (one.since for one in story.unowned)


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000).isoformat(timespec="milliseconds")


def _print(lines: Iterable[str]) -> None:
    """Lines that begin at the margin are headings; on a terminal they are bold, and lines are wrapped."""
    lines = map(visible, lines)
    if not is_terminal():
        for line in lines:
            say(line)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for line in lines:
        is_heading = bool(line) and not line.startswith(" ")
        for part in wrap(line, max(console.width, NARROWEST), subsequent_indent=" " * INDENT) or [""]:
            console.print(Text(part, style="bold" if is_heading else ""), soft_wrap=True)
