"""``kohort serve`` and ``kohort up`` as processes."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import STOP_SECONDS, Kohort, served

pytestmark = pytest.mark.slow


def run_serve(*options: str) -> "subprocess.CompletedProcess[str]":
    """A ``kohort serve`` that is expected to end by itself."""
    command = [sys.executable, "-m", "kohort.cli.main", "serve", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=STOP_SECONDS, check=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_one_line_when_it_is_ready_and_stops_cleanly_on_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    with served("--data", str(tmp_path / "data")) as (process, address):
        assert "created topic t" in Kohort(address).ok("topics", "create", "t")
        process.send_signal(number)
        assert process.wait(STOP_SECONDS) == 0
        assert process.stdout is not None
        assert process.stdout.read() == ""


def test_logs_go_to_stderr_in_the_form_asked_for() -> None:
    with served("--memory", "--log-format", "json") as (process, _):
        process.terminate()
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
    assert {"time", "level", "logger", "message"} <= lines[0].keys()
    assert "node 1" in lines[0]["message"]
    assert "MiB for requests and replies (queued.max.request.bytes)" in lines[1]["message"]


def test_a_port_that_is_taken_is_one_line_and_exit_code_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_serve("--memory", "--listen", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"kohort: error: cannot listen on 127.0.0.1:{port}")
    assert done.stderr.count("\n") == 1


def test_a_directory_in_use_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with served("--data", str(tmp_path)) as (process, _):
        done = run_serve("--data", str(tmp_path), "--listen", "127.0.0.1:0")
        assert done.returncode == 1
        assert f"in use by process {process.pid}" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [["--bogus"], ["--set", "num.partitions=x"]])
def test_options_that_are_wrong_are_one_line_and_exit_code_2(options: list[str]) -> None:
    done = run_serve(*options)
    assert done.returncode == 2
    assert done.stderr.startswith("kohort: error: ")
    assert done.stderr.count("\n") == 1


def test_up_starts_a_broker_says_what_to_try_and_stops_on_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kohort.cli.main", "up", "--port", "0", "--no-archive", "--no-lake"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "kohort is up\n"
        address = process.stdout.readline().split()[1]
        assert process.stdout.readline().split() == ["data", str(tmp_path / "kohort-data")]
        kohort = Kohort(address)
        kohort.ok("topics", "create", "orders", "--partitions", "3")
        kohort.ok("produce", "orders", "--key-separator", ":", "alice:apples", "bob:pears")
        assert "alice = apples" in kohort.ok("consume", "orders", "-e")
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_SECONDS) == 0
        assert f"export KOHORT_BOOTSTRAP={address}" in process.stdout.read()
