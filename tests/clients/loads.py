"""Producers that never stop, and what was acknowledged to each: for brokers that die under them."""

import itertools
from collections.abc import Callable
from typing import Protocol

from confluent_kafka import KafkaError, Message, Producer
from tests.clients.libraries import Untyped
from tests.clients.with_aiokafka import LoopThread, aiokafka
from tests.clients.with_confluent import settings as confluent_settings
from tests.clients.with_kafka_python import kafka
from tests.clients.with_kafka_python import settings as kafka_python_settings

PORTION = 20
AHEAD = 200  # how many records may wait for their acknowledgement


class Load(Protocol):
    """One producer. ``acknowledged`` maps offsets of partition 0 to the values the broker said are there."""

    topic: str
    sent: int
    acknowledged: dict[int, bytes]
    refused: list[str]

    def go_on(self) -> None:
        """Send a portion, unless enough is on its way."""
        ...

    def finish(self) -> None:
        """Wait until everything is acknowledged or refused, and close."""
        ...


class Tally:
    """What a load counts. Values are numbered, so that order and repetition can be seen."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.sent = 0
        self.acknowledged: dict[int, bytes] = {}
        self.refused: list[str] = []

    def send_portion(self, send: Callable[[bytes], None]) -> None:
        for _ in itertools.islice(itertools.count(), PORTION if self._waiting < AHEAD else 0):
            send(b"%08d of " % self.sent + self.topic.encode())
            self.sent += 1

    @property
    def _waiting(self) -> int:
        return self.sent - len(self.acknowledged) - len(self.refused)


class ConfluentLoad(Tally):
    """``confluent_kafka.Producer``."""

    def __init__(self, bootstrap: str, topic: str, *, idempotent: bool, codec: str = "none") -> None:
        super().__init__(topic)
        how = {"enable.idempotence": idempotent, "acks": "all", "compression.type": codec, "linger.ms": 1}
        self._producer = Producer(confluent_settings(bootstrap) | how)

    def go_on(self) -> None:
        self.send_portion(self._send)
        self._producer.poll(0.005)

    def finish(self) -> None:
        with self._producer:
            assert self._producer.flush(30) == 0

    def _send(self, value: bytes) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is not None or offset is None:
                self.refused.append(f"{value!r}: {error}")
            else:
                self.acknowledged[offset] = value

        self._producer.produce(self.topic, value=value, partition=0, on_delivery=delivered)


class KafkaPythonLoad(Tally):
    """``kafka.KafkaProducer``, idempotent as it is by default."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(topic)
        self._producer = kafka.KafkaProducer(**kafka_python_settings(bootstrap, linger_ms=1))

    def go_on(self) -> None:
        self.send_portion(self._send)

    def finish(self) -> None:
        self._producer.flush(timeout=30)
        self._producer.close()

    def _send(self, value: bytes) -> None:
        def delivered(answer: Untyped) -> None:
            self.acknowledged[answer.offset] = value

        future = self._producer.send(self.topic, value=value, partition=0)
        future.add_callback(delivered)
        future.add_errback(lambda error: self.refused.append(f"{value!r}: {error}"))


class AiokafkaLoad(Tally):
    """``aiokafka.AIOKafkaProducer``, idempotent, on its loop."""

    def __init__(self, bootstrap: str, topic: str, loop: LoopThread) -> None:
        super().__init__(topic)
        self._loop = loop
        self._producer = loop.run(self._start(bootstrap))

    def go_on(self) -> None:
        values: list[bytes] = []
        self.send_portion(values.append)
        self._loop.run(self._send(values))

    def finish(self) -> None:
        self._loop.run(self._producer.stop())

    async def _start(self, bootstrap: str) -> Untyped:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, retry_backoff_ms=20, linger_ms=1
        )
        await producer.start()
        return producer

    async def _send(self, values: list[bytes]) -> None:
        for value in values:
            future = await self._producer.send(self.topic, value=value, partition=0)
            future.add_done_callback(lambda done, value=value: self._delivered(done, value))

    def _delivered(self, done: Untyped, value: bytes) -> None:
        if done.exception() is not None:
            self.refused.append(f"{value!r}: {done.exception()}")
        else:
            self.acknowledged[done.result().offset] = value
