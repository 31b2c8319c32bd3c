"""Brokers for the command line: Kohort as a process of its own, and the real Kafka where it can be had."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # `tools` is no installed package
    sys.path.insert(0, str(ROOT))

from tools.peers.fetch import available  # noqa: E402 (same)
from tools.peers.kafka_broker import kafka_broker  # noqa: E402 (same)
from tools.peers.pins import Peer  # noqa: E402 (same)

from kohort.cli.app import command_line  # noqa: E402 (needs the path above)

LISTENING = "kohort: listening on "
STOP_SECONDS = 60  # for a whole command on a machine with much else to do


@contextmanager
def served(*options: str, cwd: Path | None = None) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A ``kohort serve`` process on a free port, and its address; ended with the block."""
    command = [sys.executable, "-m", "kohort.cli.main", "serve", "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(LISTENING), process.stderr.read() if process.stderr else ""
            yield process, line.removeprefix(LISTENING).strip()
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


@contextmanager
def _kohort(home: Path) -> Iterator[str]:
    hasty = ("--set", "group.initial.rebalance.delay.ms=0")
    with served("--data", str(home), "--log-level", "error", *hasty) as (_, address):
        yield address


@contextmanager
def _kafka(home: Path) -> Iterator[str]:
    reason = available(Peer.KAFKA)
    if reason is not None:
        pytest.skip(reason)
    # Some tests write records of years ago: Kafka deletes those when it has been up for 30 seconds.
    with kafka_broker({"log.initial.task.delay.ms": "3600000"}, home) as broker:
        yield broker.bootstrap


@pytest.fixture(
    scope="session",
    params=["kohort", pytest.param("kafka", marks=pytest.mark.interop)],
)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running broker: ours, or the oracle."""
    start = _kafka if request.param == "kafka" else _kohort
    with start(tmp_path_factory.mktemp(request.param)) as address:
        yield address


class Kohort:
    """The command line in this process, pointed at one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._runner = CliRunner()

    def __call__(self, *arguments: str) -> Result:
        """Run a command and return what it said, whatever its exit code."""
        return self._runner.invoke(
            command_line(arguments[:1]), list(arguments), env={"KOHORT_BOOTSTRAP": self.bootstrap}
        )

    def ok(self, *arguments: str) -> str:
        """Run a command that must succeed; its standard output."""
        result = self(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    def process(self, *arguments: str) -> list[str]:
        """The same as a command for a process of its own."""
        return [sys.executable, "-m", "kohort.cli.main", *arguments, "--bootstrap", self.bootstrap]


@pytest.fixture
def kohort(broker: str) -> Kohort:
    return Kohort(broker)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name no other test uses."""
    return f"t-{abs(hash(request.node.nodeid)) % 10**9}-{os.getpid()}"
