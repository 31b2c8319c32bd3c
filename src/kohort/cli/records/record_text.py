"""Records as lines of output, for people and for programs. No I/O."""

import json
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from kohort.client.fetching.chunk import ConsumerRecord


class Output(StrEnum):
    """What a line of output shows of a record."""

    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    VALUE = "value"


class RecordStyle(NamedTuple):
    """How records are printed: the options, and what is known of the screen."""

    output: Output = Output.TEXT
    in_json: bool = False
    with_topic: bool = False  # in front of the partition, when there are several
    in_colour: bool = False


_DIM, _BOLD, _PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[0m"
# What a terminal might obey, and bytes that were no UTF-8 (as "surrogateescape" keeps them).
_CONTROL = {
    code: f"\\x{code & 0xFF:02x}" for code in [*range(32), *range(127, 160), *range(0xDC80, 0xDD00)]
} | {
    10: "\\n",
    13: "\\r",
    9: "\t",
}


def record_lines(records: Iterable[ConsumerRecord], look: RecordStyle) -> bytes:
    """The records as they are written to standard output, a line each."""
    if look.in_json or look.output is Output.JSON:
        lines = [json_line(record_json(record, in_hex=look.output is Output.HEX)) for record in records]
    elif look.output is Output.VALUE:
        return b"".join(raw_value(record.value) + b"\n" for record in records)
    else:
        lines = [record_line(record, look) for record in records]
    return "".join(f"{line}\n" for line in lines).encode()


def show_value(value: bytes | None, *, in_hex: bool = False) -> str:
    """Bytes on one line: what is no UTF-8, and what could upset a terminal, is escaped."""
    if value is None:
        return "null"
    if in_hex:
        return value.hex()
    return value.decode("utf-8", "backslashreplace").translate(_CONTROL)


def raw_value(value: bytes | None) -> bytes:
    """The value for other programs, as it is."""
    return b"null" if value is None else value


def json_field(name: str, value: bytes | None, *, in_hex: bool) -> dict[str, str | None]:
    """A member of a JSON object: text under its name, and what is no text under ``<name>_hex``."""
    if value is None:
        return {name: None}
    if not in_hex:
        try:
            return {name: value.decode()}
        except UnicodeDecodeError:
            pass
    return {f"{name}_hex": value.hex()}


def record_json(record: ConsumerRecord, *, in_hex: bool = False) -> dict[str, object]:
    """Everything of a record, to the byte: what ``kohort produce --format json`` takes back."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **json_field("key", record.key, in_hex=in_hex),
        **json_field("value", record.value, in_hex=in_hex),
        "headers": [
            {"name": name, **json_field("value", value, in_hex=in_hex)} for name, value in record.headers
        ],
    }


def json_line(document: object) -> str:
    """One line, readable; a name that is no Unicode is escaped so that it can be written and read back."""
    text = json.dumps(document, ensure_ascii=False)
    return text if _is_unicode(text) else json.dumps(document)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def record_line(record: ConsumerRecord, look: RecordStyle = RecordStyle()) -> str:  # noqa: B008 - a tuple, never changed
    """``0:12  2026-01-31 12:00:00.000  key = value  {header=x}``; the key only if there is one."""
    in_hex = look.output is Output.HEX
    dim, bold, plain = (_DIM, _BOLD, _PLAIN) if look.in_colour else ("", "", "")
    place = f"{record.partition}:{record.offset}"
    if look.with_topic:
        place = f"{record.topic} {place}"
    value = show_value(record.value, in_hex=in_hex)
    if record.key is not None:
        value = f"{bold}{show_value(record.key, in_hex=in_hex)}{plain} = {value}"
    line = f"{dim}{place}  {show_time(record.timestamp)}{plain}  {value}"
    if not record.headers:
        return line
    shown = ", ".join(
        f"{name.translate(_CONTROL)}={show_value(content, in_hex=in_hex)}" for name, content in record.headers
    )
    return f"{line}  {dim}{{{shown}}}{plain}"


def show_time(timestamp: int) -> str:
    """Local time to the millisecond; "-" for none."""
    if timestamp < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp / 1_000)
    except (OverflowError, ValueError, OSError):
        return str(timestamp)  # a timestamp no calendar has
    return moment.isoformat(" ", "milliseconds")
