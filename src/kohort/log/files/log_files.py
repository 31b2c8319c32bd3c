"""From the files of a partition to its log, and what a clean stop notes of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.log.files.catalog_state import CATALOG
from kohort.log.files.directory import DataDirectory, check_topic_id
from kohort.log.files.disk import read_file
from kohort.log.files.inventory import take, write_inventory
from kohort.log.files.partition_files import make_directory
from kohort.log.files.recovery import Recovered, Trust, recover
from kohort.log.files.segment import OpenFiles, SegmentFolder
from kohort.log.files.segmented import LogServices, SegmentedLog
from kohort.log.log import LogSpec, Repair, SyncPolicy
from kohort.model.topics import TopicPartition
from kohort.records.batch import LegacyFormatError

OPEN_IN_THREAD = 16  # segments that a recovery in a thread keeps open, besides those of the storage


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """How a node stores its logs."""

    data_policy: SyncPolicy = SyncPolicy.INTERVAL
    internal_policy: SyncPolicy = SyncPolicy.COMMIT
    sync_interval_ms: int = 1_000
    sync_threads: int = 4
    open_files: int = 256  # segments that keep their file open at one time
    scrubs: bool = True  # reads segments again, now and then


class LogFiles:
    """Makes logs of files. It changes nothing of the storage, so a thread may call it."""

    def __init__(self, directory: DataDirectory, settings: StorageSettings, means: LogServices) -> None:
        self._directory = directory
        self._settings = settings
        self._means = means

    def path(self, partition: TopicPartition) -> str:
        return f"{self._directory.path}/{partition}"

    def _place(self, spec: LogSpec, open_files: OpenFiles) -> SegmentFolder:
        path = self.path(spec.partition)
        return SegmentFolder(self._directory.disk, path, open_files, spec.config.index_interval_bytes)

    def recover(self, spec: LogSpec, trust: Trust, open_files: OpenFiles) -> Recovered:
        """Read and mend the files of a log."""
        path = self.path(spec.partition)
        is_marked = check_topic_id(self._directory, path, spec.topic_id)
        place = self._place(spec, open_files)
        try:
            found = recover(place, trust)
        except LegacyFormatError as error:
            raise LegacyFormatError(f"{path!r}: {error.args[0]}", hint=error.hint) from error
        if found.segments and not is_marked:
            make_directory(place, spec.topic_id).sync()
            found.repairs.append("did not say to which topic it belongs; now it does")
        return found

    def make(
        self, spec: LogSpec, found: Recovered, open_files: OpenFiles
    ) -> tuple[SegmentedLog, list[Repair]]:
        """A log of what was found, and what was mended."""
        place, settings = self._place(spec, open_files), self._settings
        repairs = [Repair(place.directory, what) for what in found.repairs]
        policy = settings.internal_policy if spec.config.internal else settings.data_policy
        return SegmentedLog(place, spec, policy, found, self._means), repairs

    def recover_again(self, old: SegmentedLog) -> tuple[SegmentedLog, list[Repair]]:
        """A log made of the files of one that failed."""
        spec = LogSpec(
            partition=old.partition, topic_id=old.topic_id, leader_epoch=old.leader_epoch, config=old.config
        )
        own = OpenFiles(OPEN_IN_THREAD)
        found = self.recover(spec, Trust(False, old.recovery_point, old.start_offset), own)
        log, repairs = self.make(spec, found, own)
        if log.policy is SyncPolicy.COMMIT:
            # Nothing beyond was acknowledged, and none of it can be trusted to be on the disk.
            log.truncate(max(old.high_watermark, log.start_offset))
        else:
            log.rewrite_from(old.recovery_point)
        self._directory.disk.sync_directory(self._directory.path)
        return log, repairs

    def inventory(self, logs: Mapping[TopicPartition, SegmentedLog]) -> bytes | None:
        """What a clean shutdown notes; ``None`` if that cannot be read: the next start takes longer."""
        disk, path = self._directory.disk, self._directory.path
        try:
            noted = {
                str(partition): take(disk, self.path(partition), log.end_offset)
                for partition, log in logs.items()
                if log.end_offset
            }
            return write_inventory(noted, read_file(disk, f"{path}/{CATALOG}") or b"")
        except (OSError, MemoryError):
            return None
