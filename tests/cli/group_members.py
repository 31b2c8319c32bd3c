"""Members of real groups, for the commands that show them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from confluent_kafka import Consumer

logger = logging.getLogger("tests.cli.librdkafka")
logger.propagate = False


class Member:
    """A consumer in a thread of its own; it commits what it reads."""

    def __init__(self, bootstrap: str, group: str, topic: str, name: str, **settings: Any) -> None:  # noqa: ANN401 - settings of librdkafka
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": name,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 100,
                "logger": logger,
                **settings,
            }
        )
        self._consumer.subscribe([topic])
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=name)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._consumer.poll(0.05)
        self._consumer.close()

    def leave(self) -> None:
        self._stopping.set()
        self._thread.join()


@contextmanager
def members(bootstrap: str, group: str, topic: str, *names: str, **settings: Any) -> Iterator[list[Member]]:  # noqa: ANN401 - settings of librdkafka
    joined = [Member(bootstrap, group, topic, name, **settings) for name in names]
    try:
        yield joined
    finally:
        for one in joined:
            one.leave()
