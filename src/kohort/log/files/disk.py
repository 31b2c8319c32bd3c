"""The seam to files: the few things a log asks of a disk, and the disk of this machine.

``kohort.log.files.memory`` implements it without files, ``kohort.testing.faults`` with a disk that fails and
forgets.
Nothing above this module touches the operating system's files. Errors are ``OSError``s, as they come.
"""

import errno
import fcntl
import os
from typing import NamedTuple, Protocol

from kohort.model.errors import KohortError

Bytes = bytes | bytearray | memoryview

_DIRECTORY_MODE, _FILE_MODE = 0o700, 0o600  # of what is made: records are for the user who runs the broker


class Entry(NamedTuple):
    """One name in a directory."""

    name: str
    size: int
    is_directory: bool
    modified: int  # milliseconds since 1970


class File(Protocol):
    """An open file. It closes with its last reference: a sync in a thread may outlive its caller."""

    def read(self, size: int, position: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end of the file."""
        ...

    def write(self, content: Bytes, position: int) -> int:
        """Write at ``position`` and say how many bytes went in: on a full disk perhaps not all."""
        ...

    def sync(self) -> None:
        """Return when everything written so far is on the disk (the file's name may not be)."""
        ...

    def truncate(self, size: int) -> None: ...

    def set_modified(self, modified: int) -> None:
        """Have the file last modified at this time, in milliseconds since 1970."""
        ...

    def size(self) -> int: ...


class Lock(Protocol):
    """A directory kept to one process until ``release``."""

    def release(self) -> None: ...


class Disk(Protocol):
    """Where files live. Paths are text with ``/``; making a name durable takes ``sync_directory``."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def entries(self, directory: str) -> list[Entry]:
        """What is in a directory, in no particular order; nothing if there is no such directory."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it; one that exists is fine."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces a file that has the new name."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def lock(self, path: str) -> Lock:
        """Take the lock file ``path``; raises ``DirectoryInUseError``."""
        ...


class DirectoryInUseError(KohortError):
    """Another process has the data directory open."""

    def __init__(self, directory: str, owner: str) -> None:
        by = f"by process {owner}" if owner else "by another process"
        super().__init__(
            f"the data directory {directory!r} is in use {by}",
            hint="stop that broker first, or start this one with a data directory of its own",
        )


class ShortWriteError(OSError):
    """The disk took only a part of what was to be written."""

    def __init__(self, written: int, wanted: int) -> None:
        super().__init__(errno.ENOSPC, f"only {written} of {wanted} bytes were written")


def write_all(file: File, content: Bytes, position: int) -> None:
    """Write everything or raise; what a partial write left behind is the caller's to cut."""
    written = file.write(content, position)
    if written != len(content):
        raise ShortWriteError(written, len(content))


def read_file(disk: Disk, path: str) -> bytes | None:
    """All bytes of a small file; ``None`` if there is none."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    return file.read(file.size(), 0)


def replace_file(disk: Disk, path: str, content: bytes) -> None:
    """Put ``content`` in place of a file, durably: a crash leaves the old content or the new, whole."""
    disk.rename(write_aside(disk, path, content), path)
    disk.sync_directory(os.path.dirname(path))


def write_aside(disk: Disk, path: str, content: bytes) -> str:
    """Write and sync what is to replace a file; returns the path to rename."""
    temporary = path + ".tmp"
    remove_if_there(disk, temporary)  # a file whose sync failed is never synced again
    file = disk.open(temporary, create=True)
    file.truncate(0)
    write_all(file, content, 0)
    file.sync()
    return temporary


def remove_if_there(disk: Disk, path: str) -> None:
    """Remove a file that may not exist."""
    try:
        disk.remove(path)
    except FileNotFoundError:
        return


def remove_tree(disk: Disk, path: str) -> None:
    """Remove a directory with everything in it; one that is gone is fine."""
    for entry in disk.entries(path):
        inner = f"{path}/{entry.name}"
        if entry.is_directory:
            remove_tree(disk, inner)
        else:
            remove_if_there(disk, inner)
    try:
        disk.remove_directory(path)
    except FileNotFoundError:
        return


class RealFile:
    """A file of the operating system, read and written at positions. Its errors name the path."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path

    def __del__(self) -> None:
        os.close(self._descriptor)

    def read(self, size: int, position: int) -> bytes:
        try:
            content = os.pread(self._descriptor, size, position)
            if len(content) == size or not content:
                return content
            return self._read_on(content, size, position)
        except OSError as error:
            raise self._named(error) from None

    def _read_on(self, first: bytes, size: int, position: int) -> bytes:
        # Linux returns at most 2 GiB - 4 KiB at once, and a signal may cut a read short.
        parts = [first]
        missing = size - len(first)
        while missing and (part := os.pread(self._descriptor, missing, position + size - missing)):
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def write(self, content: Bytes, position: int) -> int:
        try:
            return os.pwrite(self._descriptor, content, position)
        except OSError as error:
            raise self._named(error) from None

    def sync(self) -> None:
        try:
            _sync(self._descriptor)
        except OSError as error:
            raise self._named(error) from None

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise self._named(error) from None

    def _named(self, error: OSError) -> OSError:
        return OSError(error.errno, error.strerror, self._path)

    def set_modified(self, modified: int) -> None:
        os.utime(self._descriptor, ns=(modified * 1_000_000, modified * 1_000_000))

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size


# macOS has no fdatasync.
_sync = getattr(os, "fdatasync", os.fsync)


class RealDisk:
    """The disk of this machine."""

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(os.open(path, flags, _FILE_MODE), path)

    def entries(self, directory: str) -> list[Entry]:
        try:
            with os.scandir(directory) as found:
                return [_entry(item) for item in found]
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        os.makedirs(path, _DIRECTORY_MODE, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> "RealLock":
        return RealLock(path)


class RealLock:
    """A lock file, held by its open descriptor: the kernel releases it when the process dies."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            # flock also keeps out a second broker of this process; lockf is what a JVM looks at.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise DirectoryInUseError(os.path.dirname(path), owner) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        os.close(self._descriptor)


def _entry(item: "os.DirEntry[str]") -> Entry:
    status = item.stat()
    return Entry(item.name, status.st_size, item.is_dir(), status.st_mtime_ns // 1_000_000)
