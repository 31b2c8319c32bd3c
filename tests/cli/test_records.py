"""``kohort produce``, and ``kohort consume`` without a group, against a real broker."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import STOP_SECONDS, Kohort


def values(text: str) -> list[str]:
    return [json.loads(line)["value"] for line in text.splitlines()]


def test_what_is_produced_can_be_consumed(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    said = kohort.ok("produce", topic, "-k", ":", "-H", "trace=7", "alice:apples", "bob:pears")
    assert said == f"{topic}-0: offsets 0 to 1 (2 records)\n"
    first, second = kohort.ok("consume", topic, "-e").splitlines()
    assert first.startswith("0:0  ")
    assert first.endswith("  alice = apples  {trace=7}")
    assert second.endswith("  bob = pears  {trace=7}")


def test_in_json_where_records_went_and_what_they_are_are_lines_with_stable_keys(
    kohort: Kohort, topic: str
) -> None:
    kohort.ok("topics", "create", topic)
    record = '{"key": "k", "value": {"n": 1}, "headers": {"h": "x"}, "timestamp": 1700000000000}'
    written = json.loads(kohort.ok("produce", topic, "-f", "json", record, "--json"))
    assert written == {"topic": topic, "partition": 0, "offset": 0, "timestamp": 1700000000000}
    consumed = json.loads(kohort.ok("consume", topic, "-e", "--json"))
    assert consumed == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": 1700000000000,
        "key": "k",
        "value": '{"n":1}',
        "headers": [{"name": "h", "value": "x"}],
    }


def test_bytes_travel_as_hexadecimal_and_tombstones_as_null(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    kohort.ok("produce", topic, "-f", "hex", "ff00fe")
    kohort.ok("produce", topic, "-k", ":", "--null", "NULL", "gone:NULL", "NULL:v")
    shown = [json.loads(line) for line in kohort.ok("consume", topic, "-e", "--json").splitlines()]
    assert shown[0]["value_hex"] == "ff00fe"
    assert [(one["key"], one["value"]) for one in shown[1:]] == [("gone", None), (None, "v")]
    lines = kohort.ok("consume", topic, "-e").splitlines()
    assert lines[0].endswith("\\xff\\x00\\xfe")
    assert lines[1].endswith("gone = null")
    assert kohort.ok("consume", topic, "-f", "hex", "-m", "2").splitlines()[1].endswith("676f6e65 = null")


def test_what_consume_prints_as_json_can_be_produced_again_to_the_byte(
    kohort: Kohort, topic: str, tmp_path: Path
) -> None:
    for name in (topic, f"{topic}-copy"):
        kohort.ok("topics", "create", name, "-p", "2")
    records = [
        '{"key": "k", "value": "plain", "headers": {"h": "x", "n": null}, "timestamp": 5, "partition": 1}',
        '{"key_hex": "ff", "value_base64": "AP8KDQ==", "headers": [{"name": "b", "value_hex": "80"}]}',
        '{"key": "gone", "value": null, "timestamp": 6}',
        '{"value": "two\\nlines \\u001b[31m grün"}',
    ]
    kohort.ok("produce", topic, "-f", "json", *records)
    printed = kohort.ok("consume", topic, "-e", "-f", "json")
    (tmp_path / "records").write_text(printed)
    kohort.ok("produce", f"{topic}-copy", "-f", "json", "--file", str(tmp_path / "records"))
    copied = kohort.ok("consume", f"{topic}-copy", "-e", "-f", "json")
    assert sorted(copied.replace(f"{topic}-copy", topic).splitlines()) == sorted(printed.splitlines())
    assert "00ff0a0d" in printed


def test_records_can_be_made_up_the_same_ones_every_time(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic, "-p", "2")
    made = ("--random", "700", "--size", "30", "--keys", "5", "--seed", "3")
    result = kohort("produce", topic, *made, "-z", "zstd", "--acks", "1")
    assert result.exit_code == 0
    assert result.stderr.startswith("700 records, ")
    assert sum(int(line.split("(")[1].split()[0]) for line in result.stdout.splitlines()) == 700
    kohort.ok("produce", topic, *made, "--max", "600", "--rate", "1000000", "-q")
    for partition in ("0", "1"):
        printed = kohort.ok("consume", topic, "-e", "-p", partition, "--json").splitlines()
        found = [(one["key"], one["value"]) for one in map(json.loads, printed)]
        again = next(at for at in range(1, len(found)) if found[at] == found[0])
        assert found[again:] == found[: len(found) - again]


def test_without_acknowledgement_nobody_knows_where_records_went(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    said = kohort.ok("produce", topic, "x", "--acks", "0")
    assert said == f"{topic}-0: sent, and not confirmed (1 record)\n"


def test_what_was_written_before_a_line_that_is_none_is_said(
    kohort: Kohort, topic: str, tmp_path: Path
) -> None:
    kohort.ok("topics", "create", topic)
    (tmp_path / "lines").write_text("a:1\n" * 70_000 + "b\n")
    result = kohort("produce", topic, "-k", ":", "--file", str(tmp_path / "lines"))
    assert result.exit_code == 1
    assert "line 70001: there is no ':' in 'b'" in result.stderr
    assert result.stdout.startswith(f"{topic}-0: offsets 0 to ")


def test_a_topic_that_refuses_a_record_is_quoted(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic, "-c", "cleanup.policy=compact")
    result = kohort("produce", topic, "no key")
    assert result.exit_code == 1
    assert "INVALID_RECORD" in result.stderr
    assert result.stdout == ""


def _until(arguments: tuple[str, ...]) -> tuple[str, ...]:
    return () if {"--to", "--timeout"} & set(arguments) else ("-e",)


def test_reading_starts_and_ends_where_it_is_told(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    records = [f'{{"value": "{number}", "timestamp": {1700000000000 + number}}}' for number in range(10)]
    kohort.ok("produce", topic, "-f", "json", *records)
    for arguments, expected in (
        (("--from", "earliest", "--max", "2"), ["0", "1"]),
        (("--from", "7"), ["7", "8", "9"]),
        (("--from", "-2"), ["8", "9"]),
        (("--from", "latest"), []),
        (("--from", "99"), []),
        (("--from", "@1700000000008"), ["8", "9"]),
        (("--from", "2023-11-14T22:13:20.009+00:00"), ["9"]),
        (("--from", "2020-01-01", "--max", "1"), ["0"]),
        (("--from", "2099-01-01"), []),
        (("--from", "2", "--to", "4"), ["2", "3"]),
        (("--to", "-8"), ["0", "1"]),
        (("--to", "@1700000000001"), ["0"]),
        (("--to", "99", "--from", "-1"), ["9"]),
        (("--timeout", "2", "--from", "8"), ["8", "9"]),
    ):
        assert values(kohort.ok("consume", topic, *_until(arguments), "--json", *arguments)) == expected, (
            arguments
        )


def test_partitions_are_chosen_for_writing_and_reading(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic, "-p", "3")
    assert kohort.ok("produce", topic, "-p", "2", "a", "b") == f"{topic}-2: offsets 0 to 1 (2 records)\n"
    kohort.ok("produce", topic, "-p", "1", "c")
    assert values(kohort.ok("consume", topic, "-e", "-p", "2", "--json")) == ["a", "b"]
    assert set(values(kohort.ok("consume", topic, "-e", "-p", "1", "-p", "2", "--json"))) == {"c", "a", "b"}
    for command in (("produce", topic, "x", "-p", "9"), ("consume", topic, "-p", "9")):
        result = kohort(*command)
        assert result.exit_code == 1
        assert "no partition 9: it has the partitions 0 to 2" in result.stderr


def test_keys_go_where_javas_producer_sends_them(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic, "-p", "10")
    written = kohort.ok("produce", topic, "-k", ":", "foobar:1", "abc:2", "21:3", "--json")
    # murmur2 of the keys as Kafka's own tests have it, without the sign, modulo 10.
    hashes = (-790332482, 479470107, -973932308)
    assert [json.loads(line)["partition"] for line in written.splitlines()] == [
        (number & 0x7FFFFFFF) % 10 for number in hashes
    ]


def test_a_topic_is_made_by_the_first_record_if_the_broker_allows(kohort: Kohort, topic: str) -> None:
    assert kohort.ok("produce", topic, "x") == f"{topic}-0: offset 0 (1 record)\n"


def test_a_topic_that_is_not_there_is_not_made_by_reading_it(kohort: Kohort, topic: str) -> None:
    result = kohort("consume", topic)
    assert result.exit_code == 1
    assert "there is no topic of this name" in result.stderr
    assert topic not in kohort.ok("topics", "list")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("produce", "t", "-k", ":", "nokey"), "no ':' in 'nokey'"),
        (("produce", "t", "-f", "hex", "zz"), "is not hexadecimal"),
        (("produce", "t", "-H", "novalue", "x"), "is not NAME=VALUE"),
        (("produce", "t", "x", "--random", "3"), "--random"),
        (("produce", "t", "x", "-X", "linger_mx=3"), "did you mean linger_ms?"),
        (("produce", "t", "x", "-X", "linger_ms"), "is not NAME=VALUE"),
        (("consume",), "nothing to read"),
        (("consume", "t", "--pattern", "t.*"), "not both"),
        (("consume", "--pattern", "["), "is not a regular expression"),
        (("consume", "t", "--from", "someday"), "--from: cannot understand 'someday'"),
        (("consume", "t", "--to", "someday"), "--to: cannot understand 'someday'"),
        (("consume", "t", "--to", "5", "-e"), "--until-end is --to end"),
        (("consume", "t", "--from", "group"), "needs a --group"),
        (("consume", "t", "--instance", "i"), "--instance needs a --group"),
        (("consume", "t", "-X", "max_pol_records=3"), "did you mean max_poll_records?"),
        (("consume", "t", "-g", "g", "--instance", "a b"), "'a b' is not legal"),
    ],
)
def test_usage_errors_are_found_before_anything_is_sent(arguments: tuple[str, ...], message: str) -> None:
    result = Kohort("127.0.0.1:1")(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.slow
def test_lines_of_standard_input_are_records_whatever_bytes_they_are(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    lines = b"first\r\nsecond \xff\n\nlast without an end"
    done = subprocess.run(kohort.process("produce", topic), input=lines, capture_output=True, check=True)
    assert done.stdout.decode() == f"{topic}-0: offsets 0 to 3 (4 records)\n"
    printed = subprocess.run(
        kohort.process("consume", topic, "-e", "-f", "value"), capture_output=True, check=True
    )
    assert printed.stdout == b"first\nsecond \xff\n\nlast without an end\n"


@pytest.mark.slow
def test_a_great_many_lines_are_written_in_order(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    lines = "".join(f"{number}\n" for number in range(50_000))
    subprocess.run(kohort.process("produce", topic, "-z", "lz4"), input=lines, text=True, check=True)
    printed = subprocess.run(
        kohort.process("consume", topic, "-e", "-f", "value"), capture_output=True, text=True, check=True
    )
    assert printed.stdout == lines


@pytest.mark.slow
def test_nothing_on_standard_input_is_said_to_be_nothing(kohort: Kohort, topic: str) -> None:
    done = subprocess.run(
        kohort.process("produce", topic), input="", capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    assert done.stderr == "nothing was written\n"


@pytest.mark.slow
def test_following_shows_what_comes_later_until_it_is_interrupted(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    kohort.ok("produce", topic, "before")
    command = kohort.process("consume", topic, "-f", "value")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "before\n"
        kohort.ok("produce", topic, "after")
        assert following.stdout.readline() == "after\n"
        following.send_signal(signal.SIGINT)
        assert following.wait(STOP_SECONDS) == 130


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="pipes of a shell")
def test_a_reader_that_has_seen_enough_is_no_error(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    kohort.ok("produce", topic, *(["x" * 100] * 2_000))
    reading, writing = os.pipe()
    with subprocess.Popen(
        kohort.process("consume", topic, "-q"), stdout=writing, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(writing)
        os.read(reading, 10)
        os.close(reading)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(STOP_SECONDS) == 0


def test_several_topics_are_read_by_name_or_by_pattern(kohort: Kohort, topic: str) -> None:
    for name in ("one", "two"):
        kohort.ok("topics", "create", f"{topic}-{name}")
        kohort.ok("produce", f"{topic}-{name}", name)
    named = kohort.ok("consume", f"{topic}-one", f"{topic}-two", "-e").splitlines()
    assert {line.split()[0] for line in named} == {f"{topic}-one", f"{topic}-two"}
    assert set(values(kohort.ok("consume", "--pattern", f"{topic}-.*", "-e", "--json"))) == {"one", "two"}
    result = kohort("consume", "--pattern", f"{topic}-o", "-e")
    assert result.exit_code == 1
    assert "it must match the whole name" in result.stderr
