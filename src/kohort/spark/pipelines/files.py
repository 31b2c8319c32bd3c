"""What an archive asks of a file system, and the file system of this machine.

Tests put another one in its place, which dies at any step. Errors are ``OSError``s, as they come.
"""

import ctypes
import fcntl
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from kohort.model.errors import KohortError

_AT_FDCWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux; RENAME_SWAP of macOS has the same number


class CannotExchangeError(KohortError):
    """This system has no way to exchange two directories in one step."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"small files cannot be merged here: {reason}",
            hint="it takes Linux or macOS, and a file system of its own such as ext4, xfs, btrfs or apfs",
        )


class UnfitDirectoryError(KohortError):
    """An archive or a lake cannot be exact there."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            f"cannot keep tables in {where}: {reason}",
            hint="each record lands once because a lock keeps instances apart and a rename publishes a batch "
            "in one step: write to a disk or a mounted file system that has both, and copy from there",
        )


_URI = re.compile(r"([a-z][a-z0-9+.-]+):/", re.IGNORECASE)


def local_directory(text: str) -> Path:
    """A directory as a user names it, also as ``file:///…``. Raises UnfitDirectoryError for other stores."""
    found = _URI.match(text)
    if found is None:
        return Path(text)
    if found[1].lower() != "file":
        raise UnfitDirectoryError(text, f"{found[1]} is not a directory, and has no locks")
    return Path(unquote(urlsplit(text).path))


def is_uri(root: Path) -> bool:
    """Whether this names a place in an object store or another file system of Hadoop."""
    return _URI.match(str(root)) is not None


def check_directory(root: Path) -> None:
    """Raises UnfitDirectoryError for an object store, and where locks do not work. Makes the directory."""
    if found := _URI.match(str(root)):
        raise UnfitDirectoryError(str(root), f"{found[1]} is not a directory, and has no locks")
    root.mkdir(parents=True, exist_ok=True)
    if (kind := file_system(root.resolve(), _mounts())) in _STORES:
        raise UnfitDirectoryError(
            str(root), f"{kind} is an object store, which copies where it should rename"
        )
    files = LocalFiles(root)
    probe = f"_kohort/lock-probe-{uuid4().hex[:8]}"
    try:
        with files.locked_if_free(probe) as ours, files.locked_if_free(probe) as theirs:
            if not ours or theirs:
                raise UnfitDirectoryError(str(root), "two processes would get the same lock")
    except OSError as error:
        raise UnfitDirectoryError(str(root), f"locks do not work: {error.strerror}") from error
    finally:
        files.at(probe).unlink(missing_ok=True)


# Object stores that are mounted: they lock on one machine only, and copy a file to give it another name.
_STORES = {
    *("fuse.s3fs", "fuse.goofys", "fuse.geesefs", "fuse.mount-s3", "fuse.mountpoint-s3", "fuse.rclone"),
    *("fuse.gcsfuse", "fuse.blobfuse", "fuse.blobfuse2", "fuse.ossfs"),
}


def _mounts() -> str:
    """What is mounted, as Linux lists it; nothing is known elsewhere."""
    try:
        return Path("/proc/self/mountinfo").read_text()
    except OSError:
        return ""


def file_system(directory: Path, mounts: str) -> str:
    """The kind of the file system that has a directory, such as ``ext4``; "" if it is not listed."""
    found, longest = "", -1
    for line in mounts.splitlines():
        place, _, source = line.partition(" - ")
        mounted = Path(place.split()[4].replace("\\040", " "))
        if directory.is_relative_to(mounted) and len(mounted.parts) > longest:
            found, longest = source.split()[0], len(mounted.parts)
    return found


class DirectoryEntry(NamedTuple):
    """One name in a directory."""

    name: str
    size: int
    is_directory: bool


class FileTree(Protocol):
    """A tree of files; paths start at its root."""

    def read(self, path: str) -> bytes | None:
        """A whole file, None if there is none."""
        ...

    def replace(self, path: str, content: bytes) -> None:
        """Put a file there in one step: after a crash it is the old one or the new one. Durable."""
        ...

    def create(self, path: str, content: bytes) -> None:
        """Put a new file there in one step; raises FileExistsError. Durable."""
        ...

    def exists(self, path: str) -> bool: ...

    def sync(self, path: str) -> None:
        """Return when the content of a finished file is on the disk."""
        ...

    def move(self, source: str, target: str) -> None:
        """Give a file another name, in a directory that is made if need be. Durable."""
        ...

    def remove(self, path: str) -> None:
        """Take a file away. Durable."""
        ...

    def entries(self, directory: str) -> list[DirectoryEntry]:
        """What is in a directory, by name; nothing if there is no such directory."""
        ...

    def locked(self, path: str) -> AbstractContextManager[None]:
        """Hold the lock of this name in the block; waits for its holder. It ends with its process."""
        ...


class LocalFiles:
    """The files under one directory of this machine, or of a mounted one whose locks work."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def at(self, path: str) -> Path:
        return self.root / path

    def read(self, path: str) -> bytes | None:
        try:
            return self.at(path).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, path: str, content: bytes) -> None:
        target = self.at(path)
        self._make(target.parent)
        beside = target.with_name(f"{target.name}.new")
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
        _sync_directory(target.parent)

    def create(self, path: str, content: bytes) -> None:
        beside = f"{path}.{uuid4().hex[:8]}"
        self.replace(beside, content)
        try:
            os.link(self.at(beside), self.at(path))
        finally:
            self.remove(beside)

    def exists(self, path: str) -> bool:
        return self.at(path).exists()

    def sync(self, path: str) -> None:
        descriptor = os.open(self.at(path), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def move(self, source: str, target: str) -> None:
        there = self.at(target)
        self._make(there.parent)
        self.at(source).rename(there)
        _sync_directory(there.parent)

    def remove(self, path: str) -> None:
        self.at(path).unlink()
        _sync_directory(self.at(path).parent)

    def entries(self, directory: str) -> list[DirectoryEntry]:
        found = []
        with suppress(FileNotFoundError), os.scandir(self.at(directory)) as scanned:
            for entry in scanned:
                with suppress(FileNotFoundError):  # it may go while we look
                    found.append(DirectoryEntry(entry.name, entry.stat().st_size, entry.is_dir()))
        return sorted(found)

    @contextmanager
    def locked(self, path: str) -> Iterator[None]:
        with self._lock_file(path) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield

    @contextmanager
    def locked_if_free(self, path: str) -> Iterator[bool]:
        """Hold the lock in the block and yield True, or yield False if another process has it."""
        with self._lock_file(path) as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    @contextmanager
    def _lock_file(self, path: str) -> Iterator[int]:
        target = self.at(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(target, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(self.at(path), ignore_errors=True)

    def exchange(self, one: str, other: str) -> None:
        """Let two directories change places in one step, durably; raises CannotExchangeError."""
        first, second = self.at(one), self.at(other)
        _exchange(os.fsencode(first), os.fsencode(second))
        _sync_directory(first.parent)
        _sync_directory(second.parent)

    def _make(self, directory: Path) -> None:
        if directory.is_dir():
            return
        self._make(directory.parent)
        directory.mkdir(exist_ok=True)
        _sync_directory(directory.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(first: bytes, second: bytes) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(first, second, _EXCHANGE)
        else:
            failed = library.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _EXCHANGE)
    except AttributeError as error:
        raise CannotExchangeError("this system cannot exchange two directories in one step") from error
    if failed:
        raise CannotExchangeError(os.strerror(ctypes.get_errno()))
