"""Our own producer on real sockets: what it wrote, read back by librdkafka; cut connections; a restart."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.clients.libraries import CODECS, Library, Sample
from tests.clients.node import Node
from tests.clients.records import START, assert_same, samples
from tools.peers.fetch import available
from tools.peers.kafka_broker import kafka_broker, running
from tools.peers.pins import Peer

from kohort.client.errors import BrokerError
from kohort.client.producer import AsyncProducer, Producer, SentRecord
from kohort.client.producer.settings import Acks, Compression
from kohort.testing import Broker
from kohort.testing.intercept import cut_off, cut_off_after, watch

PARTITIONS = 3
COUNT = 2_000


def _send(producer: Producer, topic: str, records: Sequence[Sample]) -> list[SentRecord]:
    return [
        producer.send(
            topic,
            sample.value,
            sample.key,
            partition=sample.partition,
            timestamp_ms=sample.timestamp,
            headers=sample.headers,
        )
        for sample in records
    ]


def _offsets(results: Sequence[SentRecord]) -> list[int]:
    return [result.result(30).offset for result in results]


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_reads_records_as_they_were_sent(
    codec: Compression, libraries: dict[str, Library]
) -> None:
    sent = samples(COUNT, partitions=PARTITIONS)
    with Broker(configs={"num.partitions": PARTITIONS}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap, compression_type=codec) as producer:
            results = _send(producer, "orders", sent)
        offsets = _offsets(results)
        records = libraries["confluent"].read(broker.bootstrap, "orders", PARTITIONS, COUNT)

    assert offsets == [number // PARTITIONS for number in range(COUNT)]
    assert_same(records, sent, partitions=PARTITIONS)


@pytest.mark.slow
def test_cut_connections_neither_repeat_nor_reorder_records(libraries: dict[str, Library]) -> None:
    sent = samples(600, partitions=PARTITIONS)
    with Broker(configs={"num.partitions": PARTITIONS}) as broker:
        seen = broker.intercept(watch, api="Produce")
        after = broker.intercept(cut_off_after, api="Produce", times=4)
        before = broker.intercept(cut_off, api="Produce", times=2)
        with Producer(
            bootstrap_servers=broker.bootstrap, batch_size=500, linger_ms=0, retry_backoff_ms=1
        ) as producer:  # many requests of few records
            results = _send(producer, "orders", sent[:300])
            producer.flush(30)
            later = [broker.intercept(cut_off_after, api="Produce", times=3)]
            results += _send(producer, "orders", sent[300:])
        offsets = _offsets(results)
        records = libraries["confluent"].read(broker.bootstrap, "orders", PARTITIONS, len(sent))

    assert (len(before.seen), len(after.seen), len(later[0].seen)) == (2, 4, 3)
    assert seen.seen
    assert offsets == [number // PARTITIONS for number in range(len(sent))]
    assert_same(records, sent, partitions=PARTITIONS)


@pytest.mark.slow
def test_a_broker_that_restarts_half_way_has_everything_once(
    tmp_path: Path, libraries: dict[str, Library]
) -> None:
    sent = samples(3_000, partitions=PARTITIONS)
    with Node(tmp_path, {"num.partitions": PARTITIONS}) as node:
        with Producer(bootstrap_servers=node.bootstrap, retry_backoff_ms=10, batch_size=4_000) as producer:
            results = _send(producer, "orders", sent[:1_000])
            producer.flush(30)
            results += _send(producer, "orders", sent[1_000:2_000])  # some are on their way
            node.restart()
            results += _send(producer, "orders", sent[2_000:])
        offsets = _offsets(results)
        records = libraries["confluent"].read(node.bootstrap, "orders", PARTITIONS, len(sent))

    assert offsets == [number // PARTITIONS for number in range(len(sent))]
    assert_same(records, sent, partitions=PARTITIONS)


@pytest.mark.slow
def test_records_sent_while_no_broker_runs_arrive_once_it_is_back(tmp_path: Path) -> None:
    with Node(tmp_path) as node, Producer(bootstrap_servers=node.bootstrap, retry_backoff_ms=10) as producer:
        first = producer.send("orders", b"before").result(30)
        node.stop()
        meanwhile = producer.send("orders", b"meanwhile")
        node.start()

        assert (first.offset, meanwhile.result(30).offset) == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement_gets_the_records_there(
    acks: Acks, libraries: dict[str, Library]
) -> None:
    sent = samples(500, partitions=PARTITIONS)
    with (
        Broker(configs={"num.partitions": PARTITIONS}) as broker,
        Producer(bootstrap_servers=broker.bootstrap, acks=acks) as producer,
    ):
        results = _send(producer, "orders", sent)
        producer.flush(30)
        records = libraries["confluent"].read(broker.bootstrap, "orders", PARTITIONS, len(sent))

    assert_same(records, sent, partitions=PARTITIONS)
    assert (_offsets(results)[0] == -1) == (acks == 0)


@pytest.mark.slow
def test_batches_larger_than_the_broker_takes_are_split_and_a_record_that_is_is_refused(
    libraries: dict[str, Library],
) -> None:
    sent = [sample for sample in samples(900, partitions=1) if len(sample.value or b"") < 1_000]
    with Broker(configs={"message.max.bytes": 3_000}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap, linger_ms=50) as producer:
            results = _send(producer, "orders", sent)
            producer.flush(30)
            with pytest.raises(BrokerError, match=r"MESSAGE_TOO_LARGE.*max\.message\.bytes"):
                producer.send("orders", b"v" * 4_000).result(30)
            results += _send(producer, "orders", sent)
        assert _offsets(results) == list(range(2 * len(sent)))
        records = libraries["confluent"].read(broker.bootstrap, "orders", 1, 2 * len(sent))

    came = [Sample(0, got.key, got.value, got.headers, got.timestamp) for got in records]
    assert came == [*sent, *sent]


@pytest.mark.slow
def test_a_buffer_of_a_few_records_holds_back_whoever_sends_too_fast() -> None:
    async def produce(bootstrap: str) -> list[int]:
        async with AsyncProducer(bootstrap_servers=bootstrap, max_buffered_bytes=1_000) as producer:
            futures = [await producer.send("orders", b"v" * 200, partition=0) for _ in range(300)]
            return [(await future).offset for future in futures]

    with Broker() as broker:
        assert asyncio.run(produce(broker.bootstrap)) == list(range(300))


@pytest.mark.interop
def test_apache_kafka_has_everything_once_in_every_codec_and_after_a_restart(
    tmp_path: Path, libraries: dict[str, Library]
) -> None:
    missing = available(Peer.KAFKA)
    if missing is not None:
        pytest.skip(missing)
    read = libraries["confluent"].read
    sent = samples(3_000, partitions=PARTITIONS)
    expected = [number // PARTITIONS for number in range(len(sent))]
    codecs: tuple[Compression, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
    # Batches are twice as large as this broker takes, so that they are split as well.
    configs = {"num.partitions": str(PARTITIONS), "message.max.bytes": "30000"}
    with kafka_broker(configs, tmp_path) as kafka:
        for codec in codecs:
            with Producer(bootstrap_servers=kafka.bootstrap, compression_type=codec) as producer:
                results = _send(producer, codec, sent)
            assert _offsets(results) == expected
            assert_same(read(kafka.bootstrap, codec, PARTITIONS, len(sent)), sent, partitions=PARTITIONS)
        # A producer whose last record is older than producer.id.expiration.ms is forgotten by a Kafka that
        # restarts, and what it sends again is stored again, whatever the client does. So these are of today.
        sent = [
            sample._replace(timestamp=sample.timestamp - START + round(time.time() * 1_000))
            for sample in sent
        ]
        producer = Producer(bootstrap_servers=kafka.bootstrap)
        producer.start()
        results = _send(producer, "restarted", sent[:1_000])
        producer.flush(30)
        results += _send(producer, "restarted", sent[1_000:2_000])  # some are on their way when it stops
    results += _send(producer, "restarted", sent[2_000:])
    with running(tmp_path) as kafka:
        producer.close()
        # Where a batch is that was stored but not acknowledged before the restart, Kafka may have forgotten.
        assert all(found in (due, -1) for found, due in zip(_offsets(results), expected, strict=True))
        assert_same(read(kafka.bootstrap, "restarted", PARTITIONS, len(sent)), sent, partitions=PARTITIONS)
