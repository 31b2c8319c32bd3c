"""Data in and out: megabytes and requests per second, by raw requests and by a real client."""

import asyncio
import time

from benchmarks.groups import make_topic, on_loop
from benchmarks.pipeline import Pipe, connect, hammer, request_frame
from benchmarks.targets import Target
from kohort.records.batch import NewRecord, build_batch
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

MIB = 1024 * 1024


def _batch(records: int, size: int) -> bytes:
    now = int(time.time() * 1_000)
    return build_batch([NewRecord(now, None, bytes([65 + n % 26]) * size) for n in range(records)])


def _produce(topic: str, batch: bytes) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        ],
    )


async def _warm(pipe: Pipe, topic: str) -> None:
    """The first request to a fresh topic, until its leader is ready."""
    while True:
        reply = await pipe.call(_produce(topic, _batch(1, 10)), 8)
        assert isinstance(reply, ProduceResponse)
        if reply.responses[0].partition_responses[0].error_code == 0:
            return
        await asyncio.sleep(0.05)


def produce_rate(target: Target, *, records: int, size: int, depth: int, seconds: float) -> float:
    """MB of record values stored per second: one connection, ``depth`` requests in flight, acks=all."""

    async def run() -> float:
        topic = f"produce-{records}x{size}"
        await make_topic(target, topic)
        pipe = await connect(target.host, target.port)
        await _warm(pipe, topic)
        frame = request_frame(_produce(topic, _batch(records, size)), 8)
        rate = await hammer([(pipe, frame)], depth, seconds)
        pipe.transport.close()
        return rate * records * size / 1e6

    return on_loop(run())


def small_produces(target: Target, connections: int, seconds: float) -> float:
    """Produce requests per second: one record of 100 bytes each, one in flight on every connection."""

    async def run() -> float:
        await make_topic(target, "small")
        pipes = [await connect(target.host, target.port) for _ in range(connections)]
        await _warm(pipes[0], "small")
        frame = request_frame(_produce("small", _batch(1, 100)), 8)
        rate = await hammer([(pipe, frame) for pipe in pipes], 1, seconds)
        for pipe in pipes:
            pipe.transport.close()
        return rate

    return on_loop(run())


def _fetch(topic: str, offset: int, max_bytes: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def fetch_rate(target: Target, *, megabytes: int, seconds: float) -> float:
    """MB of batches per second: a topic of ``megabytes``, read in pieces of 1 MiB, two in flight."""

    async def run() -> float:
        topic = f"fetch-{megabytes}"
        await make_topic(target, topic)
        pipe = await connect(target.host, target.port)
        await _warm(pipe, topic)
        batch = _batch(1_000, 900)
        frame = request_frame(_produce(topic, batch), 8)
        await hammer_count(pipe, frame, megabytes * 1_000_000 // len(batch))
        first = await pipe.call(_fetch(topic, 1, MIB), 11)
        assert isinstance(first, FetchResponse)
        records = first.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        rate = await hammer([(pipe, request_frame(_fetch(topic, 1, MIB), 11))], 2, seconds)
        pipe.transport.close()
        return rate * len(records) / 1e6

    return on_loop(run())


def fill(target: Target, topic: str, batch: bytes, count: int) -> None:
    """Make a topic that holds a batch so many times and nothing else."""

    async def run() -> None:
        await make_topic(target, topic)
        pipe = await connect(target.host, target.port)
        await hammer_count(pipe, request_frame(_produce(topic, batch), 8), count)
        pipe.transport.close()

    on_loop(run())


async def hammer_count(pipe: Pipe, frame: bytes, count: int) -> None:
    """Send a frame so many times, four in flight."""
    done = asyncio.get_running_loop().create_future()
    sent = answered = 0

    def on_reply(replies: int) -> None:
        nonlocal sent, answered
        answered += replies
        if answered >= count and not done.done():
            done.set_result(None)
        for _ in range(min(replies, count - sent)):
            pipe.transport.write(frame)
            sent += 1

    pipe.on_reply = on_reply
    for _ in range(min(4, count)):
        pipe.transport.write(frame)
        sent += 1
    await done
    pipe.on_reply = None


def librdkafka_round_trip(target: Target, messages: int) -> tuple[float, float]:
    """Thousands of 100-byte messages per second through confluent-kafka: produced, then consumed."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    topic = f"rdkafka-{time.monotonic_ns()}"
    on_loop(make_topic(target, topic))
    producer = Producer(
        {"bootstrap.servers": target.bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000}
    )
    value = b"x" * 100
    started = time.perf_counter()
    for _ in range(messages):
        producer.produce(topic, value, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    produced = messages / (time.perf_counter() - started) / 1e3
    consumer = Consumer(
        {"bootstrap.servers": target.bootstrap, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = 0
    started = time.perf_counter()
    while got < messages:
        got += len(consumer.consume(10_000, 1.0))
    consumed = messages / (time.perf_counter() - started) / 1e3
    consumer.close()
    return produced, consumed
