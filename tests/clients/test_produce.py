"""Produce with every client: each kind of acknowledgement, and to a topic that is not there yet."""

import pytest
from tests.clients.libraries import Library, Production
from tests.clients.records import assert_same, samples

from kohort.testing.plugin import Kohort

COUNT = 300
SENT = samples(COUNT, partitions=2)


@pytest.mark.slow
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_stores_the_records(
    kohort: Kohort, library: Library, acks: str
) -> None:
    topic = kohort.topic(partitions=2)

    offsets = library.produce(kohort.bootstrap, topic, SENT, Production(acks=acks))

    # Without acknowledgements a client cannot know; librdkafka and aiokafka say -1 or nothing at all.
    if acks != "0":
        assert offsets == [number // 2 for number in range(COUNT)]
    assert_same(library.read(kohort.bootstrap, topic, 2, COUNT), SENT, partitions=2)


@pytest.mark.slow
def test_a_topic_that_does_not_exist_is_created_by_the_first_record(kohort: Kohort, library: Library) -> None:
    topic = kohort.topic() + "-new"

    sent = samples(10, partitions=1)
    assert library.produce(kohort.bootstrap, topic, sent, Production()) == list(range(10))

    assert_same(library.read(kohort.bootstrap, topic, 1, 10), sent, partitions=1)
