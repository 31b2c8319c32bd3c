"""``kohort serve`` as a command of the framework: for help, completion, and options before the name.

``main`` recognises ``serve`` as the first argument and goes to :mod:`kohort.cli.serve.run` without all this.
"""

import inspect
from typing import Annotated

import typer

from kohort.cli.serve.options import DESCRIPTION, OPTIONS, ServeOption
from kohort.cli.serve.run import serve


def command(**given: object) -> None:
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


def _parameter(option: ServeOption) -> inspect.Parameter:
    """An option of ``serve`` as Typer understands it."""
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


command.__doc__ = DESCRIPTION
command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # made from the table
    [_parameter(option) for option in OPTIONS]
)
command.__annotations__ = {}
