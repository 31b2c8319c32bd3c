"""Records for tests that read."""

import asyncio
from collections.abc import Iterable

from kohort.client.cluster import ClusterClient
from kohort.client.producer import AsyncProducer, RecordMetadata


async def write(
    cluster: ClusterClient | str, topic: str, values: Iterable[bytes], *, first_timestamp: int | None = None
) -> list[RecordMetadata]:
    """Write these values in one go; where each of them is. With a first timestamp they count on from it."""
    if isinstance(cluster, ClusterClient):
        made = AsyncProducer.on(cluster)
    else:
        made = AsyncProducer(bootstrap_servers=cluster)
    async with made as producer:
        sent = [
            await producer.send(
                topic, value, timestamp_ms=None if first_timestamp is None else first_timestamp + number
            )
            for number, value in enumerate(values)
        ]
        await producer.flush()
    return list(await asyncio.gather(*sent))
