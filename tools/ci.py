"""Runs a command for CI (``python3 tools/ci.py make test``) and gives a few failed tests a second chance.

``make test`` itself stays strict. CI passes a run with failed tests only if at most three failed, and each
of them then passes twice, alone in a process of its own; each is printed as FLAKY. Everything else fails
the run: lint and types, errors in collecting tests, a worker that died, an interrupted or unfinished run.

This module is also the pytest plugin that writes down what failed. It needs the standard library only.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import pytest

MOST_FLAKY = 3
ROUNDS = 2
TESTS_FAILED = 1  # pytest's exit status for a run that came to its end, with failed tests
PYTHON = ".venv/bin/python"
REPORT = Path(".cache/ci-report.json").absolute()  # tests change the directory


class CiReport(TypedDict):
    """What a run of pytest says about itself when it ends."""

    exit_status: int
    failed: list[str]  # ids of tests, in the order of their failure
    broken: list[str]  # files that cannot be collected, tests during which a worker died


def reason_to_fail(report: CiReport | None) -> str | None:
    """Why failed tests do not get a second chance; None: they get one."""
    if report is None:
        return "no test has run to its end"
    if report["broken"]:
        return "not only tests failed: " + ", ".join(report["broken"])
    if report["exit_status"] != TESTS_FAILED:
        return f"pytest ended with status {report['exit_status']}"
    if len(report["failed"]) > MOST_FLAKY:
        return f"{len(report['failed'])} tests failed; at most {MOST_FLAKY} get a second chance"
    return None


# --- what CI runs ----------------------------------------------------------------------------------


def main(command: list[str]) -> int:
    signal.signal(signal.SIGINT, lambda *_: None)  # the command gets it too, and still prints what failed
    REPORT.unlink(missing_ok=True)
    # Not in PYTEST_ADDOPTS: that would reach the pytests that tests start in other directories.
    status = subprocess.run([*command, "PYTEST_PLUGINS_OF_CI=-p tools.ci"], check=False).returncode
    if status == 0:
        return 0
    report: CiReport | None = json.loads(REPORT.read_text()) if REPORT.exists() else None
    reason = reason_to_fail(report)
    if report is None or reason is not None:
        print(f"CI: failed: {reason}", flush=True)
        return status
    # The command may have failed for lint or types as well.
    if subprocess.run(["make", "lint", "types"], check=False).returncode:
        return status
    for test in report["failed"]:
        if not all(passes(test) for _ in range(ROUNDS)):
            print(f"CI: failed again: {test}", flush=True)
            return status
    for test in report["failed"]:
        print(f"FLAKY {test}", flush=True)
    return 0


def passes(test: str) -> bool:
    """Whether a test passes alone, within the time that ``make interop`` gives."""
    run = [PYTHON, "-m", "pytest", "-q", "--timeout=480", "-o", "faulthandler_timeout=600", test]
    return subprocess.run(run, check=False).returncode == 0


# --- the plugin ------------------------------------------------------------------------------------

_failed: dict[str, None] = {}
_broken: dict[str, None] = {}


def pytest_runtest_logreport(report: "pytest.TestReport") -> None:
    if report.failed:
        # xdist reports a test during which its worker died with "???" for the phase.
        died = report.when not in ("setup", "call", "teardown")
        (_broken if died else _failed)[report.nodeid] = None


def pytest_collectreport(report: "pytest.CollectReport") -> None:
    if report.failed:
        _broken[report.nodeid] = None


def pytest_sessionfinish(exitstatus: int) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(CiReport(exit_status=exitstatus, failed=[*_failed], broken=[*_broken])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
