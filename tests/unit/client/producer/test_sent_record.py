"""What the sync producer returns for a record: result, error, callbacks, and a future where one is needed."""

import asyncio
import threading
from concurrent.futures import FIRST_COMPLETED, Future, as_completed, wait

import pytest

from kohort.client.producer.batch import RecordMetadata
from kohort.client.producer.sync_producer import Arrivals, SentRecord
from kohort.model.errors import KohortError
from kohort.model.ids import Offset, Partition, TopicName


def somewhere(offset: int) -> RecordMetadata:
    return RecordMetadata(TopicName("orders"), Partition(0), Offset(offset), 5)


def test_a_result_is_there_when_it_was_set() -> None:
    sent = SentRecord(Arrivals())
    assert not sent.done()
    assert repr(sent) == "<SentRecord on its way>"
    with pytest.raises(TimeoutError):
        sent.result(0)

    sent.set_result(somewhere(7))

    assert sent.done()
    assert sent.result() == somewhere(7)
    assert sent.exception() is None
    assert "offset=7" in repr(sent)


def test_an_error_is_raised_by_the_result() -> None:
    sent = SentRecord(Arrivals())
    with pytest.raises(TimeoutError):
        sent.exception(0)

    sent.set_exception(KohortError("refused"))

    assert isinstance(sent.exception(), KohortError)
    with pytest.raises(KohortError, match="refused"):
        sent.result()
    assert "refused" in repr(sent)


def test_a_thread_that_waits_for_one_sleeps_on_when_others_arrive() -> None:
    arrivals = Arrivals()
    first, second = SentRecord(arrivals), SentRecord(arrivals)
    found: Future[RecordMetadata] = Future()
    thread = threading.Thread(target=lambda: found.set_result(second.result(30)))
    thread.start()

    first.set_result(somewhere(1))
    with pytest.raises(TimeoutError):
        second.result(0)
    second.set_result(somewhere(2))
    thread.join(30)

    assert found.result(0) == somewhere(2)


def test_callbacks_hear_of_it_before_and_after_and_one_that_fails_does_not_hinder_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent = SentRecord(Arrivals())
    heard: list[SentRecord] = []

    def fail(_: SentRecord) -> None:
        raise ValueError("a bug of the application")

    sent.add_done_callback(fail)
    sent.add_done_callback(heard.append)
    assert not heard
    sent.set_result(somewhere(1))
    assert heard == [sent]
    sent.add_done_callback(heard.append)
    assert heard == [sent, sent]
    assert "a bug of the application" in caplog.text


def test_its_futures_work_with_those_who_wait_for_several_and_with_asyncio() -> None:
    arrivals = Arrivals()
    sent = [SentRecord(arrivals) for _ in range(3)]
    futures = [one.as_future() for one in sent]

    async def bridged() -> RecordMetadata:
        future = asyncio.wrap_future(futures[2])
        sent[2].set_result(somewhere(2))
        return await future

    thread = threading.Thread(target=lambda: sent[0].set_exception(KohortError("refused")))
    thread.start()
    done, left = wait(futures, timeout=30, return_when=FIRST_COMPLETED)
    thread.join(30)
    assert done == {futures[0]}
    assert left == {futures[1], futures[2]}
    assert asyncio.run(bridged()) == somewhere(2)
    sent[1].set_result(somewhere(1))
    assert set(as_completed(futures, timeout=30)) == set(futures)
