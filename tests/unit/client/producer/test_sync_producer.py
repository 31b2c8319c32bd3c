"""The producer for programs without an event loop, on an embedded broker."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from kohort.broker.context import Result
from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import NewTopic
from kohort.client.errors import BrokerError, NoBrokerError, UnknownTopicError
from kohort.client.producer import Producer, ProducerClosedError, WaitInCallbackError
from kohort.testing import Broker
from kohort.testing.intercept import Proceed, Seen, swallow


def test_sending_returns_at_once_and_the_result_says_where_it_went() -> None:
    with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap, linger_ms=0) as producer:
        results = [producer.send("orders", b"%d" % number, partition=0) for number in range(100)]

        assert [result.result(60).offset for result in results] == list(range(100))


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


def test_a_flush_that_takes_too_long_says_so_and_leaves_the_records_on_their_way() -> None:
    with Broker() as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap)
        producer.start()
        broker.intercept(swallow, api="Produce")
        sent = producer.send("orders", b"v")
        with pytest.raises(TimeoutError, match="stays on its way"):
            producer.flush(timeout=0.01)
        with pytest.raises(TimeoutError, match=r"within 0\.01 s"):
            sent.result(timeout=0.01)
        producer.close(timeout_ms=0)


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
        nowhere = producer.send("orders", b"v", partition=99)
        illegal = producer.send("no such name!", b"v")

        with pytest.raises(UnknownTopicError, match="no partition 99"):
            nowhere.result(30)
        with pytest.raises(BrokerError, match="INVALID_TOPIC_EXCEPTION"):
            illegal.result(30)


def test_what_is_of_the_wrong_type_is_refused_at_once() -> None:
    with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
        send: Any = producer.send
        for wrong, says in (
            (("orders", "text"), "value_serializer"),
            (("orders", b"v", 5), "key_serializer"),
            ((None, b"v"), "name is text"),
        ):
            with pytest.raises(TypeError, match=says):
                send(*wrong)
        with pytest.raises(TypeError, match="whole number"):
            send("orders", b"v", partition="0")
        assert producer.partitions_for("orders") == [0]
        assert repr(producer).startswith("<Producer 'kohort-producer' of 127.0.0.1:")


def test_a_topic_that_does_not_exist_holds_up_only_who_sends_to_it() -> None:
    asked = threading.Event()
    refusals: list[BaseException] = []

    def note(seen: Seen, proceed: Proceed) -> Result:
        asked.set()
        return proceed()

    def send_nowhere() -> None:
        with pytest.raises(ProducerClosedError) as caught:
            producer.send("missing", b"v")
        refusals.append(caught.value)

    with Broker(configs={"auto.create.topics.enable": False}) as broker:
        asyncio.run(_create(broker.bootstrap, "orders"))
        broker.intercept(note, api="Metadata", topic="missing")
        producer = Producer(bootstrap_servers=broker.bootstrap, max_block_ms=600_000)
        with producer:
            thread = threading.Thread(target=send_nowhere)
            thread.start()
            assert asked.wait(30)
            assert producer.send("orders", b"v").result(30).offset == 0
        thread.join(30)
    assert len(refusals) == 1


def test_a_lookup_that_fails_because_of_the_close_says_that_the_producer_was_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def closed_in_between(topic: str) -> tuple[int, list[int]]:
        producer.close()
        raise OSError("connection lost")

    with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
        monkeypatch.setattr(producer, "layout", closed_in_between)
        with pytest.raises(ProducerClosedError):
            producer.send("missing", b"v")


def test_a_callback_may_send_and_is_told_that_it_cannot_wait() -> None:
    told: list[str] = []
    is_over = threading.Event()

    def meddle(_: object) -> None:
        again = producer.send("other", b"from a callback")
        for call in (again.result, producer.flush, producer.close, lambda: producer.layout("orders")):
            with pytest.raises(WaitInCallbackError) as caught:
                call()
            told.append(str(caught.value))
        again.add_done_callback(lambda _: is_over.set())

    with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("orders", b"v").add_done_callback(meddle)
        assert is_over.wait(30)
    assert len(told) == 4


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


async def _create(bootstrap: str, topic: str) -> None:
    async with AsyncAdmin(bootstrap) as admin:
        await admin.create_topic(NewTopic(name=topic, partitions=1))
