"""``kohort consume`` as a member of a group, against a real broker."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.cli.conftest import STOP_SECONDS, Kohort

pytestmark = pytest.mark.slow  # a group waits for its first members


@contextmanager
def running(command: list[str]) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def committed(kohort: Kohort, group: str) -> dict[int, int | None]:
    rows = json.loads(kohort.ok("groups", "offsets", group, "--json"))["offsets"]
    return {row["partition"]: row["current_offset"] for row in rows}


def values(text: str) -> list[str]:
    return [json.loads(line)["value"] for line in text.splitlines()]


def test_a_group_goes_on_where_it_was(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    kohort.ok("produce", topic, *"abcde")
    first = kohort("consume", topic, "-g", topic, "-m", "2", "--json")
    assert values(first.stdout) == ["a", "b"]
    assert first.stderr.splitlines()[:2] == [
        f"partitions assigned: {topic} 0",
        f"committed for group {topic}: {topic}-0 at 2",
    ]
    looked = kohort("consume", topic, "-g", topic, "--to", "4", "--no-commit", "--json")
    assert values(looked.stdout) == ["c", "d"]
    assert "committed" not in looked.stderr
    rest = kohort("consume", topic, "-g", topic, "-e", "--json", "-q")
    assert (values(rest.stdout), rest.stderr) == (["c", "d", "e"], "")
    nothing = kohort("consume", topic, "-g", topic, "-e", "--json")
    assert nothing.stdout == ""
    assert "--from beginning" in nothing.stderr
    again = kohort("consume", topic, "-g", topic, "-e", "--from", "-2", "--json", "--assignor", "sticky")
    assert values(again.stdout) == ["d", "e"]
    assert committed(kohort, topic) == {0: 5}


def test_a_member_of_the_consumer_protocol_goes_on_where_it_was(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    kohort.ok("produce", topic, *"abc")
    command = ("consume", topic, "-g", topic, "--json", "-X", "group.protocol=consumer")
    first = kohort(*command, "-m", "2", "--assignor", "range")
    assert values(first.stdout) == ["a", "b"]
    assert f"committed for group {topic}: {topic}-0 at 2" in first.stderr
    assert values(kohort(*command, "-e").stdout) == ["c"]
    refused = kohort(*command, "-X", "session.timeout.ms=10000")
    assert "session_timeout_ms does not go with group_protocol='consumer'" in refused.stderr


def test_partitions_can_be_read_with_the_offsets_of_a_group_without_joining(
    kohort: Kohort, topic: str
) -> None:
    kohort.ok("topics", "create", topic, "-p", "2")
    kohort.ok("produce", topic, "-p", "1", "a", "b")
    for expected in (["a"], ["b"]):
        result = kohort("consume", topic, "-g", topic, "-p", "1", "-m", "1", "--json")
        assert values(result.stdout) == expected
        assert "assigned" not in result.stderr
    assert committed(kohort, topic)[1] == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_member_that_is_stopped_commits_what_it_printed_and_leaves(
    kohort: Kohort, topic: str, number: signal.Signals, code: int
) -> None:
    kohort.ok("topics", "create", topic)
    kohort.ok("produce", topic, *"abc")
    command = kohort.process("consume", topic, "-g", topic, "-f", "value", "--instance", "i-1")
    with running(command) as member:
        assert member.stdout is not None
        assert member.stderr is not None
        assert [member.stdout.readline() for _ in range(3)] == ["a\n", "b\n", "c\n"]
        member.send_signal(number)
        assert member.wait(STOP_SECONDS) == code
        told = member.stderr.read()
    assert f"committed for group {topic}: {topic}-0 at 3\n3 records, 3 B in " in told
    assert "Traceback" not in told
    assert committed(kohort, topic) == {0: 3}


def test_a_rebalance_is_told_as_it_happens(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic, "-p", "2")
    command = kohort.process("consume", "--pattern", topic, "-g", topic)
    command += ["-X", "heartbeat.interval.ms=100", "--assignor", "range"]
    with running(command) as first:
        assert first.stderr is not None
        assert first.stderr.readline() == f"partitions assigned: {topic} 0-1\n"
        with running(command) as second:
            assert second.stderr is not None
            assert first.stderr.readline() == f"partitions revoked: {topic} 0-1\n"
            shares = {member.stderr.readline() for member in (first, second) if member.stderr is not None}
            assert shares == {f"partitions assigned: {topic} {number}\n" for number in (0, 1)}
            second.send_signal(signal.SIGINT)
            assert second.wait(STOP_SECONDS) == 130
            assert second.stderr.readline().startswith(f"committed for group {topic}: ")
        assert first.stderr.readline().startswith("partitions revoked: ")
        assert first.stderr.readline() == f"partitions assigned: {topic} 0-1\n"
        first.send_signal(signal.SIGINT)
        assert first.wait(STOP_SECONDS) == 130


def test_what_a_reader_did_not_take_is_not_committed(kohort: Kohort, topic: str) -> None:
    kohort.ok("topics", "create", topic)
    kohort.ok("produce", topic, *(["x" * 200] * 2_000))
    reading, writing = os.pipe()
    command = kohort.process("consume", topic, "-g", topic, "-f", "value")
    with subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE, text=True) as member:
        os.close(writing)
        os.read(reading, 10)
        os.close(reading)
        assert member.wait(STOP_SECONDS) == 0
        assert member.stderr is not None
        assert "Traceback" not in member.stderr.read()
    assert (committed(kohort, topic)[0] or 0) < 2_000
