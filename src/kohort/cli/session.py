"""What all commands that talk to a broker share: their options, one loop, errors in one line."""

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

from kohort.cli.command_config import CommandConfig, Properties, client_options
from kohort.cli.running import FAILED, OK, USAGE, report
from kohort.cli.screen import say, show_json, stop_printing
from kohort.client.addresses import AddressError
from kohort.client.admin import AsyncAdmin
from kohort.client.errors import BrokerError, NoBrokerError
from kohort.client.settings import ClientOptions, secured
from kohort.model.errors import KohortError

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
INTERRUPTED = 130

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar="KOHORT_BOOTSTRAP",
        help="Where the cluster is; several addresses with commas.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No notes and no progress on standard error.")]

# A person is waiting: give up sooner than a service would.
PATIENCE = ClientOptions(client_id="kohort-cli", connect_timeout_ms=5_000, api_timeout_ms=10_000)

_Name = TypeVar("_Name", bound=str)
Command = Callable[[AsyncAdmin], Coroutine[None, None, int]]


class ClusterOptions(NamedTuple):
    """Which cluster a command talks to, and with which settings."""

    bootstrap: str
    config: Path | None = None
    properties: Sequence[str] | None = None

    def __repr__(self) -> str:
        return f"ClusterOptions({self.bootstrap!r})"  # a property may be a password


_OPTIONS = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    for name, default, annotation in (
        ("bootstrap", DEFAULT_BOOTSTRAP, Bootstrap),
        ("command_config", None, CommandConfig),
        ("properties", None, Properties),
    )
]


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command --bootstrap, --command-config and -X; they are its first argument."""

    @wraps(command)
    def with_options(
        bootstrap: str,
        command_config: Path | None,
        properties: list[str] | None,
        **own: Any,  # noqa: ANN401 - what the command takes
    ) -> None:
        command(ClusterOptions(bootstrap, command_config, properties), **own)

    _, *own = inspect.signature(command).parameters.values()
    before_json = next((at for at, one in enumerate(own) if one.name == "as_json"), len(own))
    parameters = [*own[:before_json], *_OPTIONS, *own[before_json:]]  # in the order of the help
    with_options.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # as Typer reads it
        [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    )
    with_options.__annotations__ = {}
    return with_options


def talk(where: ClusterOptions, command: Command, *, security: Mapping[str, object] | None = None) -> None:
    """Run a command with an AsyncAdmin of this cluster; exit with its code.

    ``security`` has settings that were parsed before.
    """
    try:
        options = client_options(where.config, PATIENCE, where.properties)
        options = secured(options, security or {}, is_text=False)
    except KohortError as error:
        raise refuse(str(error.args[0]), error.hint) from None

    async def connected() -> int:
        async with AsyncAdmin(where.bootstrap, options) as admin:
            return await command(admin)

    raise typer.Exit(run_command(connected))


def run_command(start: Callable[[], Coroutine[None, None, int]]) -> int:
    """The exit code of a command: its own, or what its failure stands for."""
    try:
        code = asyncio.run(start())
        sys.stdout.flush()
    except NoBrokerError as error:
        hint = "start one with `kohort up`, or pass --bootstrap"
        return report(KohortError(str(error.args[0]), hint=hint), FAILED)
    except AddressError as error:
        return report(KohortError(f"--bootstrap: {error.args[0]}", hint=error.hint), USAGE)
    except KohortError as error:
        return report(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        stop_printing()
        return OK
    return code


def confirm(question: str, *, given: bool) -> None:
    """Ask who sits at a terminal, unless the consent is given; any answer but yes ends the command."""
    if not given and sys.stdin.isatty():
        typer.confirm(question, abort=True)


def show_deleted(kind: str, results: Mapping[_Name, BrokerError | None], as_json: bool) -> None:
    """What is gone now; in JSON also what is not, and why."""
    if as_json:
        show_json(
            [
                {kind: name, "deleted": error is None, "error": None if error is None else error.name}
                for name, error in results.items()
            ]
        )
        return
    for name, error in results.items():
        if error is None:
            say(f"deleted {kind} {name}")


def nothing_listed(admin: AsyncAdmin, things: str, hint: str = "") -> str:
    """What an empty list says. A secured broker leaves out what its user may not see, without a word."""
    if admin.cluster.options.security is None:
        return f"no {things}{hint}"
    return f"no {things} that this user may describe"


def refuse(message: str, hint: str = "") -> typer.Exit:
    """To be raised: the command cannot be carried out as it was given."""
    return typer.Exit(report(KohortError(message, hint=hint), USAGE))
