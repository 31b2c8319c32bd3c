"""The asyncio shell around the accumulator: whatever is ready goes to its leader, answers come back.

One task looks at everything that could have changed each time it is woken: a batch is full or has lingered, a
reply came, a connection opened, metadata arrived. It never waits itself: what takes time (connecting, asking
for metadata or a producer id, an exchange) is a task of its own that wakes it when done.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from kohort.client.cluster import ClusterClient, Role
from kohort.client.connection import ClientConnection
from kohort.client.errors import (
    ApiNotServedError,
    BrokerError,
    DeliveryTimeoutError,
    DoubtfulDeliveryError,
    check,
)
from kohort.client.producer.accumulator import Accumulator, BatchLimits
from kohort.client.producer.batch import (
    UNKNOWN_OFFSET,
    Batch,
    BatchVerdict,
    Outgoing,
    Sequences,
    answers,
    pack,
    refusal,
    verdict,
)
from kohort.client.producer.settings import ProducerSettings
from kohort.client.settings import backoff_ms
from kohort.model.errors import KohortError
from kohort.model.ids import NodeId
from kohort.model.topics import TopicPartition
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.produce import PartitionProduceResponse, ProduceResponse


@dataclass(slots=True)
class Link:
    """``silent_until``: the broker asked for a break (KIP-219), in the sender's milliseconds."""

    connection: ClientConnection | None = None
    in_flight: int = 0
    silent_until: float = 0.0

    def is_usable(self, now: float, most: int) -> bool:
        """Whether another request may be written now."""
        return self.is_connected and self.in_flight < most and self.silent_until <= now

    @property
    def is_connected(self) -> bool:
        return self.connection is not None and self.connection.is_open


_METADATA = "metadata"
_IDENTITY = "producer id"
_INIT_PRODUCER_ID = 5  # 6 is for transactions in two phases


class Sender:
    """Sends what the accumulator holds. ``settled`` is called whenever batches are done with."""

    def __init__(
        self, cluster: ClusterClient, settings: ProducerSettings, settled: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._settled = settled
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._links: defaultdict[NodeId, Link] = defaultdict(Link)
        self._errands: dict[Hashable, asyncio.Task[None]] = {}
        self._exchanges: set[asyncio.Task[None]] = set()
        self._trouble: KohortError | None = None  # why nothing moves, if it does not
        self._failures = 0  # of errands, one after another
        self.topics: set[str] = set()  # all that were ever sent to: a topic may come back
        self._metadata_due = self.now() + settings.metadata_max_age_ms
        self.accumulator = Accumulator(
            BatchLimits(
                batch_size=settings.batch_size,
                linger_ms=settings.linger_ms,
                delivery_timeout_ms=settings.delivery_timeout_ms,
                max_in_flight=settings.max_in_flight_requests_per_connection,
                pause=self._pause_ms,
            ),
            self.now,
            Sequences() if settings.is_idempotent else None,
        )

    def now(self) -> int:
        """Milliseconds on the clock of the loop."""
        return int(self._loop.time() * 1_000)

    def wake(self) -> None:
        """Look again at what can be sent."""
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled. A bug ends it, and fails all that waits: no record may wait for ever."""
        while True:
            self._wake.clear()
            now = self.now()
            try:
                self._step(now)
            except Exception as bug:
                broken = KohortError(f"the producer broke down: {bug!r}", hint="please report this")
                self._fail_all(broken, in_flight=True)
                raise
            timer = self._timer(now)
            try:
                await self._wake.wait()
            finally:
                timer.cancel()

    def cancel(self) -> list[asyncio.Task[None]]:
        """Leave what is under way to its fate, after ``run`` was cancelled; the tasks that end now."""
        tasks = [*self._errands.values(), *self._exchanges]
        for task in tasks:
            task.cancel()
        return tasks

    # One look at everything

    def _step(self, now: int) -> None:
        self._expire(now)
        ready = self.accumulator.ready(now)
        if now >= self._metadata_due:
            self._ask_metadata()
        if not ready:
            return
        sequences = self.accumulator.sequences
        if sequences is not None and sequences.needs_identity:
            self._run_errand(_IDENTITY, self._identify)
            return
        for node, partitions in self._by_leader(ready).items():
            self._serve(node, partitions, now)

    def _timer(self, now: int) -> asyncio.TimerHandle:
        """For what comes due after ``now``, when everything was looked at: some of it may be due already."""
        breaks = [link.silent_until for link in self._links.values() if link.silent_until > now]
        moments = [self.accumulator.next_due(now), self._metadata_due, *breaks]
        due = min(moment for moment in moments if moment is not None)
        return self._loop.call_later(max(due - self.now(), 0) / 1_000 + 0.000_5, self._wake.set)

    def _expire(self, now: int) -> None:
        late = self.accumulator.expire(now)
        for batch in late:
            last = batch.last_error or self._trouble
            timeout = self._settings.delivery_timeout_ms
            batch.fail(DeliveryTimeoutError(batch.partition, timeout, batch.attempts, last))
        self._conclude()
        if late:
            self._settled()

    def _by_leader(self, partitions: list[TopicPartition]) -> dict[NodeId, list[TopicPartition]]:
        led: dict[NodeId, list[TopicPartition]] = {}
        for partition in partitions:
            try:
                led.setdefault(self._cluster.metadata.leader(*partition), []).append(partition)
            except BrokerError as error:
                self._trouble = error
                self._ask_metadata()
        return led

    def _serve(self, node: NodeId, partitions: list[TopicPartition], now: int) -> None:
        """Fill requests to one node until nothing is left or no more may be under way."""
        link = self._links[node]
        if not link.is_connected:
            self._run_errand(node, lambda: self._connect(node, link))
            return
        while link.is_usable(now, self._settings.max_in_flight_requests_per_connection):
            batches = self._take(node, partitions)
            if not batches:
                return
            outgoing = pack(batches, self._cluster.metadata, self._settings)
            link.in_flight += 1
            self._start(self._exchange(link, outgoing))
            still = set(self.accumulator.ready(now))
            partitions = [partition for partition in partitions if partition in still]

    def _take(self, node: NodeId, partitions: list[TopicPartition]) -> list[Batch]:
        room = self._settings.max_request_size
        batches: list[Batch] = []
        for partition in partitions:
            # The first may be of any size: a record as large as a request allows has a batch around it.
            batch = self.accumulator.take(partition, node, room if batches else 2 * room)
            if batch is not None:
                batches.append(batch)
                room -= batch.size
        return batches

    # Exchanges

    def _start(self, exchange: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(exchange)
        self._exchanges.add(task)
        task.add_done_callback(self._exchanges.discard)

    async def _exchange(self, link: Link, outgoing: Outgoing) -> None:
        connection, batches = link.connection, outgoing.batches
        assert connection is not None
        try:
            if self._settings.acks_on_wire == 0:
                await connection.post(outgoing.request, highest=outgoing.highest)
                reply = ProduceResponse()
            else:
                patience = min(self._settings.request_timeout_ms, self._left(batches))
                reply = await connection.send(
                    outgoing.request, ProduceResponse, highest=outgoing.highest, timeout_ms=patience
                )
        except KohortError as error:
            for batch in batches:
                self._disturbed(batch, error)
        else:
            self._receive(link, outgoing, reply)
        finally:
            link.in_flight -= 1
            self._conclude()
            self._settled()
            self.wake()

    def _left(self, batches: Sequence[Batch]) -> int:
        return max(1, min(batch.deadline for batch in batches) - self.now())

    def _receive(self, link: Link, outgoing: Outgoing, reply: ProduceResponse) -> None:
        self._trouble = None
        if reply.throttle_time_ms > 0:
            link.silent_until = self.now() + reply.throttle_time_ms
        if self._settings.acks_on_wire == 0:
            for batch in outgoing.batches:
                self._store(batch, UNKNOWN_OFFSET)
            return
        for batch, part in answers(outgoing, reply):
            self._judge(batch, part)

    def _judge(self, batch: Batch, part: PartitionProduceResponse) -> None:
        what = verdict(part.error_code, records=batch.count, is_numbered=batch.numbering is not None)
        if what is BatchVerdict.STORED:
            self._store(batch, part.base_offset, part.log_append_time_ms)
            return
        if what is BatchVerdict.STORED_BEFORE:
            self._store(batch, UNKNOWN_OFFSET)
            return
        error = refusal(batch, part)
        match what:
            case BatchVerdict.AGAIN:
                self._disturbed(batch, error)
            case BatchVerdict.MISNUMBERED:
                batch.is_misnumbered = True
                batch.last_error = error
                self.accumulator.come_back(batch, self.now())
            case BatchVerdict.TOO_LARGE:
                batch.last_error = error
                self.accumulator.split(batch)
            case BatchVerdict.FENCED:
                self._refuse(batch, error)
                self.accumulator.renounce(batch.partition)
            case BatchVerdict.REFUSED:
                self._refuse(batch, error)

    def _store(self, batch: Batch, offset: int, append_time: int = -1) -> None:
        self.accumulator.settle(batch, stored=True)
        batch.succeed(offset, append_time)

    def _refuse(self, batch: Batch, error: KohortError) -> None:
        self.accumulator.settle(batch, stored=False)
        batch.fail(error)

    def _conclude(self) -> None:
        concluded = self.accumulator.take_concluded()
        for batch in concluded.stored:
            batch.succeed(UNKNOWN_OFFSET)
        for batch in concluded.doubtful:
            batch.fail(DoubtfulDeliveryError(batch.partition))

    def _disturbed(self, batch: Batch, error: KohortError) -> None:
        """Something passed or not: the leader may be another one by now."""
        batch.last_error = error
        batch.may_be_stored = True
        if error.retriable:
            self.accumulator.come_back(batch, self.now())
            self._ask_metadata()
        else:
            self._refuse(batch, error)

    # Errands: at most one of a kind at a time; one that fails pauses before it makes room for the next

    def _run_errand(self, kind: Hashable, errand: Callable[[], Awaitable[None]]) -> None:
        if kind not in self._errands:
            self._errands[kind] = self._loop.create_task(self._attempt(kind, errand))

    async def _attempt(self, kind: Hashable, errand: Callable[[], Awaitable[None]]) -> None:
        try:
            await errand()
            self._failures = 0
        except KohortError as error:
            self._trouble = error
            self._failures += 1
            await asyncio.sleep(self._pause_ms(self._failures - 1) / 1_000)
        finally:
            del self._errands[kind]
            self.wake()

    async def _connect(self, node: NodeId, link: Link) -> None:
        try:
            link.connection = await self._cluster.connection(node)
        except KohortError:
            self._ask_metadata()
            raise

    def _ask_metadata(self) -> None:
        self._metadata_due = self.now() + self._settings.metadata_max_age_ms
        self._run_errand(_METADATA, self._refresh)

    async def _refresh(self) -> None:
        await self._cluster.refresh(self.topics)

    async def _identify(self) -> None:
        """Get a producer id of any broker; without one nothing can be sent, so a refusal concerns all."""
        connection = await self._cluster.connection(Role.ANY)
        try:
            reply = await connection.send(
                InitProducerIdRequest(transactional_id=None),
                InitProducerIdResponse,
                highest=_INIT_PRODUCER_ID,
            )
            check(reply.error_code, "get a producer id")
        except (BrokerError, ApiNotServedError) as error:
            if not error.retriable:
                error.hint = "this broker gives none; enable_idempotence=False does without"
                self._fail_all(error)
            raise
        assert self.accumulator.sequences is not None
        self.accumulator.sequences.identify(reply.producer_id, reply.producer_epoch)

    def _fail_all(self, error: KohortError, *, in_flight: bool = False) -> None:
        for batch in self.accumulator.clear(in_flight=in_flight):
            batch.fail(error)
        self._settled()

    def _pause_ms(self, failures: int) -> float:
        return backoff_ms(failures, self._settings, random.random)
