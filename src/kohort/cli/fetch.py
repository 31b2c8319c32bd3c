"""``kohort fetch``: what ``kohort consume`` was called before it knew groups."""

from typing import Annotated

import typer

from kohort.cli.consume import consume
from kohort.cli.session import DEFAULT_BOOTSTRAP, Bootstrap


def fetch(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.")],
    limit: Annotated[
        int | None, typer.Option("--max", "-m", metavar="N", min=1, help="Stop after this many records.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Go on with what comes later.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """The same as `kohort consume --until-end`."""
    consume([topic], limit=limit, until_end=not follow, bootstrap=bootstrap)
