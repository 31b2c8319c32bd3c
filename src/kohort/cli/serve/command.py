"""``kohort serve`` as a command of the framework: for help and completion.

To run a broker, ``main`` goes straight to :mod:`kohort.cli.serve.run`: the framework takes long to load.
"""

import inspect
from typing import Annotated

import typer

from kohort.cli.serve.options import DESCRIPTION, EXAMPLES, OPTIONS, ServeOption
from kohort.cli.serve.run import serve


def command(**given: object) -> None:
    arguments: list[str] = []
    for option in OPTIONS:
        value = given[option.attribute]
        if value == _default(option):
            continue
        if option.flag:
            arguments.append(option.name)
        elif isinstance(value, list):
            arguments += [part for item in value for part in (option.name, str(item))]
        else:
            arguments += [option.name, str(value)]
    raise typer.Exit(serve(arguments))


def _default(option: ServeOption) -> object:
    if option.flag:
        return False
    if option.default is None:
        return None
    return [str(option.default)] if option.repeated else str(option.default)


def _choices(option: ServeOption) -> str:
    return f" One of {', '.join(option.choices)}." if option.choices else ""


def _parameter(option: ServeOption) -> inspect.Parameter:
    """An option of ``serve`` as Typer understands it."""
    kind: object = bool if option.flag else list[str] | None if option.repeated else str | None
    info = typer.Option(
        option.name,
        metavar=option.metavar or None,
        help=f"{option.help}{_choices(option)}",
        show_default=not option.flag,
        autocompletion=(lambda: list(option.choices)) if option.choices else None,
    )
    return inspect.Parameter(
        option.attribute,
        inspect.Parameter.KEYWORD_ONLY,
        default=_default(option),
        annotation=Annotated[kind, info],
    )


command.__doc__ = f"{DESCRIPTION}\n\nSIGTERM and Ctrl-C stop it cleanly; a second one stops it at once."
command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # made from the table
    [_parameter(option) for option in OPTIONS]
)
command.__annotations__ = {}
command.examples = EXAMPLES.replace("\n", "\n\n")  # type: ignore[attr-defined]  # Typer joins single lines
