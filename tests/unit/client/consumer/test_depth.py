"""How deep a poll goes: a reader who follows it in the calm case has at most ten calls to hold in mind."""

import asyncio
import sys
from types import FrameType

from kohort.client.consumer import AsyncConsumer
from kohort.client.producer import Producer
from kohort.testing.plugin import Kohort

MOST_CALLS = 10


def depth(frame: FrameType | None) -> list[str]:
    """The calls of the client that are open, from ``AsyncConsumer.poll`` on."""
    names = []
    while frame is not None:
        code = frame.f_code
        if "/kohort/client/" in code.co_filename and not code.co_name.startswith("<"):
            names.append(code.co_qualname)
            if code.co_qualname == "AsyncConsumer.poll":
                return names[::-1]
        frame = frame.f_back
    return []


def test_a_calm_poll_of_a_member_is_at_most_ten_calls_deep(kohort: Kohort) -> None:
    topic, group = kohort.topic(), kohort.group()
    deepest: list[str] = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        nonlocal deepest
        if event == "call" and len(found := depth(frame)) > len(deepest):
            deepest = found

    async def story() -> int:
        async with AsyncConsumer(
            topic, bootstrap_servers=kohort.bootstrap, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            while not await consumer.poll(1_000):
                pass
            while not await consumer.take_part(1_000):
                pass
            calm = 0
            for _ in range(5):
                sys.setprofile(watch)
                try:
                    await consumer.poll(0)
                finally:
                    sys.setprofile(None)
                calm += 1
            return calm

    with Producer(bootstrap_servers=kohort.bootstrap) as producer:
        producer.send(topic, b"v")
    assert asyncio.run(story()) == 5
    assert 4 < len(deepest) <= MOST_CALLS, " > ".join(deepest)
