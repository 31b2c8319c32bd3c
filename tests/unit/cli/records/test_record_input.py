"""Lines become records."""

import json

import pytest

from kohort.cli.records.record_input import Input, InputRecord, InputStyle, parse_header, parse_record
from kohort.cli.records.record_text import json_line, record_json
from kohort.cli.settings_text import InputError
from kohort.client.fetching.chunk import ConsumerRecord

JSON = InputStyle(Input.JSON)


@pytest.mark.parametrize(
    ("line", "style", "record"),
    [
        ("plain: text", InputStyle(), InputRecord(b"plain: text")),
        ("", InputStyle(), InputRecord(b"")),
        ("k:v:w", InputStyle(key_separator=":"), InputRecord(b"v:w", b"k")),
        (":v", InputStyle(key_separator=":"), InputRecord(b"v", b"")),
        ("k => v", InputStyle(key_separator=" => "), InputRecord(b"v", b"k")),
        ("ü\udcff", InputStyle(), InputRecord(b"\xc3\xbc\xff")),
        ("ff00", InputStyle(Input.HEX), InputRecord(b"\xff\0")),
        ("01:ff", InputStyle(Input.HEX, ":"), InputRecord(b"\xff", b"\1")),
        ("k:", InputStyle(key_separator=":", null=""), InputRecord(None, b"k")),
        ("-:v", InputStyle(key_separator=":", null="-"), InputRecord(b"v", None)),
        ("NULL", InputStyle(Input.HEX, null="NULL"), InputRecord(None)),
        ("v", InputStyle(headers=[("h", b"x")], partition=3), InputRecord(b"v", None, [("h", b"x")], 3)),
    ],
)
def test_a_line_is_a_record(line: str, style: InputStyle, record: InputRecord) -> None:
    assert parse_record(line, style) == record


@pytest.mark.parametrize(
    ("line", "record"),
    [
        ('{"value": "v", "key": "k"}', InputRecord(b"v", b"k", [])),
        ('{"value": {"a": [1, "ü"]}}', InputRecord('{"a":[1,"ü"]}'.encode(), None, [])),
        ('{"value": null, "key": 5}', InputRecord(None, b"5", [])),
        ("{}", InputRecord(None, None, [])),
        (
            '{"value": "v", "headers": {"a": "1", "b": null}}',
            InputRecord(b"v", None, [("a", b"1"), ("b", None)]),
        ),
        (
            '{"value": "v", "headers": [["a", "1"], ["a", "2"]]}',
            InputRecord(b"v", None, [("a", b"1"), ("a", b"2")]),
        ),
        (
            '{"value": "v", "headers": [{"name": "a", "value_hex": "ff"}, {"name": "b"}]}',
            InputRecord(b"v", None, [("a", b"\xff"), ("b", None)]),
        ),
        ('{"value_hex": "ff00", "key_base64": "/wA="}', InputRecord(b"\xff\0", b"\xff\0", [])),
        ('{"value": {"hex": "ff"}}', InputRecord(b'{"hex":"ff"}', None, [])),
        ('{"value": "v", "partition": 2, "timestamp": 9}', InputRecord(b"v", None, [], 2, 9)),
    ],
)
def test_a_json_object_is_a_record_with_all_its_parts(line: str, record: InputRecord) -> None:
    assert parse_record(line, JSON) == record


def test_the_options_add_their_headers_and_overrule_the_partition() -> None:
    style = InputStyle(Input.JSON, headers=[("o", b"1")], partition=0)
    record = parse_record('{"value": "v", "headers": {"h": "2"}, "partition": 5}', style)
    assert record == InputRecord(b"v", None, [("o", b"1"), ("h", b"2")], 0)


@pytest.mark.parametrize(
    ("line", "style", "message"),
    [
        ("nokey", InputStyle(key_separator=":"), "no ':' in 'nokey'"),
        ("xyz", InputStyle(Input.HEX), "'xyz' is not hexadecimal"),
        ("{", JSON, "is not JSON"),
        ("[1]", JSON, "is not a JSON object"),
        ('{"partition": "x"}', JSON, "the partition 'x' is not a number"),
        ('{"value_hex": "zz"}', JSON, "cannot read 'zz' as value_hex"),
        ('{"key_base64": "=a"}', JSON, "cannot read '=a' as key_base64"),
        ('{"headers": 5}', JSON, "cannot read the headers 5"),
        ('{"headers": [5]}', JSON, "cannot read the header 5"),
        ("x" * 100, InputStyle(key_separator=":"), r"x\.\.\.'"),
        ('{"timestamp": true}', JSON, "the timestamp True is not a number"),
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


@pytest.mark.parametrize("in_hex", [False, True])
@pytest.mark.parametrize(
    "record",
    [
        ConsumerRecord("t", 1, 5, 9, b"k", b"v", [("h", b"x"), ("n", None), ("b", b"\xff")]),
        ConsumerRecord("t", 0, 5, 9, None, b"\xff\0\xfe"),
        ConsumerRecord("t", 0, 5, 9, b"\xff", None),
        ConsumerRecord("t", 0, 5, 9, b"", '{"hex": "\u2028 \\ grün"}'.encode(), [("n\udcff", b"")]),
    ],
)
def test_what_is_printed_as_json_is_the_same_record_when_it_is_read_again(
    record: ConsumerRecord, in_hex: bool
) -> None:
    line = json_line(record_json(record, in_hex=in_hex))
    read = parse_record(line.encode().decode(), JSON)
    assert read == InputRecord(record.value, record.key, list(record.headers), record.partition, 9)
    assert json.loads(line)["offset"] == 5
