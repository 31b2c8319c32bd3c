"""The futures of the sync producer: those of ``concurrent.futures``, with one lock for all."""

import asyncio
import threading
from concurrent.futures import FIRST_COMPLETED, Future, as_completed, wait

import pytest

from kohort.client.producer.batch import RecordMetadata
from kohort.client.producer.delivered import Arrivals, Delivered
from kohort.model.errors import KohortError
from kohort.model.ids import Offset, Partition, TopicName


def somewhere(offset: int) -> RecordMetadata:
    return RecordMetadata(TopicName("orders"), Partition(0), Offset(offset), 5)


def test_a_result_is_there_when_it_was_set_and_nobody_can_call_a_record_back() -> None:
    delivered = Delivered(Arrivals())
    assert not delivered.done()
    assert delivered.running()
    assert not delivered.cancel()
    with pytest.raises(TimeoutError):
        delivered.result(0)

    delivered.set_result(somewhere(7))

    assert delivered.done()
    assert not delivered.running()
    assert not delivered.cancelled()
    assert delivered.result() == somewhere(7)
    assert delivered.exception() is None


def test_an_error_is_raised_by_the_result() -> None:
    delivered = Delivered(Arrivals())
    with pytest.raises(TimeoutError):
        delivered.exception(0)

    delivered.set_exception(KohortError("refused"))

    assert isinstance(delivered.exception(), KohortError)
    with pytest.raises(KohortError, match="refused"):
        delivered.result()


def test_a_thread_that_waits_for_one_sleeps_on_when_others_arrive() -> None:
    arrivals = Arrivals()
    first, second = Delivered(arrivals), Delivered(arrivals)
    found: Future[RecordMetadata] = Future()
    thread = threading.Thread(target=lambda: found.set_result(second.result(30)))
    thread.start()

    first.set_result(somewhere(1))
    with pytest.raises(TimeoutError):
        second.result(0)
    second.set_result(somewhere(2))
    thread.join(30)

    assert found.result(0) == somewhere(2)


def test_waiting_for_several_callbacks_and_asyncio_work_as_with_any_future() -> None:
    arrivals = Arrivals()
    waited = [Delivered(arrivals) for _ in range(3)]
    heard: list[Future[RecordMetadata]] = []
    for one in waited:
        one.add_done_callback(heard.append)

    async def bridged() -> RecordMetadata:
        future = asyncio.wrap_future(waited[2])
        waited[2].set_result(somewhere(2))
        return await future

    thread = threading.Thread(target=lambda: waited[0].set_exception(KohortError("refused")))
    thread.start()
    done, left = wait(waited, timeout=30, return_when=FIRST_COMPLETED)
    thread.join(30)
    assert done == {waited[0]}
    assert left == {waited[1], waited[2]}
    assert asyncio.run(bridged()) == somewhere(2)
    waited[1].set_result(somewhere(1))
    futures: list[Future[RecordMetadata]] = [*waited]
    assert set(as_completed(futures, timeout=30)) == set(futures)
    assert set(heard) == set(waited)
