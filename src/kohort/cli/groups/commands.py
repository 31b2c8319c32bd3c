"""``kohort groups``: list, describe, members, offsets, state, delete, delete-offsets."""

import shutil
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer

from kohort.cli.groups import views
from kohort.cli.groups.lookup import (
    GroupHasMembersError,
    UnknownGroupError,
    find_group,
    lag_of,
    list_with_lag,
)
from kohort.cli.groups.reset import reset_offsets
from kohort.cli.groups.topic_partitions import TopicParts, parse_topic_parts
from kohort.cli.groups.watch import Watch, WatchCommand, repeat
from kohort.cli.groups.why.command import why
from kohort.cli.running import FAILED, OK
from kohort.cli.screen import TextTable, is_terminal, note, say, show_json, show_json_line, show_table
from kohort.cli.session import (
    AsJson,
    ClusterOptions,
    Command,
    Yes,
    confirm,
    nothing_listed,
    on_cluster,
    refuse,
    show_deleted,
    talk,
)
from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import CommittedOffset, GroupInfo
from kohort.client.errors import BrokerError
from kohort.groups.classic.transitions import Phase
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import GroupId
from kohort.model.topics import TopicPartition

app = typer.Typer(
    no_args_is_help=True, help="See consumer groups, explain their rebalances, set and delete their offsets."
)

Name = Annotated[str, typer.Argument(metavar="GROUP", help="Id of the group.")]
Names = Annotated[list[str], typer.Argument(metavar="GROUP", help="Ids of groups.")]


# Besides the phases of a classic group: what only groups of KIP-848's protocol can be in, on another broker.
_NEWER_STATES = ("Assigning", "Reconciling")
STATES = (*(phase.value for phase in Phase), *_NEWER_STATES)


def _state(typed: str) -> str:
    """The name of a state, typed in any case."""
    for state in STATES:
        if state.lower() == typed.lower():
            return state
    raise typer.BadParameter(f"{typed!r} is not one of {', '.join(map(repr, STATES))}.")


@app.command("list", cls=WatchCommand)
@on_cluster
def list_(
    where: ClusterOptions,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            parser=_state,
            metavar="STATE",
            help=f"Only groups in this state: {', '.join(STATES)}; may be repeated.",
        ),
    ] = None,
    watch: Watch = None,
    as_json: AsJson = False,
) -> None:
    """List groups with their state, their type, how many members they have, and how far behind they are."""

    async def command(admin: AsyncAdmin) -> int:
        groups = await list_with_lag(admin, state or ())
        _show(
            views.list_json(groups),
            views.list_table(groups),
            _Style(as_json, watch is not None, nothing_listed(admin, "groups")),
        )
        return OK

    _talk_on(where, command, watch, as_json)


def _talk_on(where: ClusterOptions, command: Command, watch: float | None, as_json: bool) -> None:
    """As ``talk``; with ``--watch`` again and again."""
    talk(where, lambda admin: repeat(lambda: command(admin), watch, as_json))


class _Style(NamedTuple):
    """How an answer is printed: as one document, as one of a stream, or as a table that may be empty."""

    as_json: bool
    is_stream: bool
    empty: str


def _columns() -> int | None:
    """The width of the terminal; None if the output goes elsewhere."""
    return shutil.get_terminal_size().columns if is_terminal() else None


def _show(document: object, table: TextTable, style: _Style) -> None:
    if not style.as_json:
        show_table(table, empty=style.empty)
    elif style.is_stream:
        show_json_line(document)
    else:
        show_json(document)


@app.command(cls=WatchCommand)
@on_cluster
def describe(
    where: ClusterOptions,
    names: Annotated[list[str] | None, typer.Argument(metavar="GROUP", help="Ids of groups.")] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="Show every group there is.")] = False,
    watch: Watch = None,
    as_json: AsJson = False,
) -> None:
    """Show every partition of groups: what is committed, how far behind it is, and whose it is."""
    if bool(names) == all_groups:
        raise refuse("choose groups by their ids, or all of them with --all-groups")

    async def command(admin: AsyncAdmin) -> int:
        chosen = [one.group_id for one in await admin.list_groups()] if all_groups else names or []
        groups, missing = await _find(admin, chosen)
        if all_groups:  # one that was deleted since it was listed is not missed
            missing = [error for error in missing if not isinstance(error, UnknownGroupError)]
        found = [(group, await lag_of(admin, group)) for group in groups]
        empty = "no committed offsets and no members" if groups else nothing_listed(admin, "groups")
        documents = [views.lag_json(*one) for one in found]
        if found or as_json or all_groups:
            table = views.lag_table(found, columns=_columns())
            _show(documents, table, _Style(as_json, watch is not None, empty))
        if not as_json:
            _note_states(groups)
        for error in missing:
            note(f"kohort: error: {error}")
        return FAILED if missing else OK

    _talk_on(where, command, watch, as_json)


async def _find(admin: AsyncAdmin, names: Sequence[str]) -> tuple[list[GroupInfo], list[KohortError]]:
    groups: list[GroupInfo] = []
    missing: list[KohortError] = []
    for name in dict.fromkeys(names):
        try:
            groups.append(await find_group(admin, name))
        except (UnknownGroupError, BrokerError) as error:
            missing.append(error)
    return groups, missing


def _note_states(groups: list[GroupInfo]) -> None:
    """What Kafka's tool warns of, too."""
    for group in groups:
        if not group.members:
            note(f"group {group.group_id} has no active members")
        if group.state.endswith("Rebalance") or group.state in _NEWER_STATES:
            note(f"group {group.group_id} is rebalancing ({group.state}): what is shown may be old")


@app.command(cls=WatchCommand)
@on_cluster
def members(
    where: ClusterOptions,
    name: Name,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show which partitions each has.")] = False,
    watch: Watch = None,
    as_json: AsJson = False,
) -> None:
    """Show the members of a group, their hosts, and how many partitions each has."""

    async def command(admin: AsyncAdmin) -> int:
        group = await find_group(admin, name)
        empty = f"group {name} has no members"
        table = views.members_table(group, verbose=verbose, columns=_columns())
        _show(views.members_json(group), table, _Style(as_json, watch is not None, empty))
        return OK

    _talk_on(where, command, watch, as_json)


@app.command()
@on_cluster
def offsets(
    where: ClusterOptions,
    name: Name,
    as_json: AsJson = False,
) -> None:
    """Show what a group has committed, with the metadata, and where the logs begin and end."""

    async def command(admin: AsyncAdmin) -> int:
        group = await find_group(admin, name)
        partitions = await lag_of(admin, group)
        empty = f"group {name} has committed nothing"
        _show(
            views.offsets_json(group, partitions),
            views.offsets_table(partitions),
            _Style(as_json, False, empty),
        )
        return OK

    talk(where, command)


@app.command(cls=WatchCommand)
@on_cluster
def state(
    where: ClusterOptions,
    name: Name,
    watch: Watch = None,
    as_json: AsJson = False,
) -> None:
    """Show a group's coordinator, assignor, state and size."""

    async def command(admin: AsyncAdmin) -> int:
        group = await find_group(admin, name)
        _show(views.state_json(group), views.state_table(group), _Style(as_json, watch is not None, ""))
        return OK

    _talk_on(where, command, watch, as_json)


app.command("why")(why)
app.command("reset-offsets")(reset_offsets)


@app.command()
@on_cluster
def delete(
    where: ClusterOptions,
    names: Names,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete groups with all their offsets. Asks first when typed at a terminal."""
    confirm(f"Delete {', '.join(names)} with all committed offsets?", given=yes or as_json)

    async def command(admin: AsyncAdmin) -> int:
        results = await admin.delete_groups(list(dict.fromkeys(names)))
        show_deleted("group", results, as_json)
        for group, error in results.items():
            if error is not None:
                note(f"kohort: error: {await _explained(admin, group, error)}")
        return FAILED if any(results.values()) else OK

    talk(where, command)


async def _explained(admin: AsyncAdmin, group: GroupId, error: BrokerError) -> KohortError:
    """The refusal of a broker with what can be found out about it."""
    try:
        found = await find_group(admin, group)
    except KohortError as missing:
        return missing if isinstance(missing, UnknownGroupError) else error
    if error.code == ErrorCode.NON_EMPTY_GROUP:
        return GroupHasMembersError(found, "delete a group that is in use")
    return error


@app.command("delete-offsets")
@on_cluster
def delete_offsets(
    where: ClusterOptions,
    name: Name,
    topic: Annotated[
        list[str],
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:0,1,…]",
            help="A topic, or some of its partitions; may be repeated.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Delete what a group has committed for topics or partitions that no member subscribes to."""
    wanted = [parse_topic_parts(text) for text in topic]

    async def command(admin: AsyncAdmin) -> int:
        await find_group(admin, name)
        committed = await admin.list_group_offsets(name)
        chosen = _committed_in(name, wanted, committed)
        results = await admin.delete_group_offsets(name, chosen)
        if as_json:
            show_json([_deleted_json(one, committed, results[one]) for one in chosen])
        for one in chosen:
            error = results[one]
            if error is not None:
                note(f"kohort: error: {error}")
            elif not as_json:
                say(f"deleted the offset of {name} for {one}: it was {_offset(committed.get(one))}")
        return FAILED if any(results.values()) else OK

    talk(where, command)


def _offset(committed: CommittedOffset | None) -> object:
    return "none" if committed is None else committed.offset


def _committed_in(
    group: str, wanted: list[TopicParts], committed: dict[TopicPartition, CommittedOffset]
) -> list[TopicPartition]:
    """The partitions that are named, or all of a topic that have an offset."""
    chosen: dict[TopicPartition, None] = {}
    for parts in wanted:
        found = parts.named() or [one for one in sorted(committed) if one.topic == parts.topic]
        if not found:
            topics = sorted({one.topic for one in committed})
            raise KohortError(
                f"group {group!r} has no offsets for topic {parts.topic!r}",
                hint=f"it has them for {', '.join(topics)}" if topics else "it has committed nothing",
            )
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def _deleted_json(
    one: TopicPartition, committed: dict[TopicPartition, CommittedOffset], error: BrokerError | None
) -> dict[str, object]:
    was = committed.get(one)
    return {
        "topic": one.topic,
        "partition": one.partition,
        "offset": None if was is None else was.offset,
        "deleted": error is None,
        "error": None if error is None else error.name,
    }
