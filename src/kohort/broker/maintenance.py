"""Keeps the logs in order while the broker runs: each backend does it for itself, by the broker's time."""

import logging
from datetime import timedelta
from functools import partial

from kohort.broker.broker import BrokerState
from kohort.broker.clock import pause
from kohort.log.background import Background
from kohort.log.log import Upkeep
from kohort.model.ids import WallTime
from kohort.model.steady_time import PATIENCE_MS, Jump

logger = logging.getLogger("kohort.maintenance")


class BrokerMaintenance:
    """The maintenance of one broker's storage, until :meth:`stop` ends it."""

    def __init__(self, broker: BrokerState) -> None:
        self._storage = broker.storage
        self._clock = broker.clock
        self._pause = partial(pause, broker.clock)
        self._number = broker.configs.number
        self._background = Background(self._pause)
        self._deletion_time = broker.deletion_time
        self._logged: Jump | None = None

    def start(self) -> None:
        upkeep = Upkeep(self._now, self._pause, self._number)
        self._background.keep("maintenance", lambda: self._storage.maintain(upkeep))

    async def stop(self) -> None:
        await self._background.stop()

    def _now(self) -> WallTime:
        """The time that deletion goes by; logs when the wall clock jumps, and when that is over."""
        wall = self._deletion_time.at(self._clock.now())
        before, jump = self._logged, self._deletion_time.jump
        self._logged = jump
        if jump is not None and jump is not before:
            ahead, patience = timedelta(milliseconds=jump.ahead_ms), timedelta(milliseconds=PATIENCE_MS)
            logger.warning(
                "the wall clock went forward by %s: nothing is deleted on account of that for %s, or until "
                "a restart; set the clock right if it is wrong",
                ahead,
                patience,
            )
        elif jump is None and before is not None:
            logger.warning("retention and compaction go by the wall clock again")
        return wall
