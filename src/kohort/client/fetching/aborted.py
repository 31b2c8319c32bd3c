"""Which transactions of a fetched piece of a log were aborted: what read_committed leaves out."""

from collections import deque
from collections.abc import Callable, Iterable

from kohort.primitives.buffers import Buffer
from kohort.records.batch import BatchHeader, read_records
from kohort.records.control import ControlType, control_type
from kohort.wire.messages.fetch import AbortedTransaction, PartitionData


class AbortedProducers:
    """Follows the batches of one reply, in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._upcoming = deque(sorted((each.first_offset, each.producer_id) for each in aborted))
        self._active: set[int] = set()

    def skips(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to an aborted transaction."""
        while self._upcoming and self._upcoming[0][0] <= header.last_offset:
            self._active.add(self._upcoming.popleft()[1])
        return header.is_transactional and header.producer_id in self._active

    def see_marker(self, blob: Buffer, position: int, header: BatchHeader) -> None:
        """A control batch: an ABORT ends the aborted transaction of its producer."""
        for record in read_records(blob, position, header):
            if control_type(record.key) is ControlType.ABORT:
                self._active.discard(header.producer_id)


def leaves_out_aborted(answered: PartitionData, blob: Buffer) -> Callable[[int, BatchHeader], bool]:
    """What read_committed passes over in an answer: asked about batches and their positions, in order."""
    aborted = AbortedProducers(answered.aborted_transactions or ())

    def leaves_out(position: int, header: BatchHeader) -> bool:
        skipped = aborted.skips(header)
        if header.is_control:
            aborted.see_marker(blob, position, header)
        return skipped

    return leaves_out
