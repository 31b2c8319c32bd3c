"""The logs behind a query in a group: what is there of its topics, and which topics they are.

What is gone raises DataLossError or is passed over with a warning, as ``failOnDataLoss`` says.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from kohort.client.errors import BrokerError, UnknownTopicError
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicName
from kohort.model.topics import TopicPartition
from kohort.spark.errors import DataLossError
from kohort.spark.group.plan import LostRecords, losses
from kohort.spark.offsets import Offsets, SubscribeTo, TopicIds, known_ids, show
from kohort.spark.options import SourceOptions
from kohort.spark.positions import Logs

_log = logging.getLogger(__name__)

_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class QueryLogs(Logs, Protocol):
    """The part of ``Lookup`` a query asks."""

    def partitions(self, *, missing_ok: bool = False) -> list[TopicPartition]: ...
    def ids_of(self, topics: Collection[str]) -> Mapping[TopicName, bytes]: ...
    def ids_and_ends(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[Mapping[TopicName, bytes], Offsets | None]: ...


def accept(loss: DataLossError, options: SourceOptions) -> None:
    """Raise it, or go on with a warning: ``failOnDataLoss``."""
    if options.fail_on_data_loss:
        raise loss
    _log.warning("%s; going on without them", loss.args[0])


class TopicSnapshot(NamedTuple):
    """One look at the topics of some partitions: ids of those that exist; ends, unless one is unknown."""

    ids: TopicIds
    ends: Offsets | None


class GroupLogs:
    """For one run of a query. ``uncommitted`` tells log ends, whatever the isolation level is."""

    def __init__(
        self,
        options: SourceOptions,
        logs: QueryLogs,
        uncommitted: Callable[[Collection[TopicPartition]], Offsets],
    ) -> None:
        self._options = options
        self._logs = logs
        self._uncommitted = uncommitted
        self.first_ids: dict[TopicName, str] = {}  # of each topic, as this run saw it first

    def ids_of(self, partitions: Collection[TopicPartition]) -> TopicIds:
        """The ids of their topics now; of those that exist."""
        return self._noted(self._logs.ids_of({where.topic for where in partitions})) if partitions else {}

    def look(self, partitions: Collection[TopicPartition]) -> TopicSnapshot:
        """Ids and ends in the time of one question."""
        if not partitions:
            return TopicSnapshot({}, {})
        ids, ends = self._logs.ids_and_ends(partitions)
        return TopicSnapshot(self._noted(ids), ends)

    def _noted(self, found: Mapping[TopicName, bytes]) -> TopicIds:
        ids = known_ids(found)
        self.first_ids = {**ids, **self.first_ids}
        return ids

    def check_names(self, *, may_wait: bool) -> None:
        """A topic that was named and does not exist: it may be made later, or its name is wrong.

        Said in the log; raises UnknownTopicError where no call waits and ``failOnDataLoss`` is set.
        """
        names = self._options.topics.names if isinstance(self._options.topics, SubscribeTo) else ()
        missing = sorted(set(names) - self._logs.ids_of(names).keys()) if names else []
        if missing and not may_wait and self._options.fail_on_data_loss:
            raise UnknownTopicError(missing[0])
        if missing:
            _log.warning("there is no topic %s, going on without: is the name right?", ", ".join(missing))

    def existing(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Those that are there; the others are a loss."""
        if not partitions:
            return []
        there = set(self._logs.partitions(missing_ok=True))
        gone = [where for where in partitions if where not in there]
        if gone:
            accept(DataLossError(f"there is no {show(gone)} any more"), self._options)
        return [where for where in partitions if where in there]

    def starts(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The first offset of each that is there; the others are a loss."""
        return self._logs.log_starts(self.existing(partitions))

    def ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The log ends of those that are there; the others are a loss."""
        try:
            return self._logs.log_ends(list(partitions))
        except BrokerError as error:
            if error.code not in _GONE:
                raise
            return self._logs.log_ends(self.existing(partitions))

    def losses(
        self, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> list[LostRecords]:
        """Which of these positions lie outside their logs."""
        if not positions:
            return []
        # What others have read under read_uncommitted may lie behind the end that read_committed sees.
        is_behind = any(position > ends[where] for where, position in positions.items())
        true_ends = self._uncommitted(positions) if is_behind else ends
        return losses(positions, self._logs.log_starts(positions), true_ends)
