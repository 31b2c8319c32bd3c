"""What a pipeline tells while it runs: for people a line, for programs the same facts as JSON."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

MOST_NAMED = 4


class Started(NamedTuple):
    """Spark runs, and the query reads."""

    instance: str
    group: str


class Landed(NamedTuple):
    """A micro-batch is in the tables. ``lag`` is what was waiting in the topics then; None if not known."""

    batch: int
    rows: Mapping[str, int]
    bad: int
    skipped: int
    gone: int
    files: int
    seconds: float
    lag: int | None


class MergedFiles(NamedTuple):
    """Small files of a day have become fewer."""

    date: str
    before: int
    after: int


class Trouble(NamedTuple):
    """Something that is not the end of it."""

    what: str


class Ended(NamedTuple):
    """The query has come to rest."""

    batches: int
    rows: int


Event = Started | Landed | MergedFiles | Trouble | Ended
Tell = Callable[[Event], None]

_NAMES = {Started: "started", Landed: "landed", MergedFiles: "merged", Trouble: "trouble", Ended: "ended"}


def event_json(event: Event) -> dict[str, object]:
    """The event as one JSON object."""
    return {"event": _NAMES[type(event)], **event._asdict()}


def event_text(event: Event) -> str:
    """The event as a line for people."""
    match event:
        case Started(instance, group):
            return f"instance {instance} reads as a member of group {group!r}; Ctrl-C stops it"
        case Landed():
            return _landed_text(event)
        case MergedFiles(date, before, after):
            return f"{date}: {before} files are now {after}"
        case Trouble(what):
            return what
        case Ended(batches, rows):
            return f"stopped after {_counted(batches, 'batch', 'batches')}, {_counted(rows, 'row', 'rows')}"


def _landed_text(event: Landed) -> str:
    total = sum(event.rows.values())
    most = sorted(event.rows.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{topic} {rows:,}" for topic, rows in most[:MOST_NAMED]]
    if len(most) > MOST_NAMED:
        named.append(f"and {len(most) - MOST_NAMED} more")
    facts = [f"batch {event.batch}: {_counted(total, 'row', 'rows')} in {event.seconds:.1f} s"]
    facts += [f"{_counted(event.bad, 'bad record', 'bad records')}"] if event.bad else []
    facts += [f"{event.skipped:,} offsets were there already"] if event.skipped else []
    facts += [f"{event.gone:,} offsets are gone with a topic that was made again"] if event.gone else []
    facts += [f"lag {event.lag:,}"] if event.lag is not None else []
    return ", ".join(facts) + (f" ({', '.join(named)})" if named else "")


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
