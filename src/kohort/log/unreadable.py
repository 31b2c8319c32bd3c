"""The log of a partition that could not be opened when the broker started."""

from typing import NoReturn

from kohort.log.log import EpochEnd, LogConfig, LogSpec, Slice, TimedOffset
from kohort.log.producers import Producers
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, Offset


class UnreadableLog:
    """Answers KAFKA_STORAGE_ERROR until its storage has opened the real one. Implements ``Log``."""

    start_offset = end_offset = high_watermark = last_stable_offset = Offset(0)
    size_bytes = 0
    producers = Producers()  # none

    def __init__(self, spec: LogSpec, failure: str) -> None:
        self.partition = spec.partition
        self.topic_id = spec.topic_id
        self.leader_epoch = spec.leader_epoch
        self.config = spec.config
        self.failure: str | None = failure

    def _refuse(self) -> NoReturn:
        raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition} has failed: {self.failure}")

    def read(self, offset: Offset, max_bytes: int, *, limit: Offset, at_least_one: bool) -> Slice:
        self._refuse()

    def readable_bytes(self, offset: Offset, limit: Offset) -> int:
        self._refuse()

    async def find_by_time(self, timestamp: int, limit: Offset) -> TimedOffset | None:
        self._refuse()

    async def max_timestamp(self, limit: Offset) -> TimedOffset | None:
        self._refuse()

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        self._refuse()

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEnd:
        self._refuse()

    async def delete_before(self, offset: Offset) -> Offset:
        self._refuse()

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config
