"""The references of the command line and of the Python API, as text made from the code."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, get_type_hints

from typer._click import Context  # Typer brings its own Click
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_command

import kohort
import kohort.testing
from kohort.cli.app import command_line, flowing
from kohort.cli.plain_help import plain_type
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.producer.settings import ProducerSettings
from kohort.client.settings import ClientOptions
from kohort.testing import intercept

# --- commands --------------------------------------------------------------------------------------

_CLI = """\
`kohort COMMAND --help` shows the same at a terminal. Commands that talk to a cluster take the address from
`--bootstrap` or the variable `KOHORT_BOOTSTRAP`. Exit codes: 0 done, 1 failed, 2 the command cannot be
understood, 3 Spark or Java is missing, 130 after Ctrl-C.
"""


def cli() -> str:
    """Every command with its arguments and options."""
    root = get_command(command_line())
    return "\n".join(
        [_CLI, *(line for path, one in _commands("kohort", root) for line in _command(path, one))]
    )


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 (Typer's class has moved before)
    if isinstance(command, TyperGroup):
        if command.invoke_without_command and path != "kohort":
            yield path, command  # it does something by itself, too
        for name in command.list_commands(Context(command)):
            yield from _commands(f"{path} {name}", command.commands[name])
    else:
        yield path, command


def _command(path: str, command: Any) -> Iterator[str]:  # noqa: ANN401 (same)
    context = Context(command)
    params = command.get_params(context)
    arguments = [one for one in params if isinstance(one, TyperArgument)]
    shown = " ".join(
        f"{one.metavar or one.name.upper()}{'…' if one.nargs == -1 else ''}" for one in arguments
    )
    yield f"## {path}"
    yield _prose(command.help)
    yield ""
    rows = [(f"`{one.metavar or one.name.upper()}`", _prose(one.help)) for one in arguments]
    rows += [_option(one, context) for one in params if isinstance(one, TyperOption) and one.name != "help"]
    yield f"```text\n{path} [OPTIONS]{' ' + shown if shown else ''}\n```"
    if rows:
        yield "| option | meaning |"
        yield "|---|---|"
        yield from (f"| {name} | {_cell(meaning)} |" for name, meaning in rows)
    yield ""


def _option(option: TyperOption, context: Context) -> tuple[str, str]:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    takes = "" if option.is_flag else f" `{option.metavar or plain_type(option.display_type(context))}`"
    default = option.default
    if isinstance(default, Enum):
        default = default.value
    has_default_text = (
        option.is_flag or default in (None, "", ()) or isinstance(default, (list, tuple)) or default == -1
    )
    return f"{names}{takes}", _prose(option.help) + ("" if has_default_text else f" Default: `{default}`.")


def _prose(text: str | None) -> str:
    return flowing(inspect.cleandoc(text or ""))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# --- Python ----------------------------------------------------------------------------------------

_API = """\
The public names of `kohort` and `kohort.testing`. `Consumer`, `Producer` and `Admin` are for plain programs;
`AsyncConsumer`, `AsyncProducer` and `AsyncAdmin` have the same methods as coroutines. The settings of
consumers and producers are keyword arguments: Kafka's names with underscores.
"""


def python_api() -> str:
    """Every public class with its public methods, and every setting with its default."""
    lines = [_API]
    classes = [getattr(kohort, name) for name in kohort.__all__]
    for one in classes:
        if not issubclass(one, BaseException):
            lines += _class(one)
    lines += ["## Errors", "", "| error | raised when |", "|---|---|"]
    lines += [
        f"| `{one.__name__}` | {_cell(_first(one))} |" for one in classes if issubclass(one, BaseException)
    ]
    lines += ["", "## Settings", ""]
    for title, declared in (
        ("Consumer", ConsumerSettings),
        ("Producer", ProducerSettings),
        ("Admin", ClientOptions),
    ):
        lines += [f"### {title}", "| setting | default |", "|---|---|", *_settings(declared), ""]
    lines += ["## kohort.testing", ""]
    for name in kohort.testing.__all__:
        lines += _class(getattr(kohort.testing, name))
    lines += ["### Actions of kohort.testing.intercept", "| action | does |", "|---|---|"]
    actions = ("watch", "delay", "answer", "corrupt", "cut_off", "cut_off_after", "swallow")
    lines += [f"| `{name}` | {_cell(_first(getattr(intercept, name)))} |" for name in actions]
    return "\n".join([*lines, ""])


def _class(one: type) -> list[str]:
    lines = [f"## {one.__name__}", _paragraphs(inspect.getdoc(one)), ""]
    methods = [
        (name, found)
        for name in dir(one)
        if not name.startswith("_") and (found := inspect.getattr_static(one, name)) is not None
    ]
    rows = [row for name, found in methods if (row := _method(name, found)) is not None]
    return [*lines, "| name | what it does |", "|---|---|", *rows, ""] if rows else lines


def _method(name: str, found: object) -> str | None:
    if isinstance(found, property):
        return f"| `{name}` | {_cell(_first(found.fget))} |"
    function = getattr(found, "__func__", found)
    if not inspect.isfunction(function):
        return None
    parameters = list(inspect.signature(function).parameters.values())
    parameters = parameters if isinstance(found, staticmethod) else parameters[1:]
    called = ", ".join(f"*{one.name}" if one.kind is one.VAR_POSITIONAL else one.name for one in parameters)
    return f"| `{name}({called})` | {_cell(_first(function))} |"


def _first(thing: object) -> str:
    return _paragraphs((inspect.getdoc(thing) or "").split("\n\n")[0])


def _paragraphs(text: str | None) -> str:
    return re.sub(r":\w+:`([^`]+)`", r"`\1`", flowing(text)).replace("``", "`")


def _settings(declared: type) -> Iterator[str]:
    if is_dataclass(declared):
        get_type_hints(declared)  # a name that does not exist fails here, not in front of a reader
        for one in fields(declared):
            default = (
                "required" if str(one.default).startswith("<dataclasses") else f"`{_shown(one.default)}`"
            )
            yield f"| `{one.name}` | {default} |"


def _shown(default: object) -> str:
    if isinstance(default, tuple) and default and isinstance(default[0], type):
        return ", ".join(one.__name__ for one in default)
    return re.sub(r" at 0x\w+", "", str(default)) or '""'
