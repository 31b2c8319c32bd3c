"""All commands, with help and completion. A new one is a row of ``_COMMANDS``."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from kohort import __version__
from kohort.cli.plain_help import PlainCommand, PlainGroup, PlainHelp
from kohort.cli.running import USAGE, report
from kohort.model.errors import KohortError

_RUN, _USE, _JOBS = "Run a broker", "Use a cluster", "Run jobs on Spark"


class _Command(NamedTuple):
    panel: str
    module: str
    attribute: str = "app"  # a Typer with commands of its own, or the function of a command


# In the order of the help.
_COMMANDS = {
    "up": _Command(_RUN, "kohort.cli.up.command", "up"),
    "serve": _Command(_RUN, "kohort.cli.serve.command", "command"),
    "data": _Command(_RUN, "kohort.cli.data"),
    "certs": _Command(_RUN, "kohort.cli.certs"),
    "topics": _Command(_USE, "kohort.cli.topics"),
    "groups": _Command(_USE, "kohort.cli.groups.commands"),
    "produce": _Command(_USE, "kohort.cli.records.produce", "produce"),
    "consume": _Command(_USE, "kohort.cli.records.consume", "consume"),
    "users": _Command(_USE, "kohort.cli.users"),
    "acls": _Command(_USE, "kohort.cli.acls"),
    "cluster": _Command(_USE, "kohort.cli.cluster"),
    "apis": _Command(_USE, "kohort.cli.brokers", "apis"),
    "pipeline": _Command(_JOBS, "kohort.cli.pipeline"),
    "lake": _Command(_JOBS, "kohort.cli.lake"),
    "spark": _Command(_JOBS, "kohort.cli.spark"),
}


_KAFKAS_NAMES = {"bootstrap-server": "bootstrap"}
"""How options are called by Kafka's tools; they are understood, too."""

_SLIP: type[Any] = typer.BadParameter.__mro__[1]  # Typer has had its UsageError in several modules


class InOrder(PlainHelp, TyperGroup):
    """Commands in the order of ``_COMMANDS``; a usage error is one line, like any other error."""

    def make_context(self, *args: Any, **more: Any) -> Any:  # noqa: ANN401 - as Typer declares it
        with _in_one_line():
            return super().make_context(*args, **more)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as Typer declares it
        with _in_one_line():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - Typer's class for it has moved before
        return sorted(super().list_commands(ctx), key=tuple(_COMMANDS).index)


@contextmanager
def _in_one_line() -> Iterator[None]:
    try:
        yield
    except _SLIP as error:
        if error.ctx is None or type(error).__name__ == "NoArgsIsHelpError":  # it shows the help
            raise
        hint = f"`{error.ctx.command_path} --help` shows the usage"
        variable = getattr(getattr(error, "param", None), "envvar", None)
        if variable and type(error).__name__ == "MissingParameter":
            hint = f"or set {variable}; {hint}"
        raise typer.Exit(report(KohortError(error.format_message().rstrip("."), hint=hint), USAGE)) from None


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"kohort {__version__}")
        raise typer.Exit


def about(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Kafka's consumer-group system in Python: a broker, its tools, and a client for any Kafka cluster."""


def command_line(names: Iterable[str] = _COMMANDS) -> typer.Typer:
    """The program with these commands; what the others need is not imported."""
    app = typer.Typer(
        name="kohort",
        cls=InOrder,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["--help", "-h"],
            "token_normalize_func": lambda name: _KAFKAS_NAMES.get(name, name),
        },
    )
    app.callback()(about)
    for name in names:
        panel, module, attribute = _COMMANDS[name]
        command = getattr(import_module(module), attribute)
        if isinstance(command, typer.Typer):
            for below in command.registered_commands:
                below.help = below.help or flowing(below.callback.__doc__)
                below.cls = PlainCommand if below.cls in (None, TyperCommand) else below.cls
            app.add_typer(command, name=name, rich_help_panel=panel, cls=PlainGroup)
        else:
            app.command(
                name,
                help=flowing(command.__doc__),
                epilog=getattr(command, "examples", None),
                rich_help_panel=panel,
                cls=PlainCommand,
            )(command)
    return app


def flowing(docstring: str | None) -> str:
    """Paragraphs without the line breaks of the source: the terminal has a width of its own."""
    return "\n\n".join(" ".join(part.split()) for part in (docstring or "").split("\n\n"))


def run() -> None:
    """A command that is named first is all that has to be there; help, completion and slips need all."""
    named = [name for name in sys.argv[1:2] if name in _COMMANDS]
    command_line(named or _COMMANDS)()
