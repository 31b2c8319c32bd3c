"""``kohort consume``: records become lines."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from kohort.cli.command_config import CommandConfig, settings_texts, warn_of_visible_secrets
from kohort.cli.commentary import Commentary
from kohort.cli.records.consume_from import GROUP, StartAt, parse_place
from kohort.cli.records.consuming import ConsumeRequest, Consuming
from kohort.cli.records.record_text import Output, RecordStyle, record_lines
from kohort.cli.running import OK
from kohort.cli.screen import is_terminal
from kohort.cli.session import DEFAULT_BOOTSTRAP, PATIENCE, AsJson, Bootstrap, Quiet, refuse, run_command
from kohort.cli.settings_text import InputError, parse_settings
from kohort.client.admin.topics import OffsetSpec
from kohort.client.consumer import AsyncConsumer
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.fetching.chunk import ConsumerRecord
from kohort.model.errors import KohortError

_WHERE = (
    "beginning, end, an offset, -N for N before the end, a time such as 2026-01-31T12:00, "
    "or @ and milliseconds since 1970"
)
_BEGINNING, _END = StartAt(OffsetSpec.EARLIEST), StartAt(OffsetSpec.LATEST)
_METADATA_MS = 300_000
_NEW_TOPICS_MS = 10_000  # a person who waits for topics to match wants to see them soon


class Isolation(StrEnum):
    """Which records of transactions are shown."""

    UNCOMMITTED = "read_uncommitted"
    COMMITTED = "read_committed"


class AssignorName(StrEnum):
    """The assignors Kohort has, by Kafka's names."""

    RANGE = "range"
    ROUNDROBIN = "roundrobin"
    STICKY = "sticky"
    COOPERATIVE_STICKY = "cooperative-sticky"


_READ, _JOIN, _PRINT = "Where and how much", "As a member of a group", "What is printed"


def consume(
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="What to read.")] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            metavar="REGEX",
            help="Read the topics whose whole name matches, instead of naming them.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WHERE",
            help=f"Start at {_WHERE}; in a group also `group`, where it has committed, which is its default.",
            rich_help_panel=_READ,
        ),
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="WHERE", help="Stop there, or where the topic ends now.", rich_help_panel=_READ
        ),
    ] = None,
    until_end: Annotated[
        bool,
        typer.Option(
            "--until-end", "-e", help="Stop where the topic ends now: --to end.", rich_help_panel=_READ
        ),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--max", "-m", metavar="N", min=1, help="Stop after this many records.", rich_help_panel=_READ
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            "-t",
            metavar="SECONDS",
            min=0.001,
            help="Stop when no record has come for this long.",
            rich_help_panel=_READ,
        ),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition",
            "-p",
            min=0,
            help="Read this partition; may be repeated. With --group its offsets are used without joining.",
            rich_help_panel=_READ,
        ),
    ] = None,
    isolation: Annotated[
        Isolation | None,
        typer.Option(
            "--isolation",
            metavar="LEVEL",
            help="With read_committed, leave out what open or aborted transactions wrote;"
            " read_uncommitted is the default.",
            rich_help_panel=_READ,
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", metavar="ID", help="Join this group.", rich_help_panel=_JOIN),
    ] = None,
    commit: Annotated[
        bool,
        typer.Option(
            "--commit/--no-commit", help="Commit what was printed to the group.", rich_help_panel=_JOIN
        ),
    ] = True,
    instance: Annotated[
        str | None,
        typer.Option(
            "--instance", metavar="ID", help="Be a static member of this name.", rich_help_panel=_JOIN
        ),
    ] = None,
    assignor: Annotated[
        list[AssignorName] | None,
        typer.Option(
            "--assignor",
            metavar="NAME",
            help="How partitions are shared out: range, roundrobin, sticky or cooperative-sticky;"
            " may be repeated.",
            rich_help_panel=_JOIN,
        ),
    ] = None,
    format_: Annotated[
        Output,
        typer.Option(
            "--format",
            "-f",
            help="A line of text, a JSON object, text with everything in hexadecimal, or the bare value.",
            rich_help_panel=_PRINT,
        ),
    ] = Output.TEXT,
    as_json: AsJson = False,
    quiet: Quiet = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--property", "-X", metavar="NAME=VALUE", help="Any other setting of a consumer; may be repeated."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Read records and print them, until Ctrl-C or as far as the options say.

    Without a group it starts at the beginning, and nothing is committed. With --group it is a member: it
    shares the partitions with the others, starts where the group is, commits what it has printed, and
    leaves when it stops.
    """
    try:
        wish = ConsumeRequest(
            topics=tuple(topics or ()),
            pattern=_check_topics(topics, pattern),
            partitions=None if partition is None else tuple(partition),
            group=group,
            commits=commit,
            start=_start(start, group),
            stop=_stop(stop, until_end),
            limit=limit,
            idle_seconds=timeout,
        )
        _needs_group("--instance", instance, group)
        _needs_group("--assignor", assignor, group)
        warn_of_visible_secrets(settings or ())
        texts = [*settings_texts(command_config, ConsumerSettings), *(settings or ())]
        chosen = _settings(wish, bootstrap, texts)
        if instance is not None:
            chosen["group_instance_id"] = instance
        if assignor and chosen.get("group_protocol") == "consumer":
            chosen["group_remote_assignor"] = assignor[0].value
        elif assignor:
            chosen["partition_assignment_strategy"] = [each.value for each in assignor]
        if isolation is not None:
            chosen["isolation_level"] = isolation.value
        consumer = AsyncConsumer(**chosen)
    except KohortError as error:
        raise refuse(str(error.args[0]), error.hint) from None
    several = len(wish.topics) != 1
    look = RecordStyle(
        format_, as_json, with_topic=several, in_colour=is_terminal() and "NO_COLOR" not in os.environ
    )
    commentary = Commentary("reading", quiet=quiet, draws=not is_terminal())
    raise typer.Exit(run_command(lambda: _run(consumer, wish, look, commentary)))


async def _run(
    consumer: AsyncConsumer, wish: ConsumeRequest, look: RecordStyle, commentary: Commentary
) -> int:
    consuming = Consuming(consumer, wish, lambda records: _print(records, look), commentary)
    stop = _Termination()
    try:
        with commentary:
            await consuming.run()
    except asyncio.CancelledError:
        commentary.note(commentary.total())
        if not stop.was_asked:
            raise  # Ctrl-C, which asyncio turns into what it is
        return 128 + signal.SIGTERM
    finally:
        stop.forget()
    commentary.note(commentary.total())
    if not commentary.records and wish.start is None:
        commentary.note("nothing is left for this group; --from beginning reads again from there")
    return OK


class _Termination:
    """SIGTERM cancels the task that made this, so that the group is left in good order."""

    def __init__(self) -> None:
        self.was_asked = False
        self._task = asyncio.current_task()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop)

    def _stop(self) -> None:
        self.was_asked = True
        if self._task is not None:
            self._task.cancel()

    def forget(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)


def _print(records: list[ConsumerRecord], look: RecordStyle) -> int:
    sys.stdout.buffer.write(record_lines(records, look))
    sys.stdout.buffer.flush()
    return sum(len(record.key or b"") + len(record.value or b"") for record in records)


# What the options come to


def _check_topics(topics: Sequence[str] | None, pattern: str | None) -> str | None:
    if bool(topics) == (pattern is not None):
        raise InputError(
            "name topics or a --pattern, not both" if topics else "nothing to read",
            hint="`kohort consume TOPIC`; `kohort topics list` shows the topics",
        )
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise InputError(f"--pattern {pattern!r} is not a regular expression: {error}") from None
    return pattern


def _start(text: str | None, group: str | None) -> StartAt | None:
    if text is None:
        return _BEGINNING if group is None else None
    if text == GROUP:
        if group is None:
            raise InputError("--from group needs a --group", hint="name the group whose offsets are meant")
        return None
    return parse_place("--from", text)


def _stop(text: str | None, until_end: bool) -> StartAt | None:
    if text is not None and until_end:
        raise InputError("--until-end is --to end: give one of them")
    return _END if until_end else None if text is None else parse_place("--to", text)


def _needs_group(name: str, value: object, group: str | None) -> None:
    if value and group is None:
        raise InputError(f"{name} needs a --group", hint="without one nothing is joined")


def _settings(wish: ConsumeRequest, bootstrap: str, texts: Sequence[str]) -> dict[str, Any]:
    """Defaults for a person who waits, and the options that were given."""
    commits = None if wish.group is None else wish.commits
    defaults: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "allow_auto_create_topics": False,
        "default_api_timeout_ms": PATIENCE.api_timeout_ms,
        "metadata_max_age_ms": _NEW_TOPICS_MS if wish.pattern is not None else _METADATA_MS,
    }
    fixed = {"bootstrap_servers": bootstrap, "group_id": wish.group, "enable_auto_commit": commits}
    return defaults | parse_settings(texts, ConsumerSettings) | fixed
