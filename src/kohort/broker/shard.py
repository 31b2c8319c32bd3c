"""One partition of ``__consumer_offsets`` at work: commands in, group commit, replies out.

The core decides; this keeps its promises. It hands commands to the core one at a time, appends
what the core wants stored, reports back how that went, and lets replies go when the core says so.
Whatever gathers while one append is on its way goes into the next.
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

from kohort.broker.clock import Alarm, Clock
from kohort.broker.context import Later
from kohort.codec.schema import Message
from kohort.groups.commands import Appended, AppendFailed, Command, TopicDeleted, Unload
from kohort.groups.events import Event
from kohort.groups.outcome import Append as GroupAppend
from kohort.groups.outcome import Outcome
from kohort.groups.replies import ReplyBody
from kohort.groups.settings import GroupSettings
from kohort.groups.shard import Shard
from kohort.log.log import Append, Log, Storage
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Instant, ReplyTo, TopicName
from kohort.records.build import build_batch
from kohort.records.record import NewRecord

logger = logging.getLogger("kohort.shard")

# Operations share a record batch up to about this size; one that is larger alone gets a batch of its own.
_BATCH_BYTES = 256 * 1024
_RECORD_OVERHEAD = 20
_WOKEN_AT_A_TIME = 50  # groups: two milliseconds, if they are small


class Status(Enum):
    """Whether a shard can be asked."""

    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()  # its log cannot be read; the requests of its groups are sent elsewhere
    STOPPED = auto()


class Journal(Protocol):
    """Where events go to be remembered with their causes."""

    def write(self, events: Iterable[Event]) -> None: ...


class ShardLog(NamedTuple):
    """Where a shard is stored. The log is looked up each time: recovery may have replaced it."""

    storage: Storage
    log: Callable[[], Log]
    max_batch_bytes: int


class GroupShard:
    """The groups of one partition, with the log they are stored in and everyone who waits.

    ``broken`` is called when the core runs into a bug of its own: whoever made the shard drops it
    and builds another from the log.
    """

    def __init__(
        self,
        stored: ShardLog,
        settings: GroupSettings,
        clock: Clock,
        journal: Journal,
        broken: Callable[["GroupShard"], None],
    ) -> None:
        self.status = Status.LOADING
        self.failed_loads = 0  # in a row: the next attempt waits longer
        self._settings = settings
        self.core = Shard(settings, clock.now().instant)
        self._stored = stored
        self._clock = clock
        self._journal = journal
        self._broken = broken
        self._waiting: dict[ReplyTo, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._queue: deque[GroupAppend] = deque()  # wants to be stored, in order of position
        self._orders: dict[int, asyncio.Future[None]] = {}  # who waits for a position to be settled
        self._deleted: list[TopicName] = []  # topics that went while this was being loaded
        self._flushing = False
        self._alarm: Alarm | None = None
        self._alarm_at: Instant | None = None

    @property
    def log(self) -> Log:
        """The log of this shard's partition."""
        return self._stored.log()

    @property
    def is_stored(self) -> bool:
        """Whether there is anything to load."""
        return self.log.end_offset > self.log.start_offset

    def ask(self, make: Callable[[ReplyTo], Command]) -> ReplyBody | asyncio.Future[Any]:
        """Hand a request to the core: its reply if that may leave at once, else a future of it."""
        reply_to = ReplyTo(next(self._numbers))
        outcome = self._run(lambda: self.core.handle(make(reply_to), self._clock.now()))
        for reply in outcome.replies:
            if reply.reply_to == reply_to:
                return reply.body
        future = self._waiting[reply_to] = asyncio.get_running_loop().create_future()
        return future

    def tell(self, command: Command) -> None:
        """Hand the core an order nobody waits for."""
        self._run(lambda: self.core.handle(command, self._clock.now()))

    async def forget_topic(self, topic: TopicName) -> None:
        """Have what was committed for a topic removed; returns when that is stored, or cannot be.

        A shard that is being loaded does it when it has seen what there is.
        """
        if self.status is Status.LOADING:
            self._deleted.append(topic)
        elif self.status is Status.ACTIVE:
            outcome = self._run(lambda: self.core.handle(TopicDeleted(topic), self._clock.now()))
            if outcome.append is not None:
                settled = self._orders[outcome.append.position] = asyncio.get_running_loop().create_future()
                await settled

    def start_over(self) -> None:
        """Forget what was read: loading failed half-way and begins again."""
        self.failed_loads += 1
        self.core = Shard(self._settings, self._clock.now().instant)

    async def wake_groups(self) -> None:
        """Bring the groups that were read to life, some at a time; requests are not answered yet."""
        while True:
            woken = self._run(lambda: self.core.wake_groups(self._clock.now(), _WOKEN_AT_A_TIME))
            if not woken.events:
                return
            await asyncio.sleep(0)

    def activate(self) -> None:
        """Loading is over: sessions start now, requests are answered."""
        self._run(lambda: self.core.finish_load(self._clock.now()))
        self.status = Status.ACTIVE
        for topic in self._deleted:
            self.tell(TopicDeleted(topic))

    def stop(self) -> None:
        """Answer everyone who waits that this node is not their coordinator any more."""
        if self.status is Status.ACTIVE:
            self.tell(Unload())
        self.drop(Status.STOPPED)

    def drop(self, status: Status) -> None:
        """Give up without asking the core: whoever still waits gets NOT_COORDINATOR and looks again."""
        self.status = status
        if self._alarm is not None:
            self._alarm.cancel()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(RefusedError(ErrorCode.NOT_COORDINATOR))
        for order in self._orders.values():
            if not order.done():
                order.set_result(None)
        self._waiting.clear()
        self._orders.clear()
        self._queue.clear()

    def _run(self, step: Callable[[], Outcome]) -> Outcome:
        """One step of the core and everything that follows from it."""
        try:
            outcome = step()
        except Exception as error:
            self._fail()
            raise RefusedError(ErrorCode.NOT_COORDINATOR) from error
        for reply in outcome.replies:
            future = self._waiting.pop(reply.reply_to, None)
            if future is not None and not future.done():  # a client that hung up cancelled its own
                future.set_result(reply.body)
        if outcome.append is not None:
            self._queue.append(outcome.append)
            self._flush_soon()
        if outcome.events:
            self._journal.write(outcome.events)
        self._set_alarm()
        return outcome

    def _fail(self) -> None:
        """What is in memory cannot be trusted: answer everyone who waits, build it from the log again."""
        was_active = self.status is Status.ACTIVE
        what = "is rebuilt from its log" if was_active else "cannot be built from its log"
        logger.exception("%s: the coordinator %s", self.log.partition, what)
        self.drop(Status.FAILED)
        if was_active:  # else it would fail again, and again
            self._broken(self)

    # Time

    def _set_alarm(self) -> None:
        due = self.core.next_deadline()
        if due is None or (self._alarm_at is not None and self._alarm_at <= due):
            return  # an alarm that rings too early only looks and sets the next one
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = due
        self._alarm = self._clock.call_at(due, self._ring)

    def _ring(self) -> None:
        self._alarm = self._alarm_at = None
        if self.status is Status.ACTIVE:
            self._run(lambda: self.core.advance(self._clock.now()))

    # Storing

    def _flush_soon(self) -> None:
        if not self._flushing:
            # Not at once: requests that are being read in this turn of the loop share the append.
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Append what has gathered; runs again when the log has answered, if there is more by then."""
        try:
            self._append_gathered()
        except Exception:  # of the storage: whether the records are stored is not known
            self._fail()

    def _append_gathered(self) -> None:
        gathered: list[GroupAppend] = []
        size = 0
        while self._queue and (not gathered or size + _size(self._queue[0]) <= _BATCH_BYTES):
            gathered.append(self._queue.popleft())
            size += _size(gathered[-1])
        if not gathered:
            self._flushing = False
            return
        log = self.log
        batch = bytearray(_batch(gathered))
        if len(batch) > self._stored.max_batch_bytes:
            self._report(gathered, RefusedError(ErrorCode.MESSAGE_TOO_LARGE))
            self._flush()
            return
        append = Append(log.partition, batch, log.leader_epoch, self._clock.now().wall, from_client=False)
        future = self._stored.storage.append([append])
        future.add_done_callback(lambda done: self._settle(gathered, done))

    def _settle(self, gathered: list[GroupAppend], done: asyncio.Future[Any]) -> None:
        """Tell the core how an append went, and go on with what gathered meanwhile."""
        if self.status is not Status.ACTIVE:
            return
        try:
            self._report(gathered, done.result()[0])
        except (Exception, asyncio.CancelledError):
            if self.status is Status.ACTIVE:  # else it was the core, which has been dropped
                self._fail()
            return
        self._flush()

    def _report(self, gathered: list[GroupAppend], result: object) -> None:
        if isinstance(result, RefusedError):
            logger.warning("%s: an append failed: %s", self.log.partition, result)
            for failed in gathered:
                self.tell(AppendFailed(failed.position, result.code))
        else:
            self.tell(Appended(gathered[-1].position))
        for done in gathered:
            order = self._orders.pop(done.position, None)
            if order is not None and not order.done():
                order.set_result(None)


def _size(append: GroupAppend) -> int:
    return sum(len(key) + len(value or b"") + _RECORD_OVERHEAD for key, value in append.records)


def _batch(gathered: list[GroupAppend]) -> bytes:
    return build_batch(
        [NewRecord(append.timestamp, key, value) for append in gathered for key, value in append.records]
    )


def then(answer: ReplyBody | asyncio.Future[Any], make: Callable[[Any], Message]) -> Message | Later:
    """The response made of a reply, now or when the reply comes."""
    return Later(answer, make) if isinstance(answer, asyncio.Future) else make(answer)
