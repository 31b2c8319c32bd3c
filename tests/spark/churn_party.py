"""Queries and ordinary consumers in one group: who works, what came over the wire, the account at the end.

The rules that are checked:

* every record was processed by somebody, and within one checkpoint none twice;
* nobody reads what the group has committed, but for the batch that a driver repeats after it was cut off
  (so a record that was processed twice had not been committed when it was read again);
* a committed offset never goes back.
"""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from tests.clients.feed import Feed
from tests.clients.libraries import Got, Library, Membership, NotCommittedError, ReadPartition
from tests.clients.waiting import Deadline
from tests.spark.churn_driver import PATIENCE_SECONDS, Driver

from kohort.broker.context import Response, Result
from kohort.client.admin import AsyncAdmin
from kohort.client.producer import Producer
from kohort.model.ids import GroupId
from kohort.spark.offsets import OffsetRange, topic_partition
from kohort.testing.broker import Broker
from kohort.testing.intercept import Proceed, Seen, swallow
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

T = TypeVar("T")
_log = logging.getLogger(__name__)
Row = tuple[str, int, int]
SESSION_MS = 10_000  # for busy machines; the time is not lost, a JVM takes as long to come back
LOOK_SECONDS = 0.5
FEED_SECONDS = 0.25


class Wire:
    """What the broker hears of a group with one topic: commits, and who reads where."""

    def __init__(self, broker: Broker, group: str) -> None:
        self.committed: dict[int, int] = {}
        self.went_back: list[str] = []
        self.read_again: list[tuple[str, int, int]] = []  # client, partition, offset: was committed before
        self._held_client: str | None = None
        self._held = threading.Event()
        broker.intercept(self._on_commit, api="OffsetCommit", group=group)
        broker.intercept(self._on_fetch, api="Fetch")

    def hold(self, client: str) -> None:
        """From now on fetches of this client get no answer."""
        self._held.clear()
        self._held_client = client

    def await_held(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Until a fetch waits: its batch is planned, recorded, and cannot end."""
        assert self._held.wait(seconds), f"{self._held_client} does not fetch"

    def let_go(self) -> None:
        self._held_client = None

    def _on_fetch(self, seen: Seen, proceed: Proceed) -> Result:
        assert isinstance(seen.request, FetchRequest)
        for topic in seen.request.topics:
            for one in topic.partitions:
                if one.fetch_offset < self.committed.get(one.partition, 0):
                    self.read_again.append((seen.client_id, one.partition, one.fetch_offset))
        if seen.client_id != self._held_client:
            return proceed()
        self._held.set()
        return swallow(seen, proceed)

    def _on_commit(self, seen: Seen, proceed: Proceed) -> Result:
        request = seen.request
        assert isinstance(request, OffsetCommitRequest)
        result = proceed()
        if not isinstance(result, Awaitable):
            return self._answered(request, result)

        async def wait_and_note(result: Awaitable[Response]) -> Response:
            return self._answered(request, await result)

        return wait_and_note(result)

    def _answered(self, request: OffsetCommitRequest, answer: Response) -> Response:
        assert isinstance(answer, OffsetCommitResponse)
        errors = [one.error_code for topic in answer.topics for one in topic.partitions]
        asked = [one for topic in request.topics for one in topic.partitions]
        for one, error in zip(asked, errors, strict=True):
            if error == 0:
                before = self.committed.get(one.partition_index, 0)
                if one.committed_offset < before:
                    self.went_back.append(f"{one.partition_index}: {before} to {one.committed_offset}")
                self.committed[one.partition_index] = one.committed_offset
        return answer


class Feeder:
    """Writes all the while, on a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.sent = dict.fromkeys(range(partitions), 0)
        self._bootstrap, self._topic = bootstrap, topic
        self._over = threading.Event()

    def work(self) -> None:
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            while not self._over.wait(FEED_SECONDS):
                for partition in self.sent:
                    for _ in range(5):
                        producer.send(self._topic, b"%d" % self.sent[partition], partition=partition)
                        self.sent[partition] += 1
                producer.flush()

    def finish(self) -> None:
        self._over.set()


class Consumer:
    """An ordinary member: polls and commits what it has processed, on its own thread, until it leaves."""

    def __init__(self, name: str, library: Library, bootstrap: str) -> None:
        self.name = name
        self.seen: list[Row] = []
        self._library, self._bootstrap = library, bootstrap
        self._over = threading.Event()

    def assigned(self, member: str, places: Iterable[ReadPartition]) -> None: ...

    def revoked(self, member: str, places: Iterable[ReadPartition]) -> None: ...

    def consumed(self, member: str, records: Sequence[Got]) -> None:
        self.seen += [(*one.place, one.offset) for one in records]

    def work(self, group: str, topic: str) -> None:
        self._over.clear()
        membership = Membership(name=self.name, group=group, topics=(topic,), session_ms=SESSION_MS)
        member = self._library.join(self._bootstrap, membership, self)
        try:
            while not self._over.is_set():
                before = len(self.seen)
                member.poll()
                newest = {ReadPartition(*row[:2]): row[2] + 1 for row in self.seen[before:]}
                try:
                    if newest:
                        member.commit(newest)
                except NotCommittedError:
                    pass  # a rebalance came between: somebody reads them again
        finally:
            member.close()

    def leave(self) -> None:
        self._over.set()


class Account(NamedTuple):
    """What became of the records."""

    records: int
    missing: list[Row]
    twice: dict[str, int]  # within one checkpoint
    repeated: int  # over all members
    by_member: dict[str, int]


class Churn:
    """One group: drivers, consumers, a feeder, and the wire under observation."""

    def __init__(self, broker: Broker, root: Path, topic: str, partitions: int) -> None:
        self.feeder = Feeder(broker.bootstrap, topic, partitions)
        self.drivers: dict[str, Driver] = {}
        self.consumers: dict[str, Consumer] = {}
        self._broker, self._root, self._topic = broker, root, topic
        self._group = f"{topic}-group"
        Feed(broker.bootstrap, topic, partitions).begin(self._group)
        self.wire = Wire(broker, self._group)
        self._threads = ThreadPoolExecutor(8)
        self._working: dict[str, Future[None]] = {}

    def __enter__(self) -> Self:
        self._working["feeder"] = self._threads.submit(self.feeder.work)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.wire.let_go()
        self.feeder.finish()
        for driver in self.drivers.values():
            driver.close()
            if error is not None:
                _log.error("%s:\n%s", driver.name, driver.complaints())
        for consumer in self.consumers.values():
            consumer.leave()
        self._threads.shutdown()

    # --- members ------------------------------------------------------------------------------

    def driver(self, name: str, **options: str) -> Driver:
        """A new one, started; its clients go by its name."""
        given = {
            "kafka.client.id": name,
            "kafka.session.timeout.ms": str(SESSION_MS),
            "kafka.heartbeat.interval.ms": "200",
            "kafka.retry.backoff.ms": "20",
            **{option.replace("__", "."): value for option, value in options.items()},
        }
        words = tuple(f"{option}={value}" for option, value in given.items())
        order = (self._broker.bootstrap, self._topic, self._group, *words)
        self.drivers[name] = Driver(name, self._root, order)
        self.drivers[name].start()
        return self.drivers[name]

    def join(self, library: Library) -> None:
        """A consumer comes, or comes back."""
        name = library.name
        consumer = self.consumers.setdefault(name, Consumer(name, library, self._broker.bootstrap))
        self._working[name] = self._threads.submit(consumer.work, self._group, self._topic)

    def leave(self, library: Library) -> None:
        """It goes in order. The others go on: they have threads of their own."""
        self.consumers[library.name].leave()
        self._working.pop(library.name).result(PATIENCE_SECONDS)

    # --- waiting ------------------------------------------------------------------------------

    def until(self, wanted: str, holds: Callable[[], bool]) -> None:
        """Ask now and then; whoever fails meanwhile fails the test."""
        _log.info("waiting for %s", wanted)
        deadline = Deadline(wanted, PATIENCE_SECONDS)
        while not holds():
            deadline.check(f"members have {self.shares()}")
            for done in wait(self._working.values(), LOOK_SECONDS, FIRST_EXCEPTION).done:
                done.result()
            for driver in self.drivers.values():
                driver.check()

    def until_shared(self, *names: str) -> None:
        """Until these members, and nobody else, have all partitions between them."""

        def shared() -> bool:
            shares = self.shares()
            return set(shares) == set(names) and sum(shares.values()) == len(self.feeder.sent)

        self.until(f"partitions shared by {', '.join(names)}", shared)

    def shares(self) -> dict[str, int]:
        """How many partitions each member has, by client id, while the group is stable."""
        found = self._ask(lambda admin: admin.describe_groups([self._group]))[GroupId(self._group)]
        if isinstance(found, BaseException) or found.state != "Stable":
            return {}
        return {one.client_id: len(one.assignment) for one in found.members}

    def until_committed(self) -> None:
        """End the feed, and wait until the group has committed the last record."""
        self.feeder.finish()
        self._working.pop("feeder").result(PATIENCE_SECONDS)
        self.until("all records", lambda: self.wire.committed == self.feeder.sent)

    def _ask(self, question: Callable[[AsyncAdmin], Awaitable[T]]) -> T:
        async def work() -> T:
            async with AsyncAdmin(self._broker.bootstrap) as admin:
                return await question(admin)

        return asyncio.run(work())

    # --- the account --------------------------------------------------------------------------

    def account(self) -> Account:
        """After the end: what everybody has done."""
        written = {name: driver.rows() for name, driver in self.drivers.items()}
        done = written | {name: consumer.seen for name, consumer in self.consumers.items()}
        counted = Counter(row for rows in done.values() for row in rows)
        return Account(
            records=sum(self.feeder.sent.values()),
            missing=[row for row in self._expected() if row not in counted],
            twice={name: len(rows) - len(set(rows)) for name, rows in written.items()},
            repeated=sum(times > 1 for times in counted.values()),
            by_member={name: len(rows) for name, rows in done.items()},
        )

    def _expected(self) -> Iterator[Row]:
        for partition, count in self.feeder.sent.items():
            for offset in range(count):
                yield (self._topic, partition, offset)

    def check_wire(self) -> None:
        """Nobody read what the group had committed, but for batches that drivers had to repeat."""
        assert self.wire.went_back == []
        odd = [each for each in self.wire.read_again if not self._is_replay(*each)]
        assert odd == []

    def _is_replay(self, client: str, partition: int, offset: int) -> bool:
        where = topic_partition(self._topic, partition)
        ranges = self.drivers[client].replayed if client in self.drivers else []
        return any(_covers(one, offset) for one in ranges if one.where == where)


def _covers(one: OffsetRange, offset: int) -> bool:
    return one.start <= offset < one.end
