"""Kafka's own command line tools, against any broker."""

import json
import selectors
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import IO, NamedTuple

from tools.peers import jvm
from tools.peers.fetch import class_path
from tools.peers.kafka_broker import class_archive_option
from tools.peers.pins import Peer

TOOL_SECONDS = 60.0


class Tool(Enum):
    """A tool by the name of its shell script, with its main class."""

    TOPICS = "org.apache.kafka.tools.TopicCommand"
    CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
    GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
    ACLS = "org.apache.kafka.tools.AclCommand"
    CONFIGS = "kafka.admin.ConfigCommand"
    BROKER_API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
    CLUSTER = "org.apache.kafka.tools.ClusterTool"
    DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
    LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
    GROUPS = "org.apache.kafka.tools.GroupsCommand"
    FEATURES = "org.apache.kafka.tools.FeatureCommand"
    TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
    PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
    CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
    DUMP_LOG = "kafka.tools.DumpLogSegments"


class ToolRun(NamedTuple):
    """What a tool said and how it ended."""

    exit: int
    stdout: str
    stderr: str

    def lines(self) -> list[str]:
        """Standard output without empty lines."""
        return [line.rstrip() for line in self.stdout.splitlines() if line.strip()]


class ToolError(Exception):
    """A tool failed, or the JVM that runs the tools did."""


class ToolShell:
    """One JVM that runs tools one after another. Made by ``tool_shell``."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: Path, token: Path) -> None:
        self._process = process
        self._errors = errors
        self.token = token  # a file that its tools may read a token for OAUTHBEARER from

    def run(self, tool: Tool, *args: str, stdin: str = "") -> ToolRun:
        """Run a tool to its end, whatever its exit code; raises ToolError when it does not end."""
        request = json.dumps({"main": tool.value, "args": list(args), "stdin": stdin})
        pipe = self._process.stdin
        assert pipe is not None
        pipe.write(request.encode() + b"\n")
        pipe.flush()
        reply = json.loads(self._read_line(f"{tool.name} {' '.join(args)}"))
        return ToolRun(reply["exit"], reply["stdout"], reply["stderr"])

    def check(self, tool: Tool, *args: str, stdin: str = "") -> ToolRun:
        """Like ``run``, but raises ToolError when the exit code is not 0."""
        done = self.run(tool, *args, stdin=stdin)
        if done.exit != 0:
            raise ToolError(
                f"{tool.name} {' '.join(args)} exited with {done.exit}:\n{done.stdout}{done.stderr}"
            )
        return done

    def _read_line(self, what: str) -> bytes:
        stream = self._process.stdout
        assert stream is not None
        line = b""
        deadline = time.monotonic() + TOOL_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self._process.kill()
                    raise ToolError(f"{what}: no end within {TOOL_SECONDS:.0f} s; the tool shell was stopped")
                chunk = _read_some(stream)
                if not chunk:
                    raise ToolError(f"{what}: the tool shell ended:\n{self._errors.read_text()[-4000:]}")
                line += chunk
        return line


def _read_some(stream: IO[bytes]) -> bytes:
    return stream.read(65536)


@contextmanager
def tool_shell() -> Iterator[ToolShell]:
    """A JVM ready to run Kafka's tools; it ends with the block."""
    with tempfile.TemporaryDirectory(prefix="kafka-tools-") as folder:
        errors = Path(folder) / "stderr"
        config = jvm.write_log_config(Path(folder), "ERROR")
        token = Path(folder) / "token"
        readable = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token.as_uri()}"
        options = [jvm.logging_to(config), readable, class_archive_option()]
        shell = jvm.command(class_path(Peer.KAFKA), "ToolShell", heap="256m", options=options)
        with errors.open("wb") as sink:
            process = subprocess.Popen(
                shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, bufsize=0
            )
        try:
            yield ToolShell(process, errors, token)
        finally:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            try:
                process.wait(5.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
