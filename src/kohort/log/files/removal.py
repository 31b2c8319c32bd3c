"""Removing the directories of deleted logs: renamed at once, freed in a thread, tried again if that fails."""

from concurrent.futures import Executor, Future
from functools import partial

from kohort.log.background import describe, in_thread, report
from kohort.log.files.directory import DataDirectory, ForeignDirectoryError, check_topic_id
from kohort.log.files.disk import remove_tree
from kohort.log.files.sweep import doomed_name
from kohort.model.ids import TopicId
from kohort.model.topics import TopicPartition


class DeletedLogs:
    """What deleted logs have left in one data directory."""

    def __init__(self, directory: DataDirectory, executor: Executor) -> None:
        self._directory = directory
        self._executor = executor
        self._deleted: dict[str, str] = {}  # directories of deleted logs, and what they are to be called
        self._unremoved: set[str] = set()  # those that have that name and are to be removed

    def remove(self, partition: TopicPartition, topic_id: TopicId) -> None:
        """Remove the directory of a log that is closed, now or later; one of another topic stays."""
        path = f"{self._directory.path}/{partition}"
        try:
            check_topic_id(self._directory, path, topic_id)
        except ForeignDirectoryError as error:
            report(f"removing {path!r} of a deleted topic", error, "; it stays where it is")
            return
        except (OSError, MemoryError):
            pass  # it cannot be read: it is the one that was to be opened
        doomed = self._deleted[path] = f"{self._directory.path}/{doomed_name(partition, topic_id)}"
        try:
            self.set_aside(path)
            self._remove_later(doomed)
        except (OSError, MemoryError) as error:
            report(f"removing {path!r} of a deleted topic", error, "; it is tried again")

    async def try_again(self) -> None:
        """Remove what is left, one by one; raises ``OSError`` about the first that cannot go now."""
        failed: list[str] = []
        for path in list(self._deleted):
            try:
                self.set_aside(path)
            except (OSError, MemoryError) as error:
                failed.append(f"{path!r}: {describe(error)}")
        for doomed in list(self._unremoved):
            try:
                await in_thread(self._executor, partial(remove_tree, self._directory.disk, doomed))
                self._unremoved.discard(doomed)
            except (OSError, MemoryError) as error:
                failed.append(f"{doomed!r}: {describe(error)}")
        if failed:
            raise OSError(failed[0])

    def set_aside(self, path: str) -> None:
        """Rename the directory of a deleted log, if it is one, so that another topic may have its name."""
        if path not in self._deleted:
            return
        try:
            self._directory.disk.rename(path, self._deleted[path])
            self._unremoved.add(self._deleted[path])
        except FileNotFoundError:
            pass  # nothing was ever written
        del self._deleted[path]

    def _remove_later(self, doomed: str) -> None:
        """Free the space in a thread; what fails is tried again by ``try_again``."""
        if doomed in self._unremoved:
            removal = self._executor.submit(remove_tree, self._directory.disk, doomed)
            removal.add_done_callback(partial(self._removed, doomed))

    def _removed(self, doomed: str, done: "Future[None]") -> None:
        error = None if done.cancelled() else done.exception()
        report(f"removing {doomed!r}", error, "; it is tried again")
        if error is None:
            self._unremoved.discard(doomed)
