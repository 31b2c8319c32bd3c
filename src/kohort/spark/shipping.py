"""Kohort's own code as one file that Spark gives to executors in other processes."""

import io
import os
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import kohort
from kohort.spark.cache import cache_directory, keep

_PACKAGES = ("kohort", "pyspark_kohort", "pyspark_kohort_offsets")
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def archive(cache: Path | None = None) -> Path:
    """A zip of the installed packages, made again when a file of them has changed.

    Where Kohort runs from such a zip already, it is that one.
    """
    root = Path(kohort.__file__).parent.parent
    if root.is_file():
        return root
    content = _packed(root)
    name = f"kohort-{kohort.__version__}-{sha256(content).hexdigest()[:12]}.zip"
    return keep((cache or cache_directory()).absolute() / name, content)


def _packed(root: Path) -> bytes:
    """The same bytes for the same files: executors that have them need not fetch them again."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archived:
        for path in sorted(_files(root)):
            entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), _LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archived.writestr(entry, path.read_bytes())
    return packed.getvalue()


def _files(root: Path) -> Iterator[Path]:
    for package in _PACKAGES:
        for folder, folders, names in os.walk(root / package):
            folders[:] = [name for name in folders if name != "__pycache__"]
            yield from (Path(folder, name) for name in names if not name.endswith(".pyc"))
