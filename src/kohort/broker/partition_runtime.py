"""One partition of an internal topic at work: commands in, group commit, replies out.

The shard decides; this keeps its promises. It hands commands to the shard one at a time, appends what
the shard wants stored, and lets replies go when the shard says so. Whatever gathers while one append is
on its way goes into the next. It knows nothing of what the shard coordinates.

An append that fails is not undone: the shard is dropped, everyone who waits is answered with a code
that makes them come again, and the shard is loaded from what is stored.
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from kohort.broker.appends import Appends
from kohort.broker.clock import Alarm, Clock
from kohort.broker.context import DeferredResponse
from kohort.codec.schema import Message
from kohort.coordination.outcome import CommandOutcome, KeyValue, PositionedAppend, size_at_most
from kohort.coordination.positions import Reply
from kohort.coordination.shard import CoordinatorShard
from kohort.log.log import Append, Log
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Instant, ReplyTo
from kohort.records.build import PLAIN, BatchFields, build_batch
from kohort.records.record import NewRecord

logger = logging.getLogger("kohort.coordinator")

S = TypeVar(
    "S", bound=CoordinatorShard[Any, Any, Any]
)  # what is coordinated; it knows its commands and replies

# Operations share a record batch up to about this size; one that is larger alone gets a batch of its own.
_BATCH_BYTES = 256 * 1024
_LATE_MS = 50  # an alarm that rings later than that was held up by other work
_MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER  # what a log says whose partition is not served here


class Waiter(Protocol):
    """Waits for a reply; a future is one."""

    def done(self) -> bool:
        """Whether it does not wait any more: a client that hung up cancelled its own."""
        ...

    def set_result(self, reply: Any, /) -> None: ...  # noqa: ANN401 - of the shard


class Status(Enum):
    """Whether a partition can be asked."""

    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()  # its log cannot be understood; requests are sent elsewhere
    STOPPED = auto()


class PartitionLog(NamedTuple):
    """Where a shard is stored. The log is looked up each time: recovery may have replaced it."""

    appends: Appends
    log: Callable[[], Log]
    max_batch_bytes: int
    may_answer: Callable[[], bool] = lambda: True  # else no timer fires: members may not have been heard


class PartitionRuntime(Generic[S]):
    """A shard with the log it is stored in, and everyone who waits.

    ``lost`` is called when the shard was dropped and has to be loaded again.
    """

    def __init__(
        self,
        stored: PartitionLog,
        make_shard: Callable[[Instant], S],
        clock: Clock,
        journal: Callable[[Iterable[Any]], None],
        lost: "Callable[[PartitionRuntime[S]], None]",
    ) -> None:
        self.perform: Callable[[object], None] = _nothing_to_do
        """Does what an outcome's effects ask for, and answers with a command."""
        self.status = Status.LOADING
        self.failures = 0  # loads and appends that failed since the last append that was stored
        self.shard = make_shard(clock.now().instant)
        self._make_shard = make_shard
        self._stored = stored
        self._clock = clock
        self._journal = journal
        self._lost = lost
        self._waiting: dict[ReplyTo, tuple[Any, Waiter]] = {}
        self._numbers = itertools.count(1)
        self._queue: deque[PositionedAppend] = deque()  # wants to be stored, in order of position
        self._orders: dict[int, tuple[Any, asyncio.Future[None]]] = {}  # by the position that settles them
        self._postponed: list[Any] = []  # orders for when the shard is loaded
        self.appending: asyncio.Future[Any] | None = None
        self._flushing = False
        self._alarm: Alarm | None = None
        self._alarm_at: Instant | None = None

    @property
    def log(self) -> Log:
        """The log of this partition."""
        return self._stored.log()

    @property
    def has_nothing_to_load(self) -> bool:
        """Whether the log is empty, well, and has no append on its way."""
        log = self.log
        is_idle = self.appending is None or self.appending.done()
        return is_idle and log.failure is None and log.end_offset <= log.start_offset

    # Commands

    def ask(self, make: Callable[[ReplyTo], Any], waiter: Waiter | None = None) -> Any:  # noqa: ANN401 - a reply of the shard, or who waits for it
        """Hand a request to the shard: its reply if that may leave at once, else the request that waits.

        That is a new future, if there is no ``waiter``.
        """
        reply_to = ReplyTo(next(self._numbers))
        command = make(reply_to)
        try:
            outcome = self.shard.handle(command, self._clock.now())
            self._take(outcome)
        except Exception:
            self._break()
            return self.shard.refuse(command, _MOVED)
        for reply in outcome.replies:
            if reply.reply_to == reply_to:
                return reply.body
        if waiter is None:
            waiter = asyncio.get_running_loop().create_future()
        self._waiting[reply_to] = command, waiter
        return waiter

    async def order(self, command: object) -> None:
        """Hand the shard a command that has no reply; returns when it is stored, or is known to take longer.

        A shard that is being loaded does it when it has seen what there is.
        """
        stored = self.tell(command)
        if stored is not None:
            await stored

    def tell(self, command: object) -> asyncio.Future[None] | None:
        """``order`` without waiting; a future if something is to be stored."""
        if self.status is Status.LOADING:
            self._postponed.append(command)
        return self._do(command) if self.status is Status.ACTIVE else None

    def _do(self, command: object) -> asyncio.Future[None] | None:
        outcome = self._step(lambda: self.shard.handle(command, self._clock.now()))
        if outcome is None or outcome.append is None:
            return None
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._orders[outcome.append.position] = command, stored
        return stored

    def _step(self, step: Callable[[], CommandOutcome[Any, Any]]) -> CommandOutcome[Any, Any] | None:
        """One step of the shard and everything that follows from it; ``None`` if the shard broke over it."""
        try:
            outcome = step()
            self._take(outcome)
        except Exception:
            self._break()
            return None
        return outcome

    def _take(self, outcome: CommandOutcome[Any, Any]) -> None:
        self._send(outcome.replies)
        if outcome.append is not None:
            self._queue.append(outcome.append)
            self._flush_soon()
        if outcome.events:
            self._journal(outcome.events)
        for effect in outcome.effects:
            self.perform(effect)
        self._set_alarm()

    def _send(self, replies: Iterable[Reply[Any]]) -> None:
        for reply in replies:
            waiting = self._waiting.pop(reply.reply_to, None)
            if waiting is not None and not waiting[1].done():
                waiting[1].set_result(reply.body)

    # Loading, and going

    async def idle(self) -> None:
        """Wait for an append of the shard before this one: the log does not grow behind a load's back."""
        if self.appending is not None:
            await asyncio.wait((self.appending,))

    def load_more(self) -> bool:
        """Do a piece of what follows reading the log; False when all is done."""
        outcome = self.shard.load_more(self._clock.now())
        if outcome is not None:
            self._take(outcome)
        return outcome is not None

    def activate(self) -> None:
        """Loading is over: timers start now, requests are answered."""
        self._take(self.shard.finish_load(self._clock.now()))
        self.status = Status.ACTIVE
        if self._queue:
            self._flush_soon()
        postponed, self._postponed = self._postponed, []
        for command in postponed:
            self._do(command)

    def stop(self) -> None:
        """Answer everyone who waits that this node is not their coordinator any more."""
        if self.status is Status.ACTIVE:
            self._unload(None)
        self._drop(Status.STOPPED, _MOVED)

    def fail(self) -> None:
        """Give up: the log cannot be understood, or a bug keeps the shard from being loaded."""
        self._drop(Status.FAILED, _MOVED)

    def start_over(self) -> None:
        """Forget what was read: loading failed half-way and begins again."""
        self.failures += 1
        self._drop(Status.LOADING, _MOVED)

    def _unload(self, refused: ErrorCode | None) -> None:
        try:
            outcome = self.shard.unload(self._clock.now(), refused)
            self._send(outcome.replies)
            self._journal(outcome.events)
        except Exception:
            logger.exception("%s: the coordinator broke while it was unloaded", self.log.partition)

    def _break(self) -> None:
        """A bug: what is in memory cannot be trusted. Answer everyone who waits, load from the log."""
        logger.exception("%s: the coordinator is loaded from its log again, after a bug", self.log.partition)
        self._reload(_MOVED)

    def _reload(self, refused: ErrorCode) -> None:
        was_active = self.status is Status.ACTIVE
        self.failures += 1
        self._drop(Status.LOADING, refused)
        if was_active:  # else its loader sees to it
            self._lost(self)

    def _drop(self, status: Status, refused: ErrorCode) -> None:
        """Forget the shard; all who still wait are refused."""
        self.status = status
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._alarm_at = None
        self._queue.clear()
        shard, self.shard = self.shard, self._make_shard(self._clock.now().instant)
        waiting, self._waiting = self._waiting, {}
        for command, waiter in waiting.values():
            if not waiter.done():
                waiter.set_result(shard.refuse(command, refused))
        orders, self._orders = self._orders, {}
        for order, stored in orders.values():
            self._postponed.append(order)
            if not stored.done():
                stored.set_result(None)

    # Time

    def _set_alarm(self) -> None:
        due = self.shard.next_deadline()
        if due is None or (self._alarm_at is not None and self._alarm_at <= due):
            return  # an alarm that rings too early only looks and sets the next one
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = due
        expected = max(due, self._clock.instant())  # a deadline may have passed while the shard was loaded
        self._alarm = self._clock.call_at(due, partial(self._ring, expected))

    def _ring(self, expected: Instant | None) -> None:
        now = self._clock.instant()
        if expected is not None and now - expected > _LATE_MS:
            # The loop was busy. What came in meanwhile is read before any member is too late with it.
            self._alarm = self._clock.call_at(Instant(now + 1), partial(self._ring, None))
            return
        self._alarm = self._alarm_at = None
        if self.status is Status.ACTIVE and self._stored.may_answer():  # else an order to resume comes first
            self._step(lambda: self.shard.advance(self._clock.now()))

    # Storing

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._stored.appends.join(self)

    def gather(self) -> tuple[list[Append], int] | None:
        """What has gathered, and the position it reaches; ``None`` if there is nothing to append."""
        if not self._queue or self.status is not Status.ACTIVE:
            self._flushing = False
            return None
        try:
            return self._gather()
        except Exception:
            self._flushing = False
            self._break()
            return None

    def lose_append(self, shard: S | None = None) -> None:
        """Whether an append (of this shard) is stored is not known: load what is."""
        self._flushing = False
        if shard is None or (self.shard is shard and self.status is Status.ACTIVE):
            self._break()
        elif self._queue:
            self._flush_soon()

    def _gather(self) -> tuple[list[Append], int]:
        """What goes into the next append, and the position it reaches."""
        limit = min(_BATCH_BYTES, self._stored.max_batch_bytes)
        first = self._queue.popleft()
        records = [NewRecord(first.timestamp, key, value) for key, value in first.records]
        position, size = first.position, first.size
        if not first.is_atomic and size > limit:
            return [self._append(chunk) for chunk in _chunks(records, limit)], position
        if first.producer is not None:
            producer_id, epoch, is_control = first.producer
            fields = BatchFields(
                producer_id=producer_id, producer_epoch=epoch, transactional=True, control=is_control
            )
            return [self._append(records, fields)], position
        while self._queue and self._queue[0].producer is None:
            size += self._queue[0].size
            if size > limit:
                break
            append = self._queue.popleft()
            records += [NewRecord(append.timestamp, key, value) for key, value in append.records]
            position = append.position
        return [self._append(records)], position

    def _append(self, records: list[NewRecord], fields: BatchFields = PLAIN) -> Append:
        log = self.log
        batch = bytearray(build_batch(records, fields))
        return Append(log.partition, batch, log.leader_epoch, self._clock.now().wall, from_client=False)

    def settle(self, shard: S, position: int, results: list[Any]) -> None:
        """Answer the requests that waited for an append, and go on with those that came meanwhile."""
        self._flushing = False
        if self.shard is not shard or self.status is not Status.ACTIVE:
            if self._queue:
                self._flush_soon()
            return
        for result in results:
            if isinstance(result, RefusedError):
                self._refused(result)
                return
        try:
            self._send(shard.appended(position))
        except Exception:
            self._break()
            return
        self.failures = 0
        if self._orders:
            self._settle_orders(position)
        if self._queue:
            self._flush_soon()

    def _settle_orders(self, position: int) -> None:
        for each in [each for each in self._orders if each <= position]:
            stored = self._orders.pop(each)[1]
            if not stored.done():
                stored.set_result(None)

    def _refused(self, refusal: RefusedError) -> None:
        logger.warning(
            "%s: an append failed, the coordinator is loaded from its log again: %s",
            self.log.partition,
            refusal,
        )
        self._unload(refusal.code)
        self._reload(refusal.code)


def _nothing_to_do(effect: object) -> None:
    raise AssertionError(f"the shell does not know {effect!r}")


def _chunks(records: list[NewRecord], limit: int) -> Iterator[list[NewRecord]]:
    """The records in batches of about this size, in order."""
    chunk: list[NewRecord] = []
    size = 0
    for record in records:
        pair: KeyValue = (record.key or b"", record.value)
        size += size_at_most((pair,))
        if chunk and size > limit:
            yield chunk
            chunk, size = [], size_at_most((pair,))
        chunk.append(record)
    yield chunk


def then(answer: object, make: Callable[[Any], Message]) -> Message | DeferredResponse:
    """The response made of a reply, now or when the reply comes."""
    return DeferredResponse(answer, make) if isinstance(answer, asyncio.Future) else make(answer)
