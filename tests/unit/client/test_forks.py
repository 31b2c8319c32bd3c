"""Clients in a process that was forked from the one that started them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kohort.client import loop_thread
from kohort.client.consumer import Consumer
from kohort.client.loop_thread import ForkedError, OwnerProcess
from kohort.client.producer import Producer
from kohort.testing.plugin import Kohort


def test_a_forked_process_is_not_the_owner_of_what_was_made_before() -> None:
    owner = OwnerProcess("thing")
    assert not owner.is_another
    owner.check()
    child = os.fork()
    if not child:
        os._exit(10 + owner.is_another - OwnerProcess("other").is_another)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 11
    assert not owner.is_another


@contextmanager
def in_a_child() -> Iterator[None]:
    """What a fork changes, without one."""
    with pytest.MonkeyPatch.context() as child:
        child.setattr(loop_thread, "_forks", [loop_thread._forks[0] + 1])
        yield


def test_a_consumer_is_refused_after_a_fork_and_its_close_does_nothing(kohort: Kohort) -> None:
    consumer = Consumer(bootstrap_servers=kohort.bootstrap)
    with in_a_child(), consumer:  # it was not started before: it belongs here
        consumer.assign([(kohort.topic(), 0)])
        with in_a_child():
            for call in (consumer.poll, consumer.wakeup, consumer.assignment, consumer.topics):
                with pytest.raises(ForkedError, match="make a consumer in the process"):
                    call()
            consumer.close()
        assert consumer.poll() == {}


def test_a_producer_is_refused_after_a_fork_and_its_close_does_nothing(kohort: Kohort) -> None:
    topic = kohort.topic()
    with Producer(bootstrap_servers=kohort.bootstrap) as producer:
        producer.send(topic, b"parent").result(30)
        with in_a_child():
            for call in (lambda: producer.send(topic, b"child"), producer.flush, producer.start):
                with pytest.raises(ForkedError, match="make a producer in the process"):
                    call()
            producer.close()
        assert producer.send(topic, b"parent").result(30).offset == 1
