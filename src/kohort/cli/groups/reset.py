"""``kohort groups reset-offsets``: set a group back or forward, as a dry run unless --execute is given."""

import time
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from kohort.cli.groups.lookup import GroupHasMembersError, UnknownGroupError, find_group, log_ranges
from kohort.cli.groups.reset_plan import (
    Facts,
    OffsetReset,
    ResetError,
    ResetKind,
    ResetRequest,
    export_lines,
    not_before_1970,
    parse_duration,
    parse_offsets,
    parse_time,
    plan_resets,
)
from kohort.cli.groups.topic_partitions import TopicParts, parse_topic_parts
from kohort.cli.records.record_text import show_time
from kohort.cli.running import FAILED, OK
from kohort.cli.screen import Column, TextTable, note, say, show_json, show_table
from kohort.cli.session import AsJson, ClusterOptions, on_cluster, refuse, talk
from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import CommittedOffset
from kohort.client.errors import BrokerError
from kohort.model.errors import KohortError
from kohort.model.ids import Offset
from kohort.model.topics import TopicPartition
from kohort.story.names import counted

_WHERE = "Where to (one of them)"
_WHAT = "What"
_THEN = "And then"


@on_cluster
def reset_offsets(
    where: ClusterOptions,
    name: Annotated[str, typer.Argument(metavar="GROUP", help="Id of the group.")],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:0,1,…]",
            help="A topic, or some of its partitions; may be repeated.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    all_topics: Annotated[
        bool,
        typer.Option(
            "--all-topics", help="All topics that the group has committed offsets for.", rich_help_panel=_WHAT
        ),
    ] = False,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="The first record there is.", rich_help_panel=_WHERE)
    ] = False,
    to_latest: Annotated[
        bool,
        typer.Option(
            "--to-latest", help="The end of the log: only new records follow.", rich_help_panel=_WHERE
        ),
    ] = False,
    to_current: Annotated[
        bool,
        typer.Option("--to-current", help="The committed offset: nothing changes.", rich_help_panel=_WHERE),
    ] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", metavar="N", help="This offset.", rich_help_panel=_WHERE)
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(
            "--shift-by",
            metavar="N",
            help="N records forward from the committed offset; -N goes back.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="ISO",
            help="The first record since then, such as 2026-01-31T12:00:00 (local time) or …Z.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration",
            metavar="PnDTnHnMnS",
            help="The first record within this duration before now, such as PT30M or P1D.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file",
            metavar="CSV",
            help="Lines of topic,partition,offset, as --export writes them.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it. Without this it is a dry run.", rich_help_panel=_THEN)
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show it: the default.", rich_help_panel=_THEN)
    ] = False,
    export: Annotated[
        bool, typer.Option("--export", help="Only print it as CSV.", rich_help_panel=_THEN)
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Set a group's offsets. A dry run unless --execute is given; the group must have no members."""
    if execute + dry_run + export > 1 or (export and as_json):
        raise refuse("--execute, --dry-run and --export exclude each other, as do --export and --json")
    given = {
        ResetKind.EARLIEST: to_earliest or None,
        ResetKind.LATEST: to_latest or None,
        ResetKind.CURRENT: to_current or None,
        ResetKind.OFFSET: to_offset,
        ResetKind.SHIFT: shift_by,
        ResetKind.TIME: to_datetime,
        ResetKind.DURATION: by_duration,
        ResetKind.FILE: from_file,
    }
    try:
        wish = _wish(name, {kind: value for kind, value in given.items() if value is not None})
    except ResetError as error:
        raise refuse(str(error.args[0]), error.hint) from None
    order = _Order(name, wish, [parse_topic_parts(text) for text in topic or []], all_topics)
    if (wish.kind is ResetKind.FILE) == bool(order.topics or all_topics) or (order.topics and all_topics):
        raise refuse("choose what to reset", "either --topic or --all-topics, and neither with --from-file")

    async def command(admin: AsyncAdmin) -> int:
        resets = await _plan(admin, order)
        results: dict[TopicPartition, BrokerError | None] = {}
        if execute:
            offsets = {one.partition: CommittedOffset(Offset(one.new)) for one in resets}
            results = await admin.alter_group_offsets(name, offsets)
        if export:
            for line in export_lines(resets):
                say(line)
        elif as_json:
            show_json(_json(name, resets, results, executed=execute))
        else:
            _show(order, resets, results, executed=execute)
        for error in filter(None, results.values()):
            note(f"kohort: error: {error}")
        return FAILED if any(results.values()) else OK

    talk(where, command)


class _Order(NamedTuple):
    """What is to be reset, and where to."""

    group: str
    wish: ResetRequest
    topics: list[TopicParts]
    all_topics: bool


def _wish(group: str, given: dict[ResetKind, int | str | Path | bool]) -> ResetRequest:
    if len(given) != 1:
        found = f", not {' and '.join(given)}" if given else ""
        raise ResetError(f"choose exactly one target{found}", hint=f"one of {', '.join(ResetKind)}")
    ((kind, value),) = given.items()
    match kind, value:
        case ((ResetKind.OFFSET | ResetKind.SHIFT), int()):
            return ResetRequest(kind, value)
        case ResetKind.TIME, str():
            return ResetRequest(kind, not_before_1970(parse_time(value)))
        case ResetKind.DURATION, str():
            return ResetRequest(kind, not_before_1970(round(time.time() * 1_000) - parse_duration(value)))
        case ResetKind.FILE, Path():
            return ResetRequest(kind, offsets=_read(value, group))
        case _:
            return ResetRequest(kind)


def _read(path: Path, group: str) -> dict[TopicPartition, int]:
    try:
        offsets = parse_offsets(path.read_text().splitlines(), group)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ResetError(f"cannot read {path}: {reason}", hint="--export writes such a file") from None
    if not offsets:
        raise ResetError(f"{path} has no offsets for group {group!r}", hint="--export writes such a file")
    return offsets


async def _plan(admin: AsyncAdmin, order: _Order) -> list[OffsetReset]:
    """Refuses while the group has members: they would not notice, and overwrite it with their next commit."""
    await _check_unused(admin, order.group)
    committed = {one: found.offset for one, found in (await admin.list_group_offsets(order.group)).items()}
    partitions = await _partitions(admin, order, committed)
    ranges = await log_ranges(admin, partitions)
    at_time: dict[TopicPartition, int] = {}
    if order.wish.kind in (ResetKind.TIME, ResetKind.DURATION):
        at_time = await _offsets_at(admin, [one for one in partitions if one in ranges], order.wish.number)
    return plan_resets(order.wish, partitions, Facts(ranges, committed, at_time))


async def _offsets_at(
    admin: AsyncAdmin, partitions: Collection[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for one, found in (await admin.list_offsets(dict.fromkeys(partitions, timestamp))).items():
        if isinstance(found, BrokerError):
            raise found
        offsets[one] = found.offset
    return offsets


async def _check_unused(admin: AsyncAdmin, name: str) -> None:
    try:
        group = await find_group(admin, name)
    except UnknownGroupError as error:
        # As with Kafka's tool: a group can be given a place to start before it exists.
        note(f"kohort: note: {error.args[0]} yet; --execute makes it ({error.hint})")
        return
    if group.members or group.state != "Empty":
        raise GroupHasMembersError(group, "reset offsets")


async def _partitions(
    admin: AsyncAdmin, order: _Order, committed: Collection[TopicPartition]
) -> list[TopicPartition]:
    if order.wish.kind is ResetKind.FILE:
        return list(order.wish.offsets)
    if order.all_topics:
        if not committed:
            raise KohortError(
                f"group {order.group!r} has committed nothing", hint="name what to reset with --topic"
            )
        return list(committed)
    chosen: dict[TopicPartition, None] = {}
    for parts in order.topics:
        topic = await admin.describe_topic(parts.topic)
        there = [TopicPartition(topic.name, one.partition) for one in topic.partitions]
        for one in parts.named():
            if one not in there:
                raise KohortError(
                    f"topic {topic.name!r} has no partition {one.partition}",
                    hint=f"it has the partitions 0 to {len(there) - 1}",
                )
        chosen.update(dict.fromkeys(parts.named() or there))
    return list(chosen)


def _show(
    order: _Order,
    resets: list[OffsetReset],
    results: dict[TopicPartition, BrokerError | None],
    *,
    executed: bool,
) -> None:
    columns = (
        Column("group", rank=1, is_heading=True),
        Column("topic"),
        Column("partition", True),
        Column("current-offset", True),
        Column("new-offset", True),
        Column("note"),
    )
    rows = [
        (
            order.group,
            one.partition.topic,
            str(one.partition.partition),
            "-" if one.current is None else str(one.current),
            str(one.new),
            one.note or "",
        )
        for one in resets
    ]
    show_table(TextTable(columns, rows), empty="nothing to reset")
    if order.wish.kind in (ResetKind.TIME, ResetKind.DURATION):
        note(f"that is since {show_time(order.wish.number)}, local time")
    if executed:
        done = sum(error is None for error in results.values())
        note(f"set {counted(done, 'offset')} of group {order.group}")
    else:
        note("this was a dry run, nothing is changed; --execute sets these offsets")


def _json(
    group: str,
    resets: list[OffsetReset],
    results: dict[TopicPartition, BrokerError | None],
    *,
    executed: bool,
) -> dict[str, object]:
    return {
        "group": group,
        "executed": executed,
        "offsets": [
            {
                "topic": one.partition.topic,
                "partition": one.partition.partition,
                "current_offset": one.current,
                "new_offset": one.new,
                "note": one.note,
                "error": error.name if (error := results.get(one.partition)) is not None else None,
            }
            for one in resets
        ],
    }
