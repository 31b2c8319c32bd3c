"""``--command-config FILE``: settings of the client from a file, as Kafka's own tools take them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated

import typer

from kohort.cli.screen import note
from kohort.cli.settings_text import InputError, SettingsClass
from kohort.client.security.names import is_secret_name, is_security_name
from kohort.client.settings import ClientOptions, secured
from kohort.security.secret import Secret

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="KOHORT_COMMAND_CONFIG",
        help="Settings of the client, NAME=VALUE in each line, as for Kafka's tools.",
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        "-X",
        metavar="NAME=VALUE",
        help="A setting of the client, such as security.protocol=SSL; may be repeated.",
    ),
]

# Kafka's name of a setting, and the field of ClientOptions for it.
_NUMBERS = {
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "api_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
}
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def client_options(
    file: Path | None, defaults: ClientOptions, properties: Sequence[str] | None = None
) -> ClientOptions:
    """``defaults`` with what the file and ``-X`` say, which wins. Raises InputError or SettingError.

    Names what has no effect on standard error.
    """
    settings = _given(file, properties)
    if not settings:
        return defaults
    where = "-X" if file is None else f"--command-config {file}"
    settings.pop("bootstrap.servers", None)  # --bootstrap says it
    security = {name: settings.pop(name) for name in tuple(settings) if is_security_name(name)}
    numbers = {
        _NUMBERS[name]: _number(where, name, settings.pop(name)) for name in _NUMBERS & settings.keys()
    }
    client_id = settings.pop("client.id", defaults.client_id)
    options = replace(defaults, client_id=client_id, **numbers)  # type: ignore[arg-type]  # numbers only
    _note_unused(where, settings)
    return secured(options, security, is_text=True)


def security_properties(file: Path | None, properties: Sequence[str] | None) -> dict[str, str]:
    """Only the security settings, by the names they were given by. Raises InputError."""
    settings = _given(file, properties)
    security = {name: settings.pop(name) for name in tuple(settings) if is_security_name(name)}
    _note_unused("-X" if file is None else f"--command-config {file}", settings)
    return security


def _given(file: Path | None, properties: Sequence[str] | None) -> dict[str, str]:
    """What the file says, and what ``-X`` says instead."""
    warn_of_visible_secrets(properties or ())
    return (read_properties(file) if file is not None else {}) | dict(map(_split, properties or ()))


def settings_texts(file: Path | None, known: type[SettingsClass]) -> list[str]:
    """Settings of a consumer or producer in the file, each as ``NAME=VALUE``. Raises InputError."""
    if file is None:
        return []
    names = {each.name.replace("_", ".") for each in fields(known)} - {"bootstrap.servers"}
    settings = read_properties(file)
    settings.pop("bootstrap.servers", None)
    used = {name: value for name, value in settings.items() if name in names or is_security_name(name)}
    _note_unused(f"--command-config {file}", settings.keys() - used.keys())
    return [f"{name}={value}" for name, value in used.items()]


def warn_of_visible_secrets(properties: Iterable[str]) -> None:
    """Name each secret of the command line that the list of processes shows."""
    for text in properties:
        name, _, value = text.partition("=")
        if is_secret_name(name.strip()) and Secret.parse(value.strip()).is_literal:
            note(f"-X {name.strip()}: other users can see it in the list of processes; use @FILE or env:NAME")


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise InputError(f"-X {name!r} is not NAME=VALUE", hint="for example -X security.protocol=SSL")
    return name.strip(), value.strip()


def _note_unused(where: str, names: Iterable[str]) -> None:
    if unused := ", ".join(sorted(names)):
        note(f"{where}: without effect here: {unused}")


def _number(where: str, name: str, text: str) -> int:
    if not text.isdecimal():
        raise InputError(f"{where}: {name} is a number of milliseconds, not {text!r}")
    return int(text)


def read_properties(file: Path) -> dict[str, str]:
    """A file in the format of Java's properties. Raises InputError."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"--command-config {file}: cannot read it: {reason}") from None
    settings = {}
    for line in _logical_lines(text):
        found = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", line, re.DOTALL)
        if found is not None:
            settings[_unescaped(found[1])] = _unescaped(found[2])
    return settings


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments; one that ends with a backslash goes on in the next."""
    begun = ""
    for line in text.splitlines():
        line = begun + line.lstrip()
        begun = ""
        if not line or line.startswith(("#", "!")):
            continue
        if re.search(r"(?<!\\)(?:\\\\)*\\$", line):
            begun = line[:-1]
        else:
            yield line
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    return re.sub(
        r"\\(?:u([0-9a-fA-F]{4})|(.))",
        lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPES.get(found[2], found[2]),
        text,
    ).rstrip()
