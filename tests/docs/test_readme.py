"""What the README says to type works as it stands, apart from the port."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kohort.testing import Broker

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:9092"


def blocks(language: str, containing: str = "") -> list[str]:
    return [text for kind, text in BLOCKS if kind == language and containing in text]


def shell(command: str, bootstrap: str) -> str:
    """Run a line of the README as a user would, with this interpreter's `kohort`."""
    environment = {**os.environ, "KOHORT_BOOTSTRAP": bootstrap}
    command = command.replace(".venv/bin/kohort", f"{sys.executable} -m kohort.cli.main")
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_the_first_commands_and_the_first_program_work() -> None:
    (commands,) = blocks("console")
    (program,) = blocks("python", "confluent_kafka")
    with Broker(configs={"group.initial.rebalance.delay.ms": 0}) as broker:
        printed = [
            shell(line.removeprefix("$ "), broker.bootstrap) for line in commands.splitlines() if line.strip()
        ]
        assert "alice" in printed[-1]
        assert "2 pens" in printed[-1]
        done = subprocess.run(
            [sys.executable, "-c", program.replace(ADDRESS, broker.bootstrap)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert "b'alice' b'1 book'" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_the_program_with_our_own_clients_runs() -> None:
    (program,) = blocks("python", "kohort.Producer")
    with Broker(configs={"group.initial.rebalance.delay.ms": 0}) as broker:
        done = subprocess.run(
            [sys.executable, "-c", program.replace(ADDRESS, broker.bootstrap)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.stdout == "b'carol' b'3 lamps'\n", done.stdout + done.stderr


@pytest.mark.slow
def test_the_snippets_for_tests_run(tmp_path: Path) -> None:
    (fixture,) = blocks("python", "def test_my_service")
    (embedded,) = blocks("python", "from kohort.testing import Broker")
    (tmp_path / "test_readme_snippet.py").write_text(fixture)
    for command in (
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        ["-c", embedded],
    ):
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    assert "make test" in script
    assert "make interop" in script
    assert script.index("make test") < script.index("make interop")


def test_every_target_of_the_makefile_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY:"))
    explained = set(re.findall(r"^(\w+):.*## ", makefile, re.MULTILINE))
    defined = set(re.findall(r"^(\w+):", makefile, re.MULTILINE))
    assert set(phony.removeprefix(".PHONY:").split()) <= defined
    assert defined <= explained
