"""Somebody who does what a page says, with a broker of his own on another port."""

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tests.docs.pages import Block, Command, Page, matches

from kohort.testing import Broker

# A group that is alone need not wait for others to come.
CONFIGS = {"group.initial.rebalance.delay.ms": 0}
PATIENCE_SECONDS = 240  # a machine with much else to do takes 90 to start Spark
INTERRUPTED = 130

_SPARKS_PATH = (
    r'(?:\.parquet\(|"(?:path|checkpointLocation|kohort\.checkpoint|kafka\.ssl\.truststore\.location)", )"'
    r'|password="@'
)


class Enough(BaseException):
    """An endless program has shown that it works."""


class _FirstLine(io.StringIO):
    def write(self, text: str) -> int:
        written = super().write(text)
        if "\n" in text:
            raise Enough
        return written


class Reader:
    """Follows pages in ``directory``, which is expected to be the current one."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._names: dict[str, object] = {"__name__": "__main__"}
        self._beside: list[subprocess.Popen[str]] = []
        self._ports: dict[str, str] = {}  # of brokers that a page starts: as it writes them, and as they are
        (directory / ".venv").symlink_to(sys.prefix)  # the README is read where the package was set up
        self._environment = {
            **os.environ,
            "KOHORT_BOOTSTRAP": bootstrap,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",  # notes and results in the order in which a terminal shows them
        }

    def take(self, block: Block) -> None:
        """Do what the block says; whatever goes wrong names the place."""
        try:
            if "file" in block.marks:
                (self._directory / block.marks["file"]).write_text(self._here(block.text))
            elif block.kind != "python":
                for command in block.commands:
                    self._type(command)
            elif "pytest" in block.marks:
                self._test(block)
            else:
                self._execute(block)
        except Exception as error:
            error.add_note(f"at {block}")
            raise

    def _here(self, text: str) -> str:
        """The text with addresses and directories of this run; who listens takes a free port."""
        text = re.sub(r"--listen (\w+://)?\S+", r"--listen \g<1>127.0.0.1:0", text)
        text = re.sub(r"(?:127\.0\.0\.1|localhost):9092", self._bootstrap, text)
        for port, own in self._ports.items():
            text = re.sub(rf"[a-z0-9.]+:{port}\b", f"127.0.0.1:{own}", text)
        # Spark's Java stays in the directory in which it was started, wherever this process goes.
        return re.sub(_SPARKS_PATH, rf"\g<0>{self._directory}/", text)

    def _type(self, command: Command) -> None:
        line = self._here(command.text)
        if command.runs_beside:
            self._start(command, line.removesuffix(" &"))
            return
        if set_ := re.fullmatch(r"export (\w+)=(\S+)", line):  # each command has a shell of its own
            self._environment[set_[1]] = set_[2]
            return
        printed, code = self._output(line, interrupt=command.runs_until_interrupted)
        expected = (0, INTERRUPTED) if command.runs_until_interrupted else (0,)
        assert code in expected, f"{line}\n{printed}exit code {code}"
        if command.shown is not None:
            assert matches(self._here(command.shown), printed), f"{line}\n{printed}"

    def _start(self, command: Command, line: str) -> None:
        """A broker that runs until the page ends; it prints a line for each port that it listens on."""
        running = subprocess.Popen(
            ["bash", "-c", f"exec {line}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
        )
        self._beside.append(running)
        assert running.stdout is not None
        ports = re.findall(r"--listen \S+:(\d+)", command.text)
        printed = "".join(running.stdout.readline() for _ in ports)
        own = re.findall(r"listening on \S+:(\d+)", printed)
        assert len(own) == len(ports), f"{line}\n{printed}"
        self._ports |= dict(zip(ports, own, strict=True))
        if command.shown is not None:
            assert matches(self._here(command.shown), printed), f"{line}\n{printed}"

    def end(self) -> None:
        """End what runs beside."""
        for running in self._beside:
            with running:
                running.terminate()

    def _output(self, line: str, *, interrupt: bool) -> tuple[str, int]:
        """What a command prints, and its exit code; ``interrupt`` it after its first line."""
        running = subprocess.Popen(
            ["bash", "-c", line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
            start_new_session=True,
        )
        end = threading.Timer(PATIENCE_SECONDS, os.killpg, (running.pid, signal.SIGKILL))
        end.start()
        with running:
            assert running.stdout is not None
            printed = ""
            if interrupt:
                printed = running.stdout.readline()
                os.killpg(running.pid, signal.SIGINT)
            printed += running.stdout.read()
        end.cancel()
        return printed, running.returncode

    def _test(self, block: Block) -> None:
        (self._directory / "test_page.py").write_text(self._here(block.text))
        command = f"{sys.executable} -m pytest -q -p no:cacheprovider test_page.py"
        self._type(Command(command))

    def _execute(self, block: Block) -> None:
        # Empty lines in front: a traceback then names the line of the page.
        source = "\n" * (block.line - 1) + self._here(block.text)
        code = compile(source, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        printed = _FirstLine() if "endless" in block.marks else io.StringIO()
        with contextlib.redirect_stdout(printed):
            if "endless" in block.marks:
                with contextlib.suppress(Enough):
                    self._run(code)
                assert printed.getvalue(), "an endless program that ends"
            else:
                self._run(code)
        if block.shown is not None:
            assert matches(self._here(block.shown), printed.getvalue()), printed.getvalue()

    def _run(self, code: object) -> None:
        made = eval(code, self._names)  # type: ignore[arg-type]  # of compile, which mypy takes for anything
        if inspect.iscoroutine(made):
            asyncio.run(made)


def follow(page: Page, directory: Path, wanted: Callable[[Block], bool] = lambda block: True) -> int:
    """Take the steps of a page that are wanted, in order, and count those that a reader sees."""
    steps = [block for block in page.to_run if wanted(block)]
    with Broker(configs=CONFIGS) as broker:
        reader = Reader(broker.bootstrap, directory)
        try:
            for block in steps:
                reader.take(block)
        finally:
            reader.end()
    return sum(not block.hidden for block in steps)
