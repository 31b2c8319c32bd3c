"""Readers as plain objects, on a broker that lives in this process."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort import Producer
from kohort.client.admin import AsyncAdmin
from kohort.spark.options import SourceOptions, parse_source_options
from kohort.testing.plugin import Kohort

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT) not in sys.path:  # `tests` is no installed package
    sys.path.insert(0, str(ROOT))

Feed = Callable[..., None]
Administer = Callable[[Callable[[AsyncAdmin], Coroutine[Any, Any, Any]]], Any]
OptionsOf = Callable[..., SourceOptions]


@pytest.fixture
def feed(kohort: Kohort) -> Iterator[Feed]:
    """``feed(topic, count, partition=0, first=0, at=1_000)``: records ``v<number>`` a second apart."""
    with Producer(bootstrap_servers=kohort.bootstrap, linger_ms=0) as producer:

        def send(topic: str, count: int, partition: int = 0, first: int = 0, at: int = 1_000) -> None:
            for number in range(first, first + count):
                producer.send(
                    topic,
                    f"v{number}".encode(),
                    key=f"k{number}".encode(),
                    partition=partition,
                    timestamp_ms=at + 1_000 * (number - first),
                    headers=[("n", str(number).encode())],
                )
            producer.flush()

        yield send


@pytest.fixture
def options_of(kohort: Kohort) -> OptionsOf:
    """``options_of(streaming=…, subscribe=…)``: options for the shared broker; ``__`` stands for a dot."""

    def make(*, streaming: bool = False, **given: str) -> SourceOptions:
        named = {name.replace("__", "."): value for name, value in given.items()}
        return parse_source_options(
            {"kafka.bootstrap.servers": kohort.bootstrap} | named, streaming=streaming
        )

    return make


@pytest.fixture
def administer(kohort: Kohort) -> Administer:
    """``administer(lambda admin: admin.delete_topics([…]))``, and wait for it."""

    async def ask(question: Callable[[AsyncAdmin], Coroutine[Any, Any, Any]]) -> object:
        async with AsyncAdmin(kohort.bootstrap) as admin:
            return await question(admin)

    return lambda question: asyncio.run(ask(question))
