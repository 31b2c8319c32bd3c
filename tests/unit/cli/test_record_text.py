"""Lines become records, and records lines."""

import json
from datetime import datetime

import pytest

from kohort.cli.record_text import (
    Format,
    InputError,
    InputStyle,
    json_value,
    parse_header,
    parse_record,
    parse_start,
    raw_value,
    record_json,
    record_line,
    show_time,
    show_value,
)
from kohort.client.fetch import Fetched, StartAt
from kohort.client.offset_admin import OffsetSpec
from kohort.client.produce import Outgoing
from kohort.model.ids import Partition
from kohort.records.batch import Record

JSON = InputStyle(Format.JSON)


@pytest.mark.parametrize(
    ("line", "style", "record"),
    [
        ("plain: text", InputStyle(), Outgoing(b"plain: text")),
        ("", InputStyle(), Outgoing(b"")),
        ("k:v:w", InputStyle(key_separator=":"), Outgoing(b"v:w", b"k")),
        (":v", InputStyle(key_separator=":"), Outgoing(b"v", b"")),
        ("k => v", InputStyle(key_separator=" => "), Outgoing(b"v", b"k")),
        ("ü\udcff", InputStyle(), Outgoing(b"\xc3\xbc\xff")),
        ("ff00", InputStyle(Format.HEX), Outgoing(b"\xff\0")),
        ("01:ff", InputStyle(Format.HEX, ":"), Outgoing(b"\xff", b"\1")),
        ("v", InputStyle(headers=[("h", b"x")], partition=3), Outgoing(b"v", None, [("h", b"x")], 3)),
    ],
)
def test_a_line_is_a_record(line: str, style: InputStyle, record: Outgoing) -> None:
    assert parse_record(line, style) == record


@pytest.mark.parametrize(
    ("line", "record"),
    [
        ('{"value": "v", "key": "k"}', Outgoing(b"v", b"k", [])),
        ('{"value": {"a": [1, "ü"]}}', Outgoing('{"a":[1,"ü"]}'.encode(), None, [])),
        ('{"value": null, "key": 5}', Outgoing(None, b"5", [])),
        ("{}", Outgoing(None, None, [])),
        (
            '{"value": "v", "headers": {"a": "1", "b": null}}',
            Outgoing(b"v", None, [("a", b"1"), ("b", None)]),
        ),
        (
            '{"value": "v", "headers": [["a", "1"], ["a", "2"]]}',
            Outgoing(b"v", None, [("a", b"1"), ("a", b"2")]),
        ),
        ('{"value": "v", "partition": 2, "timestamp": 9}', Outgoing(b"v", None, [], 2, 9)),
    ],
)
def test_a_json_object_is_a_record_with_all_its_parts(line: str, record: Outgoing) -> None:
    assert parse_record(line, JSON) == record


def test_the_options_add_their_headers_and_overrule_the_partition() -> None:
    style = InputStyle(Format.JSON, headers=[("o", b"1")], partition=0)
    record = parse_record('{"value": "v", "headers": {"h": "2"}, "partition": 5}', style)
    assert record == Outgoing(b"v", None, [("o", b"1"), ("h", b"2")], 0)


@pytest.mark.parametrize(
    ("line", "style", "message"),
    [
        ("nokey", InputStyle(key_separator=":"), "no ':' in 'nokey'"),
        ("xyz", InputStyle(Format.HEX), "'xyz' is not hexadecimal"),
        ("{", JSON, "is not JSON"),
        ("[1]", JSON, "is no JSON object"),
        ('{"partition": "x"}', JSON, "the partition 'x' is no number"),
        ('{"timestamp": true}', JSON, "the timestamp True is no number"),
    ],
)
def test_a_line_that_is_no_record_is_refused_with_a_hint(line: str, style: InputStyle, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_record(line, style)
    assert caught.value.hint


def test_a_header_is_a_name_and_a_value() -> None:
    assert parse_header("trace=a=b") == ("trace", b"a=b")
    with pytest.raises(InputError, match="is not NAME=VALUE"):
        parse_header("trace")


@pytest.mark.parametrize(
    ("value", "style", "text"),
    [
        (b"plain", Format.TEXT, "plain"),
        ("grün".encode(), Format.TEXT, "grün"),
        (None, Format.TEXT, "null"),
        (b"", Format.TEXT, ""),
        (b"a\nb\r\t\0", Format.TEXT, "a\\nb\\r\t\\x00"),
        (b"\x1b[31m\xff", Format.TEXT, "\\x1b[31m\\xff"),
        (b"\xff\0", Format.HEX, "ff00"),
    ],
)
def test_a_value_is_shown_on_one_line_that_no_terminal_obeys(
    value: bytes | None, style: Format, text: str
) -> None:
    assert show_value(value, style) == text


def test_values_alone_come_as_they_are() -> None:
    assert raw_value(b"\xff\n", Format.TEXT) == b"\xff\n"
    assert raw_value(b"\xff", Format.HEX) == b"ff"
    assert raw_value(None, Format.TEXT) == b"null"


@pytest.mark.parametrize(
    ("value", "style", "shown"),
    [
        (b'{"a":1}', Format.JSON, {"a": 1}),
        (b"not json", Format.JSON, "not json"),
        (b'{"a":1}', Format.TEXT, '{"a":1}'),
        (b"\xff", Format.TEXT, "\\xff"),
        (b"\xff", Format.HEX, "ff"),
        (None, Format.JSON, None),
    ],
)
def test_in_json_a_value_is_text_or_hexadecimal_or_json_itself(
    value: bytes | None, style: Format, shown: object
) -> None:
    assert json_value(value, style) == shown


FULL = Fetched(Partition(2), Record(7, 1_700_000_000_123, b"k", b"v", [("h", b"x"), ("n", None)]))
BARE = Fetched(Partition(2), Record(7, 1_700_000_000_123, None, b"v"))


def test_a_record_in_json_has_always_the_same_keys() -> None:
    shown = record_json("t", FULL, Format.TEXT)
    assert json.loads(json.dumps(shown)) == {
        "topic": "t",
        "partition": 2,
        "offset": 7,
        "timestamp": 1_700_000_000_123,
        "key": "k",
        "value": "v",
        "headers": [["h", "x"], ["n", None]],
    }
    assert record_json("t", BARE, Format.TEXT).keys() == shown.keys()


def test_a_record_as_a_line_shows_key_and_headers_if_it_has_any() -> None:
    time = show_time(1_700_000_000_123)
    assert record_line(FULL, Format.TEXT) == f"2:7  {time}  k = v  {{h=x, n=null}}"
    assert record_line(BARE, Format.TEXT) == f"2:7  {time}  v"


@pytest.mark.parametrize(("timestamp", "text"), [(-1, "-"), (10**17, "100000000000000000")])
def test_a_time_no_calendar_has_is_shown_as_it_is(timestamp: int, text: str) -> None:
    assert show_time(timestamp) == text


def millis(*moment: int) -> int:
    return int(datetime(*moment).astimezone().timestamp() * 1_000)  # type: ignore[arg-type]  # year, month …


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", StartAt(OffsetSpec.EARLIEST)),
        ("beginning", StartAt(OffsetSpec.EARLIEST)),
        ("latest", StartAt(OffsetSpec.LATEST)),
        ("end", StartAt(OffsetSpec.LATEST)),
        ("0", StartAt(None, 0)),
        ("42", StartAt(None, 42)),
        ("-5", StartAt(OffsetSpec.LATEST, -5)),
        ("@1700000000123", StartAt(1_700_000_000_123)),
        ("2024-05-06", StartAt(millis(2024, 5, 6))),
        ("2024-05-06T07:08", StartAt(millis(2024, 5, 6, 7, 8))),
        ("2024-05-06T07:08:09+00:00", StartAt(1_714_979_289_000)),
    ],
)
def test_a_start_is_a_word_an_offset_or_a_time(text: str, start: StartAt) -> None:
    assert parse_start(text) == start


@pytest.mark.parametrize("text", ["yesterday", "@noon", "", "12x"])
def test_what_is_no_start_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(InputError, match="is no place to start") as caught:
        parse_start(text)
    assert "earliest" in caught.value.hint
