"""A disk that fails on demand, and forgets what was never synced when the power goes.

``FakeDisk`` keeps files in memory behind the seam of ``kohort.log.files.disk``. It is stricter than most real
disks: bytes survive a crash only if their file was synced after they were written, a name only if its
directory was.
"""

import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from enum import Enum
from typing import NamedTuple, ParamSpec, TypeVar

from kohort.log.background import ThreadStartError
from kohort.log.files.disk import Bytes, DirectoryInUseError, Entry
from kohort.log.files.memory import Immediately

P = ParamSpec("P")
T = TypeVar("T")


class PowerLossError(BaseException):
    """The power is gone: this operation did not happen, and none will until ``FakeDisk.crash``."""


class Survival(Enum):
    """What a crash leaves of bytes that were appended but not synced."""

    NOTHING = "nothing"
    PREFIX = "prefix"  # the first ``kept`` of them: a torn tail
    ZEROS = "zeros"  # the length grew, the content never came


class Fault(NamedTuple):
    """One operation that fails: the ``number``-th of its kind, counted from 1."""

    number: int
    error: int = errno.EIO
    written: int = 0  # bytes a failing write leaves behind; with error 0 it reports them, a short write


class Kind(Enum):
    """What is asked of a disk."""

    OPEN = "open"
    READ = "read"
    WRITE = "write"
    SYNC = "sync"
    RENAME = "rename"
    TRUNCATE = "truncate"
    UNLINK = "unlink"
    MKDIR = "mkdir"
    THREAD = "thread"  # the start of one
    MEMORY = "memory"  # of a job in a thread


class Outage(NamedTuple):
    """``length`` operations of one kind fail, from the ``first`` on (1 is the next one)."""

    kind: Kind
    first: int
    length: int = 1
    error: int = errno.EIO


class Suffering:
    """Counts what is asked for, and lets an outage happen to it."""

    def __init__(self) -> None:
        self.counts: Counter[Kind] = Counter()
        self._outage: Outage | None = None

    def suffer(self, outage: Outage | None) -> None:
        """Arm an outage, counted from now on; ``None`` ends it."""
        self._outage = outage and outage._replace(first=self.counts[outage.kind] + outage.first)

    @property
    def is_suffering(self) -> bool:
        """Whether an outage is armed and not over."""
        outage = self._outage
        return outage is not None and self.counts[outage.kind] + 1 < outage.first + outage.length

    def is_hit(self, kind: Kind) -> bool:
        """Count one operation: whether it fails."""
        self.counts[kind] += 1
        outage = self._outage
        if outage is None or outage.kind is not kind:
            return False
        return outage.first <= self.counts[kind] < outage.first + outage.length


class FaultyExecutor(Suffering, Immediately):
    """Threads that cannot be started, and jobs that find no memory, on demand."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        if self.is_hit(Kind.THREAD):
            raise ThreadStartError(RuntimeError("can't start new thread"))
        if not self.is_hit(Kind.MEMORY):
            return super().submit(fn, *args, **kwargs)
        future: Future[T] = Future()
        future.set_exception(MemoryError())
        return future


class _Inode:
    """A file: what a reader sees, and what the disk has."""

    __slots__ = ("content", "dropped", "modified", "synced")

    def __init__(self) -> None:
        self.content = bytearray()
        self.synced = b""
        self.modified = 0
        self.dropped: set[int] = set()  # positions that no later sync writes, unless they are written again

    def drop_unsynced(self) -> None:
        """A sync has failed: the system takes what was to be written for written, as Linux does."""
        safe = self.synced
        unsafe = (at for at, byte in enumerate(self.content) if at >= len(safe) or safe[at] != byte)
        self.dropped.update(unsafe)

    def sync(self) -> None:
        """Everything is on the disk, but what an earlier sync has dropped."""
        stored = bytearray(self.content)
        for at in self.dropped:
            if at < len(stored):
                stored[at] = self.synced[at] if at < len(self.synced) else 0
        self.synced = bytes(stored)

    def crash(self, survival: Survival, kept: int) -> None:
        safe = self.synced
        added = self.content[len(safe) :] if self.content.startswith(safe) else b""
        if survival is Survival.PREFIX:
            safe += added[:kept]
        elif survival is Survival.ZEROS:
            safe += bytes(len(added))
        self.content = bytearray(safe)
        self.synced = bytes(safe)


class _Directory:
    """Names: those a reader sees, and those the disk has."""

    __slots__ = ("names", "synced")

    def __init__(self) -> None:
        self.names: dict[str, _Node] = {}
        self.synced: dict[str, _Node] = {}

    def crash(self, survival: Survival, kept: int) -> None:
        self.names = dict(self.synced)
        for node in self.names.values():
            node.crash(survival, kept)


_Node = _Inode | _Directory


class FakeDisk(Suffering):
    """A ``kohort.log.files.disk.Disk`` in memory. Set ``write_faults`` and the like, run, ``crash``, look."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0  # everything that changes the disk, counted
        self.writes = 0
        self.syncs = 0
        self.write_faults: dict[int, Fault] = {}
        self.sync_faults: dict[int, Fault] = {}
        self.power_off_at: int | None = None  # the operation of this number, and all after it, do not happen
        self.capacity: int | None = None  # bytes all files together may have
        self.clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000  # the time files are given
        self._root = _Directory()
        self._locked: set[str] = set()

    def fail(self, *, writes: Iterable[Fault] = (), syncs: Iterable[Fault] = ()) -> None:
        """Arm faults. Numbers count from now on."""
        self.write_faults = {self.writes + fault.number: fault for fault in writes}
        self.sync_faults = {self.syncs + fault.number: fault for fault in syncs}

    def asked(self, kind: Kind, path: str = "") -> None:
        """Every operation passes here before it happens."""
        if self.is_hit(kind) and self._outage is not None:
            if self._outage.error == errno.ENOMEM:
                raise MemoryError  # as Python says it, without a path
            raise OSError(self._outage.error, os.strerror(self._outage.error), path or None)

    def crash(self, survival: Survival = Survival.NOTHING, kept: int = 0) -> None:
        """Cut the power and start again: what was not synced is forgotten, as ``survival`` says."""
        self._root.crash(survival, kept)
        self.kill()

    def kill(self) -> None:
        """Kill the process only: files stay as they were seen, locks are released, faults disarmed."""
        self._locked.clear()
        self.power_off_at = self.capacity = None
        self.suffer(None)
        self.fail()

    def used(self) -> int:
        """Bytes in all files."""
        return sum(len(inode.content) for inode in _inodes(self._root))

    def open(self, path: str, *, create: bool = False) -> "FakeFile":
        self.asked(Kind.OPEN, path)
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.count_operation()
            node = directory.names[name] = _Inode()
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return FakeFile(self, node, path)

    def entries(self, directory: str) -> list[Entry]:
        self.asked(Kind.OPEN, directory)
        node = self._find(directory)
        if not isinstance(node, _Directory):
            return []
        return [
            Entry(name, 0, True, 0)
            if isinstance(inner, _Directory)
            else Entry(name, len(inner.content), False, inner.modified)
            for name, inner in node.names.items()
        ]

    def make_directory(self, path: str) -> None:
        self.asked(Kind.MKDIR, path)
        node = self._root
        for name in _parts(path):
            if name not in node.names:
                self.count_operation()
                node.names[name] = _Directory()
            inner = node.names[name]
            if not isinstance(inner, _Directory):
                raise FileExistsError(errno.EEXIST, "is a file", path)
            node = inner

    def rename(self, old: str, new: str) -> None:
        self.asked(Kind.RENAME, old)
        source, old_name = self._parent(old)
        target, new_name = self._parent(new)
        if old_name not in source.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        self.count_operation()
        target.names[new_name] = source.names.pop(old_name)

    def remove(self, path: str) -> None:
        self.asked(Kind.UNLINK, path)
        directory, name = self._parent(path)
        if not isinstance(directory.names.get(name), _Inode):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self.count_operation()
        del directory.names[name]

    def remove_directory(self, path: str) -> None:
        self.asked(Kind.UNLINK, path)
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        if not isinstance(node, _Directory) or node.names:
            raise OSError(errno.ENOTEMPTY, "no empty directory", path)
        self.count_operation()
        directory, name = self._parent(path)
        del directory.names[name]

    def sync_directory(self, path: str) -> None:
        self.asked(Kind.SYNC, path)
        self._count_sync()
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        node.synced = dict(node.names)

    def lock(self, path: str) -> "FakeLock":
        if path in self._locked:
            raise DirectoryInUseError(os.path.dirname(path), "")
        self._locked.add(path)
        return FakeLock(self._locked, path)

    def count_operation(self) -> None:
        """Every change of the disk passes here first."""
        self.operations += 1
        if self.power_off_at is not None and self.operations >= self.power_off_at:
            raise PowerLossError

    def write(self, inode: _Inode, content: Bytes, position: int) -> int:
        """Write into a file, as far as faults and space allow."""
        self.count_operation()
        self.writes += 1
        fault = self.write_faults.get(self.writes) or self._out_of_space(inode, len(content), position)
        if fault is not None:
            content = memoryview(content)[: fault.written]
        inode.content.extend(bytes(max(position - len(inode.content), 0)))
        inode.content[position : position + len(content)] = content
        inode.modified = self.clock()
        if inode.dropped:
            inode.dropped.difference_update(range(position, position + len(content)))
        if fault is not None and fault.error:
            raise OSError(fault.error, os.strerror(fault.error))
        return len(content)

    def sync(self, inode: _Inode) -> None:
        """Make the bytes of a file survive a crash."""
        try:
            self._count_sync()
        except OSError:
            inode.drop_unsynced()
            raise
        inode.sync()

    def _count_sync(self) -> None:
        self.count_operation()
        self.syncs += 1
        fault = self.sync_faults.get(self.syncs)
        if fault is not None:
            raise OSError(fault.error, os.strerror(fault.error))

    def _out_of_space(self, inode: _Inode, size: int, position: int) -> Fault | None:
        if self.capacity is None:
            return None
        growth = position + size - len(inode.content)
        free = self.capacity - self.used()
        if growth <= free:
            return None
        # A full disk first takes what it can, and refuses only when it can take nothing.
        fits = size - growth + max(free, 0)
        return Fault(self.writes, 0 if fits > 0 else errno.ENOSPC, fits)

    def _find(self, path: str) -> _Node | None:
        node: _Node | None = self._root
        for name in _parts(path):
            node = node.names.get(name) if isinstance(node, _Directory) else None
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        *above, name = _parts(path)
        node = self._find("/".join(above))
        if not isinstance(node, _Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return node, name


class FakeFile:
    """An open file of a ``FakeDisk``."""

    def __init__(self, disk: FakeDisk, inode: _Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self._path = path

    def read(self, size: int, position: int) -> bytes:
        self._disk.asked(Kind.READ, self._path)
        return bytes(self._inode.content[position : position + size])

    def write(self, content: Bytes, position: int) -> int:
        try:
            self._disk.asked(Kind.WRITE, self._path)
        except (OSError, MemoryError):
            self._disk.write(self._inode, memoryview(content)[: len(content) // 2], position)
            raise
        return self._disk.write(self._inode, content, position)

    def sync(self) -> None:
        try:
            self._disk.asked(Kind.SYNC, self._path)
        except OSError:
            self._inode.drop_unsynced()
            raise
        self._disk.sync(self._inode)

    def truncate(self, size: int) -> None:
        self._disk.asked(Kind.TRUNCATE, self._path)
        self._disk.count_operation()
        content = self._inode.content
        del content[size:]
        content.extend(bytes(size - len(content)))
        self._inode.dropped = {at for at in self._inode.dropped if at < size}

    def set_modified(self, modified: int) -> None:
        self._inode.modified = modified

    def size(self) -> int:
        return len(self._inode.content)


class FakeLock:
    """A lock that a crash or ``release`` gives back."""

    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.discard(self._path)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _inodes(directory: _Directory) -> Iterator[_Inode]:
    for node in directory.names.values():
        if isinstance(node, _Directory):
            yield from _inodes(node)
        else:
            yield node
