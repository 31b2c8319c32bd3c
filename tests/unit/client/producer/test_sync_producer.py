"""The producer for programs without an event loop, on an embedded broker."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from kohort.client.errors import NoBrokerError, UnknownTopicError
from kohort.client.producer import Producer, ProducerClosedError
from kohort.testing import Broker
from kohort.testing.intercept import swallow


def test_sending_returns_at_once_and_the_result_says_where_it_went() -> None:
    with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap, linger_ms=0) as producer:
        results = [producer.send("orders", b"%d" % number, partition=0) for number in range(100)]

        assert [result.result(10).offset for result in results] == list(range(100))


def test_flush_returns_when_everything_is_there() -> None:
    with (
        Broker() as broker,
        Producer(
            bootstrap_servers=broker.bootstrap, linger_ms=60_000, delivery_timeout_ms=120_000
        ) as producer,
    ):
        results = [producer.send("orders", b"v") for _ in range(10)]
        producer.flush(timeout=30)

        assert all(result.done() for result in results)


def test_several_threads_may_send_and_each_keeps_its_order() -> None:
    with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
        offsets: dict[int, list[int]] = {}

        def send(number: int) -> None:
            results = [producer.send("orders", b"v", partition=0) for _ in range(200)]
            offsets[number] = [result.result(30).offset for result in results]

        threads = [threading.Thread(target=send, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert all(one == sorted(one) for one in offsets.values())
    assert sorted(offset for one in offsets.values() for offset in one) == list(range(600))


def test_what_goes_wrong_with_a_record_is_raised_by_its_result() -> None:
    with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
        text = producer.send("orders", "text")
        nowhere = producer.send("orders", b"v", partition=99)

        with pytest.raises(TypeError, match="value_serializer"):
            text.result(10)
        with pytest.raises(UnknownTopicError, match="no partition 99"):
            nowhere.result(10)


def test_a_closed_producer_refuses_records_and_stays_closed() -> None:
    with Broker() as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap)
        producer.start()
        last = producer.send("orders", b"v")
        producer.close()
        producer.close()

    assert last.result(0).offset == 0
    with pytest.raises(ProducerClosedError):
        producer.send("orders", b"v")
    with pytest.raises(ProducerClosedError, match="make another"):
        producer.start()


def test_nobody_at_the_address_is_an_error_at_once() -> None:
    producer = Producer(bootstrap_servers="127.0.0.1:1")

    with pytest.raises(NoBrokerError, match=r"127\.0\.0\.1:1"):
        producer.start()
    with pytest.raises(ProducerClosedError):
        producer.send("orders", b"v")


def test_a_producer_that_was_never_started_can_be_dropped() -> None:
    producer = Producer()

    producer.close()

    with pytest.raises(ProducerClosedError):
        producer.flush()


def test_an_interrupt_of_a_close_leaves_nobody_waiting_and_nothing_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Broker() as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap, linger_ms=0)
        producer.start()
        producer.send("orders", b"there").result(30)
        broker.intercept(swallow, api="Produce")
        last = producer.send("orders", b"on its way")
        run, interrupts = producer._run, iter([KeyboardInterrupt()])

        def interrupted(work: Coroutine[Any, Any, None], timeout: float | None = None) -> None:
            for interrupt in interrupts:
                work.close()
                raise interrupt
            run(work, timeout)

        monkeypatch.setattr(producer, "_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            producer.close()
        with pytest.raises(ProducerClosedError):
            last.result(0)
        broker.run(broker.server.all_closed())


def test_whoever_still_waits_when_the_producer_is_closed_is_told() -> None:
    told: list[BaseException] = []
    has_begun = threading.Event()

    async def for_ever() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    def wait() -> None:
        with pytest.raises(ProducerClosedError) as caught:
            producer._run(for_ever())
        told.append(caught.value)

    with Broker() as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap)
        producer.start()
        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        assert has_begun.wait(30)
        producer.close()
        waiting.join(30)
    assert len(told) == 1
