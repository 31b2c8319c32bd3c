"""Files that are made again when they are gone: the script before Java, the archive for executors."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kohort.model.errors import KohortError


class CacheError(KohortError):
    """A file that can be made again cannot be kept."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"cannot write {path}: {error.strerror}", hint="set XDG_CACHE_HOME to a directory of yours"
        )


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where Kohort keeps such files for the user."""
    given = environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if os.path.isabs(given) else Path.home() / ".cache") / "kohort"


def keep(path: Path, content: bytes, *, executable: bool = False) -> Path:
    """Make ``content`` the file at ``path``, unless it is; CacheError if that is impossible.

    In one step: another process sees all of it or nothing.
    """
    try:
        is_there = path.is_file() and path.read_bytes() == content
        if not is_there or (executable and not os.access(path, os.X_OK)):
            _replace(path, content, 0o755 if executable else 0o644)
    except OSError as error:
        raise CacheError(path, error) from error
    return path


def _replace(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
