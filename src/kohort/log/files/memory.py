"""A disk in memory: the same log, catalog and storage without files, gone with the process.

One implementation of the log over two disks, rather than two logs: the embedded broker of a test behaves like
the real one down to the last retention rule.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from kohort.log.files.disk import Bytes, Entry

P = ParamSpec("P")
T = TypeVar("T")


class MemoryFile:
    """The bytes of a file."""

    __slots__ = ("_content", "modified")

    def __init__(self) -> None:
        self._content = bytearray()
        self.modified = 0

    def read(self, size: int, position: int) -> bytes:
        return bytes(memoryview(self._content)[position : position + size])

    def write(self, content: Bytes, position: int) -> int:
        self.modified = time.time_ns() // 1_000_000
        if position == len(self._content):
            self._content += content
        else:
            self._content += bytes(max(position - len(self._content), 0))
            self._content[position : position + len(content)] = content
        return len(content)

    def sync(self) -> None:
        """Memory is as safe as it gets."""

    def truncate(self, size: int) -> None:
        del self._content[size:]
        self._content += bytes(size - len(self._content))

    def set_modified(self, modified: int) -> None:
        self.modified = modified

    def size(self) -> int:
        return len(self._content)


class MemoryDisk:
    """Directories by path, files by name."""

    def __init__(self) -> None:
        self._directories: dict[str, dict[str, MemoryFile]] = {}

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        directory, name = os.path.split(path)
        files = self._directories.get(directory, {})
        if name in files:
            return files[name]
        if not create or directory not in self._directories:
            raise FileNotFoundError(path)
        return files.setdefault(name, MemoryFile())

    def entries(self, directory: str) -> list[Entry]:
        files = self._directories.get(directory, {})
        inside = [Entry(name, file.size(), False, file.modified) for name, file in files.items()]
        below = [path for path in self._directories if path and os.path.dirname(path) == directory]
        return inside + [Entry(os.path.basename(path), 0, True, 0) for path in below]

    def make_directory(self, path: str) -> None:
        while path not in self._directories:
            self._directories[path] = {}
            path = os.path.dirname(path)

    def rename(self, old: str, new: str) -> None:
        if old in self._directories:
            self._directories[new] = self._directories.pop(old)
            return
        source, name = os.path.split(old)
        target, new_name = os.path.split(new)
        if name not in self._directories.get(source, {}):
            raise FileNotFoundError(old)
        self._directories[target][new_name] = self._directories[source].pop(name)

    def remove(self, path: str) -> None:
        directory, name = os.path.split(path)
        if self._directories.get(directory, {}).pop(name, None) is None:
            raise FileNotFoundError(path)

    def remove_directory(self, path: str) -> None:
        if self._directories.pop(path, None) is None:
            raise FileNotFoundError(path)

    def sync_directory(self, path: str) -> None:
        """Memory is as safe as it gets."""

    def lock(self, path: str) -> "MemoryLock":
        return MemoryLock()


class MemoryLock:
    """An in-memory disk."""

    def release(self) -> None:
        """There is nothing to release."""


class Immediately(Executor):
    """Runs what is submitted at once, in the caller: for work that does not block, and for tests."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # the reader of the future gets it
            future.set_exception(error)
        return future
