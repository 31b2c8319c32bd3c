"""``kohort produce`` and ``kohort fetch`` against a real broker."""

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.cli.conftest import STOP_SECONDS, Kohort


def values(text: str) -> list[str]:
    return [json.loads(line)["value"] for line in text.splitlines()]


def test_what_is_produced_can_be_fetched(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    said = kohort.ok("produce", topic, "-k", ":", "-H", "trace=7", "alice:apples", "bob:pears")
    assert said == f"{topic}-0: offsets 0 to 1 (2 records)\n"
    first, second = kohort.ok("fetch", topic).splitlines()
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
    fetched = json.loads(kohort.ok("fetch", topic, "--json", "-f", "json"))
    assert fetched == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": 1700000000000,
        "key": "k",
        "value": {"n": 1},
        "headers": [["h", "x"]],
    }


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_makes_the_round_trip(kohort: Kohort, topic: str, codec: str) -> None:
    kohort.ok("topics", "create", topic)
    kohort.ok("produce", topic, "-z", codec, "x" * 1000, "y")
    assert kohort.ok("fetch", topic, "-q") == "x" * 1000 + "\ny\n"


def test_bytes_travel_as_hexadecimal_and_tombstones_as_null(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    kohort.ok("produce", topic, "-f", "hex", "ff00fe")
    kohort.ok("produce", topic, "-f", "json", '{"key": "gone", "value": null}')
    assert values(kohort.ok("fetch", topic, "-f", "hex", "--json")) == ["ff00fe", None]
    shown = kohort.ok("fetch", topic).splitlines()
    assert shown[0].endswith("\\xff\\x00\\xfe")
    assert shown[1].endswith("gone = null")


def test_fetching_starts_and_ends_where_it_is_told(kohort: Kohort, topic: str) -> None:
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
    ):
        assert values(kohort.ok("fetch", topic, "--json", *arguments)) == expected, arguments


def test_partitions_are_chosen_for_writing_and_reading(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic, "-p", "3")
    assert kohort.ok("produce", topic, "-p", "2", "a", "b") == f"{topic}-2: offsets 0 to 1 (2 records)\n"
    kohort.ok("produce", topic, "-p", "1", "c")
    assert values(kohort.ok("fetch", topic, "-p", "2", "--json")) == ["a", "b"]
    assert values(kohort.ok("fetch", topic, "-p", "1", "-p", "2", "--json")) == ["c", "a", "b"]
    for command in (("produce", topic, "x", "-p", "9"), ("fetch", topic, "-p", "9")):
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
    result = kohort("fetch", topic)
    assert result.exit_code == 1
    assert "there is no topic of this name" in result.stderr
    assert topic not in kohort.ok("topics", "list")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("produce", "t", "-k", ":", "nokey"), "no ':' in 'nokey'"),
        (("produce", "t", "-f", "hex", "zz"), "is not hexadecimal"),
        (("produce", "t", "-H", "novalue", "x"), "is not NAME=VALUE"),
        (("fetch", "t", "--from", "someday"), "is no place to start"),
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
    assert done.stdout.decode().splitlines()[-1].endswith("-0: offset 3 (1 record)")
    fetched = subprocess.run(kohort.process("fetch", topic, "-q"), capture_output=True, check=True)
    assert fetched.stdout == b"first\nsecond \xff\n\nlast without an end\n"


@pytest.mark.slow
def test_a_great_many_lines_are_written_in_order(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    lines = "".join(f"{number}\n" for number in range(50_000))
    subprocess.run(kohort.process("produce", topic, "-z", "lz4"), input=lines, text=True, check=True)
    fetched = subprocess.run(kohort.process("fetch", topic, "-q"), capture_output=True, text=True, check=True)
    assert fetched.stdout == lines


@pytest.mark.slow
def test_nothing_on_standard_input_is_said_to_be_nothing(kohort: Kohort, topic: str) -> None:
    done = subprocess.run(
        kohort.process("produce", topic), input="", capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    assert "standard input was empty" in done.stderr


@pytest.mark.slow
def test_following_shows_what_comes_later_until_it_is_interrupted(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    kohort.ok("produce", topic, "before")
    command = kohort.process("fetch", topic, "--follow", "-q")
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
        kohort.process("fetch", topic), stdout=writing, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(writing)
        os.read(reading, 10)
        os.close(reading)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(STOP_SECONDS) == 0
