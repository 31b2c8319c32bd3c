"""One client library at work, in a process of its own: what it takes to consume or produce so many records.

``python -m benchmarks.client_load consume aiokafka 127.0.0.1:9092 topic 1000`` prints seconds by the clock
and of processor time, from the first poll or send on; importing and connecting are left out.
"""

import asyncio
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

VALUE = b"x" * 100
PORTION = 500  # max.poll.records of all
PATIENCE_MS = 10_000
LINGER_MS = 5


def rest() -> None:
    """Let the threads that importing numpy started stop spinning: they would count as ours."""
    time.sleep(0.3)


class Stopwatch:
    """Clock and processor time since it was started."""

    def __init__(self) -> None:
        self.clock, self.processor = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        clock, processor = time.perf_counter() - self.clock, time.process_time() - self.processor
        print(f"{clock:.6f} {processor:.6f}")


def consume_kohort(bootstrap: str, topic: str, count: int) -> None:
    import crc32c  # noqa: F401 - loaded before the clock starts, as every library's own code is

    import kohort.records.columns.read  # noqa: F401 - numpy, same
    from kohort.client.consumer import Consumer

    rest()
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        consumer.beginning_offsets([(topic, 0)])
        watch = Stopwatch()
        while count > 0:
            count -= sum(map(len, consumer.poll(PATIENCE_MS, PORTION).values()))
        watch.stop()


def consume_kohort_async(bootstrap: str, topic: str, count: int) -> None:
    asyncio.run(_consume_kohort_async(bootstrap, topic, count))


async def _consume_kohort_async(bootstrap: str, topic: str, count: int) -> None:
    import crc32c  # noqa: F401 - loaded before the clock starts, as every library's own code is

    import kohort.records.columns.read  # noqa: F401 - numpy, same
    from kohort.client.consumer import AsyncConsumer

    rest()
    async with AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        watch = Stopwatch()
        while count > 0:
            count -= sum(map(len, (await consumer.poll(PATIENCE_MS, PORTION)).values()))
        watch.stop()


def consume_kohort_arrow(bootstrap: str, topic: str, count: int) -> None:
    import crc32c  # noqa: F401 - loaded before the clock starts, as every library's own code is
    import numpy  # noqa: F401 - same
    import pyarrow.compute  # noqa: F401 - same

    from kohort.client.consumer import Consumer

    rest()
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        consumer.beginning_offsets([(topic, 0)])
        watch = Stopwatch()
        while count > 0:
            count -= sum(table.num_rows for table in consumer.fetch_arrow(PATIENCE_MS).values())
        watch.stop()


def consume_kohort_range(bootstrap: str, topic: str, count: int) -> None:
    from kohort.client.columnar import ColumnReader, arrow_schema

    arrow_schema()
    rest()
    with ColumnReader(bootstrap) as reader:
        list(reader.fetch(topic, 0, 0, 1))
        watch = Stopwatch()
        for batch in reader.fetch(topic, 0, 0, count):
            count -= batch.num_rows
        watch.stop()


def consume_confluent(bootstrap: str, topic: str, count: int) -> None:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "none", "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )  # fmt: skip
    consumer.list_topics(topic)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    watch = Stopwatch()
    while count > 0:
        for message in consumer.consume(PORTION, PATIENCE_MS / 1_000):
            assert message.error() is None
            message.key(), message.value()  # objects are made when they are asked for
            count -= 1
    watch.stop()
    consumer.close()


def consume_kafka_python(bootstrap: str, topic: str, count: int) -> None:
    kafka: Any = importlib.import_module("kafka")

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=PORTION, group_id=None
    )
    place = kafka.TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    watch = Stopwatch()
    while count > 0:
        count -= sum(map(len, consumer.poll(PATIENCE_MS).values()))
    watch.stop()
    consumer.close()


def consume_aiokafka(bootstrap: str, topic: str, count: int) -> None:
    asyncio.run(_consume_aiokafka(bootstrap, topic, count))


async def _consume_aiokafka(bootstrap: str, topic: str, count: int) -> None:
    aiokafka: Any = importlib.import_module("aiokafka")

    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([aiokafka.TopicPartition(topic, 0)])
    watch = Stopwatch()
    while count > 0:
        found = await consumer.getmany(timeout_ms=PATIENCE_MS, max_records=PORTION)
        count -= sum(map(len, found.values()))
    watch.stop()
    await consumer.stop()


def produce_kohort(bootstrap: str, topic: str, count: int) -> None:
    from kohort.client.producer import Producer

    with Producer(bootstrap_servers=bootstrap, linger_ms=LINGER_MS) as producer:
        producer.send(topic, value=VALUE, key=b"first", partition=0).result(30)
        watch = Stopwatch()
        for number in range(count):
            producer.send(topic, value=VALUE, key=b"%08d" % number, partition=0)
        producer.flush()
        watch.stop()


def produce_kohort_async(bootstrap: str, topic: str, count: int) -> None:
    asyncio.run(_produce_kohort_async(bootstrap, topic, count))


async def _produce_kohort_async(bootstrap: str, topic: str, count: int) -> None:
    from kohort.client.producer import AsyncProducer

    async with AsyncProducer(bootstrap_servers=bootstrap, linger_ms=LINGER_MS) as producer:
        await producer.send_and_wait(topic, VALUE, b"first", partition=0)
        watch = Stopwatch()
        for number in range(count):
            await producer.send(topic, value=VALUE, key=b"%08d" % number, partition=0)
        await producer.flush()
        watch.stop()


def produce_confluent(bootstrap: str, topic: str, count: int) -> None:
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": LINGER_MS})
    producer.produce(topic, VALUE, key=b"first", partition=0)
    producer.flush()
    watch = Stopwatch()
    for number in range(count):
        try:
            producer.produce(topic, VALUE, key=b"%08d" % number, partition=0)
        except BufferError:
            producer.poll(1)
            producer.produce(topic, VALUE, key=b"%08d" % number, partition=0)
    producer.flush()
    watch.stop()


def produce_kafka_python(bootstrap: str, topic: str, count: int) -> None:
    kafka: Any = importlib.import_module("kafka")

    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, linger_ms=LINGER_MS, acks="all")
    producer.send(topic, value=VALUE, key=b"first", partition=0).get(30)
    watch = Stopwatch()
    for number in range(count):
        producer.send(topic, value=VALUE, key=b"%08d" % number, partition=0)
    producer.flush()
    watch.stop()
    producer.close()


def produce_aiokafka(bootstrap: str, topic: str, count: int) -> None:
    asyncio.run(_produce_aiokafka(bootstrap, topic, count))


async def _produce_aiokafka(bootstrap: str, topic: str, count: int) -> None:
    aiokafka: Any = importlib.import_module("aiokafka")

    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=LINGER_MS, acks="all")
    await producer.start()
    await producer.send_and_wait(topic, value=VALUE, key=b"first", partition=0)
    watch = Stopwatch()
    for number in range(count):
        await producer.send(topic, value=VALUE, key=b"%08d" % number, partition=0)
    await producer.flush()
    watch.stop()
    await producer.stop()


LOADS: dict[tuple[str, str], Callable[[str, str, int], None]] = {
    ("consume", "Kohort, Arrow"): consume_kohort_arrow,
    ("consume", "Kohort, Arrow ranges"): consume_kohort_range,
    ("consume", "Kohort, objects"): consume_kohort,
    ("consume", "Kohort, objects, async"): consume_kohort_async,
    ("consume", "confluent-kafka"): consume_confluent,
    ("consume", "kafka-python"): consume_kafka_python,
    ("consume", "aiokafka"): consume_aiokafka,
    ("produce", "Kohort"): produce_kohort,
    ("produce", "Kohort, async"): produce_kohort_async,
    ("produce", "confluent-kafka"): produce_confluent,
    ("produce", "kafka-python"): produce_kafka_python,
    ("produce", "aiokafka"): produce_aiokafka,
}

if __name__ == "__main__":
    _, what, library, address, name, number = sys.argv
    LOADS[what, library](address, name, int(number))
