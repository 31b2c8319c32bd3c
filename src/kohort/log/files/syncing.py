"""What one log wants on the disk: gathered on the loop, done in a thread, settled on the loop."""

from dataclasses import dataclass, field
from os.path import dirname

from kohort.log.files.checkpoints import LEADER_EPOCHS
from kohort.log.files.disk import Disk, File, replace_file
from kohort.log.files.segment import Segment
from kohort.model.ids import Offset


@dataclass(slots=True)
class Unsynced:
    """What was written besides the batches of the last segment, and is not synced."""

    files: list[File] = field(default_factory=list)
    epochs: bool = False  # there is a new leader epoch
    names: bool = False  # files were made or removed
    directory: bool = False  # the directory itself was made

    def __bool__(self) -> bool:
        return self.epochs or self.names or self.directory or bool(self.files)


@dataclass(slots=True)
class SyncJob:
    """One sync of one log. ``run`` may be called in any thread; nothing else here touches the log."""

    disk: Disk
    directory: str
    unsynced: Unsynced
    epochs: bytes  # the leader-epoch checkpoint, if that is to be written
    end_offset: Offset  # what is safe afterwards
    end: tuple[Segment, int]  # the same as a place in a file
    history: int  # which history of the log this belongs to; a truncation begins another
    error: BaseException | None = None
    epochs_error: Exception | None = None

    def run(self) -> None:
        """Make it durable, names after contents. What goes wrong is kept in ``error``.

        Batches can do without the epochs, which recovery finds in them; so these are tried last, and when
        that fails (there may be no space for a file) they are tried again with the next sync.
        """
        unsynced = self.unsynced
        try:
            for file in unsynced.files:
                file.sync()
            if unsynced.names:
                self.disk.sync_directory(self.directory)
            if unsynced.directory:
                self.disk.sync_directory(dirname(self.directory))
        except Exception as error:
            self.error = error
            return
        try:
            if unsynced.epochs:
                replace_file(self.disk, f"{self.directory}/{LEADER_EPOCHS}", self.epochs)
        except Exception as error:
            self.epochs_error = error
