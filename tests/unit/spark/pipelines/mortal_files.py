"""A file system in memory that dies at any step, and forgets then what was not synced."""

from collections.abc import Iterator
from contextlib import contextmanager

from kohort.spark.pipelines.files import DirectoryEntry


class DiedError(BaseException):
    """The process is gone; nothing may catch it."""


class MortalFiles:
    """Implements ``Files``. ``dies_at`` counts down with each step that changes something."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.synced: set[str] = set()
        self.dies_at: int | None = None
        self._held: set[str] = set()

    def stage(self, path: str, content: bytes) -> None:
        """A task writes a file; nobody has synced it yet."""
        self._step()
        self.content[path] = content
        self.synced.discard(path)

    def lose_power(self) -> None:
        """What was written but not synced is torn; locks are gone, as with any death."""
        self.process_died()
        for path in self.content.keys() - self.synced:
            self.content[path] = b"torn"

    def process_died(self) -> None:
        self._held.clear()
        self.dies_at = None

    def _step(self) -> None:
        if self.dies_at is not None:
            if self.dies_at == 0:
                raise DiedError
            self.dies_at -= 1

    def read(self, path: str) -> bytes | None:
        return self.content.get(path)

    def replace(self, path: str, content: bytes) -> None:
        self._step()
        self.content[path] = content
        self.synced.add(path)
        self._step()

    def create(self, path: str, content: bytes) -> None:
        if path in self.content:
            raise FileExistsError(path)
        self.replace(path, content)

    def exists(self, path: str) -> bool:
        return path in self.content

    def sync(self, path: str) -> None:
        self._step()
        self.synced.add(path)

    def move(self, source: str, target: str) -> None:
        self._step()
        assert target not in self.content, "a file was overwritten"
        if source in self.synced:
            self.synced.add(target)
        self.content[target] = self.content.pop(source)
        self._step()

    def remove(self, path: str) -> None:
        self._step()
        del self.content[path]
        self._step()

    def entries(self, directory: str) -> list[DirectoryEntry]:
        start = f"{directory}/" if directory else ""
        inside = {path.removeprefix(start) for path in self.content if path.startswith(start)}
        names = {path.split("/")[0]: "/" in path for path in inside}
        return [DirectoryEntry(name, 1, is_directory) for name, is_directory in sorted(names.items())]

    @contextmanager
    def locked(self, path: str) -> Iterator[None]:
        assert path not in self._held, "two had the lock"
        self._held.add(path)
        try:
            yield
        finally:
            self._held.discard(path)
