"""Where fetched peers are kept, and how a folder gets there whole or not at all."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("KOHORT_PEERS_CACHE", ROOT / ".cache" / "peers"))
JAVA_SOURCES = ROOT / "tests" / "interop" / "java"
JS_SOURCES = ROOT / "tests" / "interop" / "js"
GO_SOURCES = ROOT / "tests" / "interop" / "go"
LOAD_SOURCES = ROOT / "benchmarks" / "load"

COMMAND_TIMEOUT_SECONDS = 600.0
# How the package tools of the three ecosystems say that there was no answer, as opposed to "no such thing".
UNREACHABLE_SIGNS = (
    "unknown host",
    "could not resolve host",
    "name resolution",
    "connection refused",
    "connection timed out",
    "network is unreachable",
    "no route to host",
    "no such host",
    "enotfound",
    "econnrefused",
    "etimedout",
    "eai_again",
    "offline mode",
    "i/o timeout",
)


class FetchError(Exception):
    """A peer could not be fetched or built.

    ``unreachable``: the package source did not answer at all. Only then may a test skip.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        lowered = message.lower()
        self.unreachable = any(sign in lowered for sign in UNREACHABLE_SIGNS)


def run(command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a command to its end and return its standard output; raises FetchError with everything it said."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=None if env is None else {**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"{command[0]} gave no result within {COMMAND_TIMEOUT_SECONDS:.0f} s") from error
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()
        raise FetchError(f"{' '.join(command[:4])} … exited with {done.returncode}:\n{said[-4000:]}")
    return done.stdout


def digest(parts: Iterable[str | bytes]) -> str:
    """A short name for exactly these inputs."""
    state = hashlib.sha256()
    for part in parts:
        state.update(part.encode() if isinstance(part, str) else part)
        state.update(b"\0")
    return state.hexdigest()[:12]


def digest_files(folder: Path, patterns: tuple[str, ...]) -> str:
    """A short name for the present content of some files of a folder."""
    files = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return digest(item for path in files for item in (path.name, path.read_bytes()))


@contextmanager
def _exclusive(folder: Path, kind: str) -> Iterator[None]:
    """One process at a time fetches a kind: the workers of a run share the cache, and so do two runs."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def keep(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """The folder ``kind-key``; if it is not there, ``build`` fills it and older ones of the kind go."""
    home = CACHE / f"{kind}-{key}"
    if home.is_dir():
        return home
    with _exclusive(CACHE, kind):
        if home.is_dir():
            return home
        fresh = Path(tempfile.mkdtemp(prefix=f".{kind}-", dir=CACHE))
        try:
            build(fresh)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        for stale in CACHE.glob(f"{kind}-{'?' * len(key)}"):
            shutil.rmtree(stale, ignore_errors=True)
        fresh.rename(home)
    return home
