"""Synthetic orders, written to the topic as long as the shop is open."""

import asyncio
import json
import random
from collections.abc import Iterator

import kohort

CUSTOMERS = (
    *("Ada", "Bela", "Chiara", "Dusan", "Elif", "Femi", "Greta", "Hugo", "Ines", "Jomo", "Katja", "Liam"),
    *("Mira", "Noor", "Otis", "Petra", "Quinn", "Rosa", "Sven", "Tara", "Umut", "Vera", "Wim", "Xenia"),
)
GOODS = {"book": 18.5, "lamp": 49.0, "pens": 4.2, "chair": 89.0, "mug": 9.9, "plant": 14.5}
_BURST_SECONDS = 0.1


def orders(seed: int = 5) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of one order after another, the same ones every time: numbered from 0."""
    dice = random.Random(seed)
    number = 0
    while True:
        customer, item, pieces = dice.choice(CUSTOMERS), dice.choice(tuple(GOODS)), dice.randint(1, 4)
        order = {"order": number, "customer": customer, "item": item, "pieces": pieces}
        order["total"] = round(GOODS[item] * pieces, 2)
        yield customer.encode(), json.dumps(order).encode()
        number += 1


class Shop:
    """Writes so many orders a second until it is closed."""

    def __init__(self, bootstrap: str, topic: str, per_second: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._burst = max(1, round(per_second * _BURST_SECONDS))
        self._closing = asyncio.Event()
        self.written = 0

    async def open(self) -> None:
        """Until ``close``; then everything that was written is acknowledged."""
        ordered = orders()
        async with kohort.AsyncProducer(bootstrap_servers=self._bootstrap, client_id="shop") as producer:
            while not self._closing.is_set():
                for _ in range(self._burst):
                    key, value = next(ordered)
                    await producer.send(self._topic, value, key=key)
                    self.written += 1
                await asyncio.sleep(_BURST_SECONDS)
            await producer.flush()

    def close(self) -> None:
        self._closing.set()
