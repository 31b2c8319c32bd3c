"""The consumer for programs without an event loop, on an embedded broker."""

import _thread
import asyncio
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
from tests.writing import write

from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import GroupInfo
from kohort.client.consumer import Consumer
from kohort.client.errors import (
    BrokerError,
    ConcurrentUseError,
    ConsumerClosedError,
    NoGroupError,
    WakeupError,
)
from kohort.client.subscription import Partitions, SubscriptionError
from kohort.model.errors import KohortError
from kohort.model.ids import GroupId
from kohort.testing.plugin import Kohort


@pytest.fixture
def make(kohort: Kohort) -> Callable[..., Consumer]:
    """Consumers of the shared broker."""

    def consumer(*topics: str, **more: object) -> Consumer:
        settings: dict[str, object] = {"bootstrap_servers": kohort.bootstrap, "fetch_max_wait_ms": 20}
        return Consumer(*topics, **(settings | more))  # type: ignore[arg-type]  # the tests' own names

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
    is_polling, may_go_on = threading.Event(), threading.Event()

    class Holding:
        def on_partitions_assigned(self, partitions: Partitions) -> None:
            is_polling.set()
            assert may_go_on.wait(60)

        def on_partitions_revoked(self, partitions: Partitions) -> None:
            """At the end."""

    with make(group_id=kohort.group()) as consumer:
        consumer.subscribe([topic], listener=Holding())

        def wait_for_records() -> None:
            try:
                consumer.poll(60_000)
            except WakeupError as error:
                ended.append(error)

        thread = threading.Thread(target=wait_for_records)
        thread.start()
        assert is_polling.wait(60)
        with pytest.raises(ConcurrentUseError, match="thread"):
            consumer.assignment()
        with pytest.raises(ConcurrentUseError, match="thread"):
            consumer.close()
        consumer.wakeup()
        may_go_on.set()
        thread.join()
    assert len(ended) == 1


def test_an_interrupt_of_a_close_does_not_keep_it_from_leaving(
    kohort: Kohort, make: Callable[..., Consumer]
) -> None:
    class Interrupted:
        def on_partitions_assigned(self, partitions: Partitions) -> None:
            """At the beginning."""

        def on_partitions_revoked(self, partitions: Partitions) -> None:
            raise KeyboardInterrupt

    topic, group = kohort.topic(), kohort.group()
    consumer = make(group_id=group)
    consumer.subscribe([topic], listener=Interrupted())
    consumer.start()
    while not consumer.assignment():
        consumer.poll(100)
    with pytest.raises(KeyboardInterrupt):
        consumer.close()
    described = asyncio.run(_describe(kohort.bootstrap, group))
    assert isinstance(described, GroupInfo)
    assert not described.members


async def _describe(bootstrap: str, group: str) -> GroupInfo | BrokerError:
    async with AsyncAdmin(bootstrap) as admin:
        return (await admin.describe_groups([group]))[GroupId(group)]


def test_a_wakeup_that_comes_with_the_end_is_too_late_and_does_no_harm(
    make: Callable[..., Consumer], caplog: pytest.LogCaptureFixture
) -> None:
    consumer = make()
    consumer.start()
    loop = consumer._loop
    assert loop is not None
    with consumer:
        loop.run(consumer._consumer.close())
        consumer.wakeup()
    consumer._loop = loop  # as a thread sees it that looked just before the end
    with pytest.raises(ConsumerClosedError):
        consumer.wakeup()
    assert not [record for record in caplog.records if record.name == "asyncio"]  # no callback failed


@pytest.fixture
def _ctrl_c_interrupts() -> Iterator[None]:
    """Python's own handler of SIGINT: a test before this one may have left another, or none."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c_interrupts")
def test_records_an_interrupt_came_in_the_way_of_are_returned_by_the_next_poll(
    kohort: Kohort, make: Callable[..., Consumer]
) -> None:
    class Interrupting:
        """Sends Ctrl-C at the worst moment: the records are on their way to the thread that polls."""

        def on_consume(self, records: dict[object, list[object]]) -> dict[object, list[object]]:
            if records:
                _thread.interrupt_main()
            return records

    topic = kohort.topic()
    asyncio.run(write(kohort.bootstrap, topic, [b"one"]))
    with make(auto_offset_reset="earliest", interceptors=[Interrupting()]) as consumer:
        consumer.assign([(topic, 0)])
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(10_000)
        assert consumer.position((topic, 0)) == 0
        ((record,),) = consumer.poll().values()
        assert record.value == b"one"
        assert consumer.position((topic, 0)) == 1
