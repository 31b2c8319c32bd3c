"""``--command-config FILE``: settings of the client from a file, as Kafka's own tools take them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated

import typer

from kohort.cli.screen import note
from kohort.cli.settings_text import InputError, SettingsClass
from kohort.client.settings import ClientOptions

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="Settings of the client, NAME=VALUE in each line, as for Kafka's tools.",
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


def client_options(file: Path | None, defaults: ClientOptions) -> ClientOptions:
    """``defaults`` with what the file says. Raises InputError; names what has no effect on standard error."""
    if file is None:
        return defaults
    settings = without_security(file, read_properties(file))
    settings.pop("bootstrap.servers", None)  # --bootstrap says it
    numbers = {_NUMBERS[name]: _number(file, name, settings.pop(name)) for name in _NUMBERS & settings.keys()}
    options = replace(defaults, client_id=settings.pop("client.id", defaults.client_id), **numbers)
    _note_unused(file, settings)
    return options


def settings_texts(file: Path | None, known: type[SettingsClass]) -> list[str]:
    """Settings of a consumer or producer in the file, each as ``NAME=VALUE``. Raises InputError."""
    if file is None:
        return []
    names = {each.name.replace("_", ".") for each in fields(known)} - {"bootstrap.servers"}
    settings = without_security(file, read_properties(file))
    settings.pop("bootstrap.servers", None)
    _note_unused(file, settings.keys() - names)
    return [f"{name}={value}" for name, value in settings.items() if name in names]


def _note_unused(file: Path, names: Iterable[str]) -> None:
    if unused := ", ".join(sorted(names)):
        note(f"--command-config {file}: without effect here: {unused}")


def without_security(file: Path, settings: dict[str, str]) -> dict[str, str]:
    """The settings but ``security.protocol=PLAINTEXT``. Any other security is refused: nothing goes out in
    the clear by mistake."""
    rest = dict(settings)
    protocol = rest.pop("security.protocol", "PLAINTEXT")
    secured = sorted(name for name in rest if name.startswith(("ssl.", "sasl.")))
    if protocol.upper() != "PLAINTEXT":
        secured.insert(0, f"security.protocol={protocol}")
    if secured:
        raise InputError(
            f"--command-config {file}: {secured[0]}: Kohort's clients do not speak TLS or SASL yet",
            hint="use a listener with security.protocol=PLAINTEXT and remove the settings of ssl and sasl",
        )
    return rest


def _number(file: Path, name: str, text: str) -> int:
    if not text.isdecimal():
        raise InputError(f"--command-config {file}: {name} is a number of milliseconds, not {text!r}")
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
