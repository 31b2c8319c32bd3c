"""What CI forgives: at most three tests that failed once and then pass twice, alone. Nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.ci import CiReport, reason_to_fail

TOOL = Path(__file__).parents[3] / "tools" / "ci.py"
FLAKY = """
from pathlib import Path
def test_flaky():
    first = not Path("ran").exists()
    Path("ran").write_text("")
    assert not first
"""
MAKEFILE = """
test:
\t@.venv/bin/python -m pytest -q $(PYTEST_PLUGINS_OF_CI) {options} tests
lint:
\t@{lint}
types:
\t@true
"""


def report(failed: int = 0, exit_status: int = 1, *broken: str) -> CiReport:
    return CiReport(
        exit_status=exit_status, failed=[f"test_{number}" for number in range(failed)], broken=list(broken)
    )


@pytest.mark.parametrize("failed", [1, 2, 3])
def test_up_to_three_failed_tests_get_a_second_chance(failed: int) -> None:
    assert reason_to_fail(report(failed)) is None


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, "no test has run"),
        (report(4), "4 tests failed"),
        (report(1, 2), "status 2"),  # interrupted, or files that cannot be collected
        (report(0, 3), "status 3"),  # an error inside pytest
        (report(1, 1, "test_dead"), "test_dead"),
        (report(0, 0), "status 0"),  # types fail, tests pass
    ],
)
def test_everything_else_gets_none(found: CiReport | None, reason: str) -> None:
    said = reason_to_fail(found)
    assert said is not None
    assert reason in said


def ci(where: Path, program: str, lint: str = "true", options: str = "") -> subprocess.CompletedProcess[str]:
    (where / "tests").mkdir()
    (where / "tools").mkdir()
    shutil.copy(TOOL, where / "tools" / "ci.py")
    (where / ".venv").symlink_to(sys.prefix)
    (where / "tests" / "test_it.py").write_text(program)
    (where / "Makefile").write_text(MAKEFILE.format(lint=lint, options=options))
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MAKE"))}
    # Only the plugins whose options are used: each run would load a dozen.
    outside |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin,pytest_timeout"}
    return subprocess.run(
        [sys.executable, "tools/ci.py", "make", "test"],
        cwd=where,
        env=outside,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_test_that_then_passes_twice_is_printed_as_flaky(tmp_path: Path) -> None:
    done = ci(tmp_path, FLAKY)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "FLAKY tests/test_it.py::test_flaky"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "lint", "options", "last_line"),
    [
        ("def test_bad():\n    assert False", "true", "", "CI: failed again: tests/test_it.py::test_bad"),
        (FLAKY, "echo not formatted; false", "", "not formatted"),
        ("import nothing_of_that_name", "true", "", "CI: failed: not only tests failed: tests/test_it.py"),
        (
            "import os\ndef test_dies():\n    os._exit(3)",
            "true",
            "-n 1",
            "CI: failed: not only tests failed: tests/test_it.py::test_dies",
        ),
    ],
    ids=["always failing", "lint", "collection", "a worker that dies"],
)
def test_a_run_that_fails_for_another_reason_fails(
    tmp_path: Path, program: str, lint: str, options: str, last_line: str
) -> None:
    done = ci(tmp_path, program, lint, options)
    assert done.returncode != 0
    assert done.stdout.splitlines()[-1] == last_line, done.stdout + done.stderr
