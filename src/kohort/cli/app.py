"""All commands, with help and completion. A new one is a line at the end and a name in ``_ORDER``."""

import inspect
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kohort import __version__
from kohort.cli import brokers, consume, groups, pipeline, produce, spark, topics, up
from kohort.cli.serve import serve
from kohort.cli.serve_options import DESCRIPTION, OPTIONS, Option


class InOrder(TyperGroup):
    """Commands in the order of ``_ORDER``, whether or not they have subcommands."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - Typer's class for it has moved before
        return sorted(super().list_commands(ctx), key=_ORDER.index)


# First what runs a broker, then what uses one, then what runs on Spark.
_ORDER = (
    "up",
    "serve",
    "topics",
    "groups",
    "produce",
    "consume",
    "cluster",
    "apis",
    "pipeline",
    "spark",
)

app = typer.Typer(
    name="kohort",
    cls=InOrder,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Kafka's consumer-group system in Python: a broker, its tools, and a client for any Kafka cluster.",
)


def run() -> None:
    app()


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"kohort {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Kafka's consumer-group system in Python: a broker, its tools, and a client for any Kafka cluster."""


def _serve_from_here(**given: object) -> None:
    """Reached only when ``serve`` was not the first argument; otherwise ``main`` goes there directly."""
    arguments: list[str] = []
    for option in OPTIONS:
        value = given[option.attribute]
        if isinstance(value, list):
            arguments += [part for item in value for part in (option.name, str(item))]
        elif value is True:
            arguments.append(option.name)
        elif value not in (None, False):
            arguments += [option.name, str(value)]
    raise typer.Exit(serve(arguments))


def _parameter(option: Option) -> inspect.Parameter:
    """An option of ``serve`` as Typer understands it: for help and completion only."""
    kind: object = bool if option.flag else list[str] | None if option.repeated else str | None
    info = typer.Option(
        option.name,
        metavar=option.metavar or None,
        help=option.help,
        autocompletion=(lambda: list(option.choices)) if option.choices else None,
    )
    return inspect.Parameter(
        option.attribute,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if option.flag else None,
        annotation=Annotated[kind, info],
    )


_serve_from_here.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # made from the table
    [_parameter(option) for option in OPTIONS]
)
_serve_from_here.__annotations__ = {}

_RUN, _USE, _JOBS = "Run a broker", "Use a cluster", "Run jobs on Spark"
app.command("up", rich_help_panel=_RUN)(up.up)
app.command("serve", help=DESCRIPTION, rich_help_panel=_RUN)(_serve_from_here)
app.add_typer(topics.app, name="topics", rich_help_panel=_USE)
app.add_typer(groups.app, name="groups", rich_help_panel=_USE)
app.command("produce", rich_help_panel=_USE)(produce.produce)
app.command("consume", rich_help_panel=_USE)(consume.consume)
app.command("cluster", rich_help_panel=_USE)(brokers.cluster)
app.command("apis", rich_help_panel=_USE)(brokers.apis)
app.add_typer(pipeline.app, name="pipeline", rich_help_panel=_JOBS)
app.add_typer(spark.app, name="spark", rich_help_panel=_JOBS)
