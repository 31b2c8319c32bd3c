"""Records become lines."""

import json

import pytest

from kohort.cli.records.record_text import (
    Output,
    RecordStyle,
    json_field,
    raw_value,
    record_json,
    record_line,
    record_lines,
    show_time,
    show_value,
)
from kohort.client.fetching.chunk import ConsumerRecord


@pytest.mark.parametrize(
    ("value", "in_hex", "text"),
    [
        (b"plain", False, "plain"),
        ("grün".encode(), False, "grün"),
        (None, False, "null"),
        (b"", False, ""),
        (b"a\nb\r\t\0", False, "a\\nb\\r\t\\x00"),
        (b"\x1b[31m\xff", False, "\\x1b[31m\\xff"),
        (b"\xff\0", True, "ff00"),
    ],
)
def test_a_value_is_shown_on_one_line_that_no_terminal_obeys(
    value: bytes | None, in_hex: bool, text: str
) -> None:
    assert show_value(value, in_hex=in_hex) == text


def test_values_alone_come_as_they_are() -> None:
    assert raw_value(b"\xff\n") == b"\xff\n"
    assert raw_value(None) == b"null"


@pytest.mark.parametrize(
    ("value", "in_hex", "shown"),
    [
        (b'{"a":1}', False, {"value": '{"a":1}'}),
        (b"\xff", False, {"value_hex": "ff"}),
        (b"a", True, {"value_hex": "61"}),
        (None, True, {"value": None}),
    ],
)
def test_in_json_a_value_is_text_or_says_that_it_is_hexadecimal(
    value: bytes | None, in_hex: bool, shown: object
) -> None:
    assert json_field("value", value, in_hex=in_hex) == shown


FULL = ConsumerRecord("t", 2, 7, 1_700_000_000_123, b"k", b"v", [("h", b"x"), ("n", None)])
BARE = ConsumerRecord("t", 2, 7, 1_700_000_000_123, None, b"v")
TIME = show_time(1_700_000_000_123)


def test_a_record_in_json_has_always_the_same_keys() -> None:
    shown = record_json(FULL)
    assert json.loads(json.dumps(shown)) == {
        "topic": "t",
        "partition": 2,
        "offset": 7,
        "timestamp": 1_700_000_000_123,
        "key": "k",
        "value": "v",
        "headers": [{"name": "h", "value": "x"}, {"name": "n", "value": None}],
    }
    assert record_json(BARE).keys() == shown.keys()


@pytest.mark.parametrize(
    ("record", "look", "line"),
    [
        (FULL, RecordStyle(), f"2:7  {TIME}  k = v  {{h=x, n=null}}"),
        (BARE, RecordStyle(), f"2:7  {TIME}  v"),
        (BARE, RecordStyle(with_topic=True), f"t 2:7  {TIME}  v"),
        (FULL, RecordStyle(Output.HEX), f"2:7  {TIME}  6b = 76  {{h=78, n=null}}"),
        (BARE._replace(headers=[("\udcff\x1b", b"x")]), RecordStyle(), f"2:7  {TIME}  v  {{\\xff\\x1b=x}}"),
        (
            FULL._replace(headers=()),
            RecordStyle(in_colour=True),
            f"\x1b[2m2:7  {TIME}\x1b[0m  \x1b[1mk\x1b[0m = v",
        ),
    ],
)
def test_a_record_as_a_line_shows_key_and_headers_if_it_has_any(
    record: ConsumerRecord, look: RecordStyle, line: str
) -> None:
    assert record_line(record, look) == line


@pytest.mark.parametrize(
    ("look", "start"),
    [
        (RecordStyle(Output.VALUE), b"v\nv\n"),
        (RecordStyle(Output.JSON), b'{"topic": "t", "partition": 2'),
        (RecordStyle(in_json=True), b'{"topic": "t", "partition": 2'),
        (RecordStyle(Output.TEXT), b"2:7  "),
    ],
)
def test_a_format_decides_what_a_line_is(look: RecordStyle, start: bytes) -> None:
    lines = record_lines([FULL, BARE], look)
    assert lines.startswith(start)
    assert lines.count(b"\n") == 2


def test_json_and_hexadecimal_go_together() -> None:
    line = json.loads(record_lines([FULL], RecordStyle(Output.HEX, in_json=True)))
    assert (line["key_hex"], line["value_hex"]) == ("6b", "76")


@pytest.mark.parametrize(("timestamp", "text"), [(-1, "-"), (10**17, "100000000000000000")])
def test_a_time_no_calendar_has_is_shown_as_it_is(timestamp: int, text: str) -> None:
    assert show_time(timestamp) == text
