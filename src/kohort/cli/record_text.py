"""Records as text: how lines of input become records, and records lines of output. No I/O."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from kohort.client.fetch import Fetched, StartAt
from kohort.client.offset_admin import OffsetSpec
from kohort.client.produce import Outgoing
from kohort.model.errors import KohortError
from kohort.records.batch import Header


class Format(StrEnum):
    """How keys and values are written and read."""

    TEXT = "text"
    JSON = "json"
    HEX = "hex"


class InputError(KohortError):
    """A line that is no record."""


class InputStyle(NamedTuple):
    """What the options say about every line of input."""

    format: Format = Format.TEXT
    key_separator: str | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None


# Input


def parse_record(line: str, style: InputStyle) -> Outgoing:
    """The record a line stands for; raises InputError."""
    if style.format is Format.JSON:
        return _parse_json(line, style)
    key, value = _split(line, style.key_separator)
    if style.format is Format.HEX:
        return Outgoing(_unhex(value), None if key is None else _unhex(key), style.headers, style.partition)
    return Outgoing(
        encode_text(value), None if key is None else encode_text(key), style.headers, style.partition
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
            f"there is no {separator!r} in {line!r}", hint="with --key-separator every line has a key"
        )
    return key, value


def _unhex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InputError(f"{text!r} is not hexadecimal", hint="--format text takes it as it is") from None


_JSON_HINT = '--format json takes objects such as {"key": "k", "value": "v", "headers": {"h": "x"}}'


def _parse_json(line: str, style: InputStyle) -> Outgoing:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{line!r} is not JSON: {error}", hint=_JSON_HINT) from None
    if not isinstance(fields, dict):
        raise InputError(f"{line!r} is no JSON object", hint=_JSON_HINT)
    headers = fields.get("headers") or {}
    pairs = headers.items() if isinstance(headers, dict) else [tuple(pair) for pair in headers]
    partition = fields.get("partition") if style.partition is None else style.partition
    return Outgoing(
        _from_json(fields.get("value")),
        _from_json(fields.get("key")),
        [*style.headers, *((str(name), _from_json(value)) for name, value in pairs)],
        _integer("partition", partition),
        _integer("timestamp", fields.get("timestamp")),
    )


def _from_json(value: object) -> bytes | None:
    """Strings as they are, null as null, everything else as compact JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return encode_text(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _integer(name: str, value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise InputError(f"the {name} {value!r} is no number", hint=_JSON_HINT)


def parse_header(text: str) -> Header:
    """``NAME=VALUE`` of the option; raises InputError."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InputError(f"--header {text!r} is not NAME=VALUE", hint="for example --header trace=42")
    return name, encode_text(value)


# Output


_CONTROL = {code: f"\\x{code:02x}" for code in [*range(32), *range(127, 160)]} | {
    10: "\\n",
    13: "\\r",
    9: "\t",
}


def show_value(value: bytes | None, style: Format) -> str:
    """Bytes on one line: what is no UTF-8, and what could upset a terminal, is escaped."""
    if value is None:
        return "null"
    if style is Format.HEX:
        return value.hex()
    return value.decode("utf-8", "backslashreplace").translate(_CONTROL)


def raw_value(value: bytes | None, style: Format) -> bytes:
    """The value for other programs: as it is, unless it is asked for in another form."""
    if value is None:
        return b"null"
    return value.hex().encode() if style is Format.HEX else value


def json_value(value: bytes | None, style: Format) -> object:
    """A key or value inside JSON output: parsed, hexadecimal, or as text."""
    if value is None:
        return None
    if style is Format.HEX:
        return value.hex()
    text = value.decode("utf-8", "backslashreplace")
    if style is Format.JSON:
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
    return text


def record_json(topic: str, fetched: Fetched, style: Format) -> dict[str, object]:
    record = fetched.record
    return {
        "topic": topic,
        "partition": fetched.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": json_value(record.key, style),
        "value": json_value(record.value, style),
        "headers": [[name, json_value(value, style)] for name, value in record.headers],
    }


def record_line(fetched: Fetched, style: Format) -> str:
    """``0:12  2026-01-31 12:00:00.000  key = value  {header=x}``; the key only if there is one."""
    record = fetched.record
    parts = [f"{fetched.partition}:{record.offset}", show_time(record.timestamp)]
    value = show_value(record.value, style)
    parts.append(value if record.key is None else f"{show_value(record.key, style)} = {value}")
    if record.headers:
        shown = ", ".join(f"{name}={show_value(value, style)}" for name, value in record.headers)
        parts.append(f"{{{shown}}}")
    return "  ".join(parts)


def show_time(timestamp: int) -> str:
    """Local time to the millisecond; "-" for none."""
    if timestamp < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp / 1_000)
    except (OverflowError, ValueError, OSError):
        return str(timestamp)  # a timestamp no calendar has
    return moment.isoformat(" ", "milliseconds")


# Where to start

_START_HINT = "say earliest, latest, an offset, -N for the last N, or a time such as 2026-01-31T12:00"


def parse_start(text: str) -> StartAt:
    """``earliest``, ``latest``, an offset, ``-N``, ``@MILLISECONDS`` or a time; raises InputError."""
    match text:
        case "earliest" | "beginning":
            return StartAt(OffsetSpec.EARLIEST)
        case "latest" | "end":
            return StartAt(OffsetSpec.LATEST)
    try:
        if text.startswith("@"):
            return StartAt(int(text[1:]))
        offset = int(text)
    except ValueError:
        return StartAt(_milliseconds(text))
    return StartAt(OffsetSpec.LATEST, offset) if offset < 0 else StartAt(None, offset)


def _milliseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--from {text!r} is no place to start", hint=_START_HINT) from None
    if moment.tzinfo is None:
        moment = moment.astimezone()  # without a zone it is the time on the wall here
    return round(moment.astimezone(UTC).timestamp() * 1_000)
