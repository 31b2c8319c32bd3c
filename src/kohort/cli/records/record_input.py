"""How lines of input become records. No I/O."""

import base64
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from kohort.cli.settings_text import InputError
from kohort.records.batch import Header


class Input(StrEnum):
    """What a line of input is."""

    TEXT = "text"
    JSON = "json"
    HEX = "hex"


class InputStyle(NamedTuple):
    """What the options say about every line of input."""

    format: Input = Input.TEXT
    key_separator: str | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    null: str | None = None  # what stands for no value, or no key


class InputRecord(NamedTuple):
    """A record to be written. Without a partition its key decides, without a timestamp the clock."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp: int | None = None


def parse_record(line: str, style: InputStyle) -> InputRecord:
    """The record a line stands for; raises InputError."""
    if style.format is Input.JSON:
        return _parse_json(line, style)
    key, value = _split(line, style.key_separator)
    encode = _unhex if style.format is Input.HEX else encode_text
    return InputRecord(
        None if value == style.null else encode(value),
        None if key is None or key == style.null else encode(key),
        style.headers,
        style.partition,
    )


def encode_text(text: str) -> bytes:
    """UTF-8; bytes of the input that were none come through as they were."""
    return text.encode("utf-8", "surrogateescape")


def _split(line: str, separator: str | None) -> tuple[str | None, str]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    if not found:
        raise InputError(
            f"there is no {separator!r} in {_short(line)}", hint="with --key-separator every line has a key"
        )
    return key, value


def _unhex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InputError(
            f"{_short(text)} is not hexadecimal", hint="--format text takes it as it is"
        ) from None


def _short(text: str) -> str:
    """Quoted, and cut: a line can be very long."""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


# JSON

_JSON_HINT = '--format json takes objects such as {"key": "k", "value": "v", "headers": {"h": "x"}}'


def _parse_json(line: str, style: InputStyle) -> InputRecord:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{_short(line)} is not JSON: {error}", hint=_JSON_HINT) from None
    if not isinstance(fields, dict):
        raise InputError(f"{_short(line)} is not a JSON object", hint=_JSON_HINT)
    partition = fields.get("partition") if style.partition is None else style.partition
    return InputRecord(
        _field("value", fields),
        _field("key", fields),
        [*style.headers, *_headers(fields.get("headers"))],
        _integer("partition", partition),
        _integer("timestamp", fields.get("timestamp")),
    )


def _field(name: str, fields: Mapping[str, object]) -> bytes | None:
    """``name``, ``name_hex`` or ``name_base64``: a string as it is, any other JSON value as compact JSON."""
    for suffix, decode in (("_hex", bytes.fromhex), ("_base64", _unbase64)):
        text = fields.get(name + suffix)
        if text is None:
            continue
        try:
            return decode(str(text))
        except ValueError:
            raise InputError(
                f"cannot read {_short(str(text))} as {name + suffix}", hint="without the suffix it is text"
            ) from None
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        return encode_text(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _unbase64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _headers(given: object) -> list[Header]:
    """A mapping, pairs, or objects with a name and a value, as ``kohort consume`` prints them."""
    pairs = given.items() if isinstance(given, dict) else given or ()
    if isinstance(pairs, str | bytes | int | float):
        raise InputError(f"cannot read the headers {given!r}", hint=_JSON_HINT)
    return [_header(each) for each in pairs]  # type: ignore[attr-defined]  # all else JSON has is a list


def _header(given: object) -> Header:
    match given:
        case {"name": str(name)} if isinstance(given, dict):
            return name, _field("value", given)
        case (str(name), value):
            return name, _field("value", {"value": value})
        case _:
            raise InputError(f"cannot read the header {given!r}", hint=_JSON_HINT)


def _integer(name: str, value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise InputError(f"the {name} {value!r} is not a number", hint=_JSON_HINT)


def parse_header(text: str) -> Header:
    """``NAME=VALUE`` of the option; raises InputError."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InputError(f"--header {text!r} is not NAME=VALUE", hint="for example --header trace=42")
    return name, encode_text(value)
