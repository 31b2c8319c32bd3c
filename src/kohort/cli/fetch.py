"""``kohort fetch``: records become lines."""

import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from kohort.cli.record_text import Format, parse_start, raw_value, record_json, record_line
from kohort.cli.screen import note, say, show_json_line
from kohort.cli.serve import OK
from kohort.cli.session import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, refuse, talk
from kohort.client.admin import Admin
from kohort.client.fetch import Fetched, StartAt, plan, read
from kohort.model.errors import KohortError


def fetch(  # noqa: PLR0913 - each parameter is an option
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.")],
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Which partition; may be repeated. All if not given."),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="earliest, latest, an offset, -N for the last N of each partition, a time such as "
            "2026-01-31T12:00, or @ and milliseconds since 1970.",
        ),
    ] = "earliest",
    limit: Annotated[
        int | None, typer.Option("--max", "-m", metavar="N", min=1, help="Stop after this many records.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Go on with what comes later.")] = False,
    format_: Annotated[
        Format, typer.Option("--format", "-f", help="How keys and values are shown.")
    ] = Format.TEXT,
    values_only: Annotated[
        bool, typer.Option("--values-only", "-q", help="Print the values and nothing else, as they are.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Read records from a topic, without a group: nothing is committed."""
    where = _where(start)
    view = _View(topic, format_, as_json, values_only)

    async def command(admin: Admin) -> int:
        progress = await plan(admin.cluster, topic, partition, where)
        left = limit
        async for records in read(admin.cluster, topic, progress, follow=follow):
            view.show(records if left is None else records[:left])
            if left is not None:
                left -= len(records)
                if left <= 0:
                    break
        if not view.shown and not as_json and sys.stdout.isatty():
            note("no records there; --from earliest starts at the beginning")
        return OK

    talk(bootstrap, command)


def _where(text: str) -> StartAt:
    try:
        return parse_start(text)
    except KohortError as error:
        raise refuse(str(error.args[0]), error.hint) from None


class _View:
    """Prints records as the options say, and counts them."""

    def __init__(self, topic: str, style: Format, as_json: bool, values_only: bool) -> None:
        self.shown = 0
        self._topic = topic
        self._style = style
        self._as_json = as_json
        self._values_only = values_only

    def show(self, records: Iterable[Fetched]) -> None:
        for one in records:
            self.shown += 1
            if self._as_json:
                show_json_line(record_json(self._topic, one, self._style))
            elif self._values_only:
                sys.stdout.buffer.write(raw_value(one.record.value, self._style) + b"\n")
            else:
                say(record_line(one, self._style))
        sys.stdout.flush()
