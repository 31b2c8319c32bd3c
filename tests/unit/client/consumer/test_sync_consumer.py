"""The consumer for programs without an event loop, on an embedded broker."""

import threading
from collections.abc import Callable

import pytest

from kohort.client.consumer import Consumer
from kohort.client.consumer.errors import ConcurrentUseError, ConsumerClosedError, NoGroupError, WakeupError
from kohort.client.subscription import SubscriptionError
from kohort.model.errors import KohortError
from kohort.testing.plugin import Kohort


@pytest.fixture
def make(kohort: Kohort) -> Callable[..., Consumer]:
    """Consumers of the shared broker."""

    def consumer(*topics: str, group_id: str | None = None) -> Consumer:
        return Consumer(*topics, bootstrap_servers=kohort.bootstrap, group_id=group_id, fetch_max_wait_ms=20)

    return consumer


@pytest.mark.slow
def test_a_consumer_says_how_it_may_be_used(kohort: Kohort, make: Callable[..., Consumer]) -> None:
    topic = kohort.topic()
    consumer = make(group_id=kohort.group())
    with pytest.raises(ConsumerClosedError, match="not started"):
        consumer.poll()
    with consumer:
        with pytest.raises(SubscriptionError, match="nothing to poll"):
            consumer.poll()
        consumer.assign([(topic, 0)])
        with pytest.raises(SubscriptionError, match="unsubscribe"):
            consumer.subscribe([topic])
        with pytest.raises(SubscriptionError, match="not assigned"):
            consumer.seek((topic, 5), 0)
        with pytest.raises(KohortError, match="negative"):
            consumer.seek((topic, 0), -1)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(10_000)
        assert consumer.poll() == {}
        consumer.unsubscribe()
        consumer.subscribe([topic])
    with pytest.raises(ConsumerClosedError):
        consumer.poll()
    with pytest.raises(NoGroupError):
        make(topic)


def test_a_second_thread_is_refused_and_may_wake_the_first(
    kohort: Kohort, make: Callable[..., Consumer]
) -> None:
    topic = kohort.topic()
    ended: list[BaseException] = []
    with make() as consumer:
        consumer.assign([(topic, 0)])

        def wait_for_records() -> None:
            try:
                consumer.poll(60_000)
            except WakeupError as error:
                ended.append(error)

        thread = threading.Thread(target=wait_for_records)
        thread.start()

        def is_refused() -> bool:
            try:
                consumer.assignment()
            except ConcurrentUseError:
                return True
            return False

        while not is_refused():
            assert thread.is_alive()
        consumer.wakeup()
        thread.join()
    assert len(ended) == 1
