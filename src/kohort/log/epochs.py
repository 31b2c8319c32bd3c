"""Which leader epoch wrote which offsets: what OffsetForLeaderEpoch answers from."""

from bisect import bisect_right
from collections.abc import Iterable

from kohort.log.log import EpochEnd
from kohort.model.ids import LeaderEpoch, Offset

UNKNOWN = EpochEnd(LeaderEpoch(-1), Offset(-1))


class LeaderEpochs:
    """The first offset of each epoch, both strictly increasing."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[LeaderEpoch, Offset]] = ()) -> None:
        self._epochs: list[LeaderEpoch] = []
        self._starts: list[Offset] = []
        for epoch, start in entries:
            self._epochs.append(epoch)
            self._starts.append(start)

    @property
    def entries(self) -> list[tuple[LeaderEpoch, Offset]]:
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> LeaderEpoch:
        """-1 when there is none."""
        return self._epochs[-1] if self._epochs else LeaderEpoch(-1)

    def begin(self, epoch: LeaderEpoch, start: Offset) -> bool:
        """``epoch`` writes from ``start`` on; says whether that is new.

        Epochs that wrote nothing (they begin at or after ``start``) leave no trace.
        """
        if epoch <= self.latest:
            return False
        self.truncate(start)
        self._epochs.append(epoch)
        self._starts.append(start)
        return True

    def truncate(self, end: Offset) -> bool:
        """Forget what begins at or after ``end``; says whether anything did."""
        before = len(self._starts)
        while self._starts and self._starts[-1] >= end:
            self._starts.pop()
            self._epochs.pop()
        return len(self._starts) != before

    def delete_before(self, start: Offset) -> bool:
        """Forget what lies before ``start``; the epoch that holds it begins there now."""
        index = bisect_right(self._starts, start) - 1
        if index < 0 or (index == 0 and self._starts[0] == start):
            return False
        del self._epochs[:index], self._starts[:index]
        self._starts[0] = start
        return True

    def at(self, offset: Offset) -> LeaderEpoch:
        """The epoch of ``offset``; -1 before the first one known."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else LeaderEpoch(-1)

    def end_of(self, epoch: LeaderEpoch, log_end: Offset) -> EpochEnd:
        """Where ``epoch`` ended, as followers and consumers ask it after a change of leader."""
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return UNKNOWN
        if epoch == self._epochs[-1]:
            return EpochEnd(epoch, log_end)
        following = bisect_right(self._epochs, epoch)
        answered = self._epochs[following - 1] if following else epoch
        return EpochEnd(answered, self._starts[following])


class EpochsInBatches:
    """Learns epochs from batches in the order of the log.

    The checksum of a batch does not cover its epoch. Epochs never shrink, so one that is larger than that of
    the batch behind it is wrong, and is left out.
    """

    def __init__(self, epochs: LeaderEpochs) -> None:
        self._epochs = epochs
        self._last: tuple[LeaderEpoch, Offset] | None = None

    def meet(self, epoch: LeaderEpoch, start: Offset) -> None:
        if self._last is not None and self._last[0] <= epoch:
            self._epochs.begin(*self._last)
        self._last = (epoch, start)

    def finish(self) -> LeaderEpochs:
        """There are no more batches."""
        if self._last is not None:
            self._epochs.begin(*self._last)
        return self._epochs
