"""Clients that behave, while others do not: they must be served all the time."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from tests.broker.asking import append, batch, create, fetch_request, part
from tests.broker.grouping import alone, heartbeat_request, join_request, sync_request
from tests.broker.raw import Raw

SESSION_MS = 6_000


class Bystander:
    """Does its work again and again until it is stopped; remembers what went wrong."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.rounds = 0
        self.wrong: BaseException | None = None
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.02):
                self._work()
                self.rounds += 1
        except BaseException as error:
            self.wrong = error

    def end(self) -> int:
        self._stop.set()
        self._thread.join()
        if self.wrong is not None:
            raise self.wrong
        return self.rounds


@contextmanager
def bystanders(bootstrap: str) -> Iterator[None]:
    """A member that beats, a producer and a consumer; all of them must be served all the time."""
    with ExitStack() as stack:
        member, producer, consumer = (stack.enter_context(Raw(bootstrap)) for _ in range(3))
        create(producer, "calm")
        identity = alone(member, group="calm")
        read = 0

        def beat() -> None:
            assert member.send(heartbeat_request(*identity, group="calm"), 4).error_code == 0

        def produce() -> None:
            append(producer, "calm", batch("x" * 100_000))

        def consume() -> None:
            nonlocal read
            request = fetch_request({"calm": [part(offset=read)]}, wait=500)
            answer = consumer.send(request, 12).responses[0].partitions[0]
            assert answer.error_code == 0
            read += len(answer.records) // 100_000

        working = [Bystander(work) for work in (beat, produce, consume)]
        try:
            yield
        finally:
            beats, produced, _ = [each.end() for each in working]
        assert beats > 10
        assert produced > 10
        while read < produced:
            consume()


def beat(bootstrap: str, over: threading.Event, every_s: float) -> list[int]:
    """The codes a member gets that is heard several times in a session; the last one after the attack."""
    with Raw(bootstrap, "member") as raw:
        joined = raw.send(join_request(session_ms=SESSION_MS, group="bystanders"), 3)
        member, generation = joined.member_id, joined.generation_id
        raw.send(sync_request(member, generation, {member: b""}, group="bystanders"), 3)
        codes = []
        is_over = False
        while not is_over:
            is_over = over.wait(every_s)
            beat = heartbeat_request(member, generation, group="bystanders")
            codes.append(raw.send(beat, 4).error_code)
        return codes
