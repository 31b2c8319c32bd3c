"""DescribeTopicPartitions: pages of topics in the order of their names.

What Kafka answers in every version is recorded: ``tests/interop/scripts/cluster.py``.
"""

import pytest
from tests.broker.asking import create
from tests.broker.raw import Raw, Reply

from kohort.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)

Shown = dict[str, list[int]]


def ask(raw: Raw, *names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> Reply:
    after = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])
    topics = [TopicRequest(name=name) for name in names]
    request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=after)
    return raw.send(request, 0)


def shown(reply: Reply) -> Shown:
    return {topic.name: [part.partition_index for part in topic.partitions] for topic in reply.topics}


def next_of(reply: Reply) -> tuple[str, int] | None:
    cursor = reply.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


@pytest.fixture
def raw(raw: Raw) -> Raw:
    create(raw, "c", 1)
    create(raw, "a", 3)
    create(raw, "b", 2)
    return raw


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
def test_pages_of_any_size_show_everything_once(raw: Raw, limit: int) -> None:
    seen: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(10):
        reply = ask(raw, limit=limit, cursor=cursor)
        page = [(name, index) for name, indexes in shown(reply).items() for index in indexes]
        assert len(page) <= limit
        seen += page
        cursor = next_of(reply)
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]


def test_a_page_has_at_most_two_thousand_partitions(raw: Raw) -> None:
    create(raw, "large", 2_001)
    reply = ask(raw, "large", limit=5_000)
    assert len(shown(reply)["large"]) == 2_000
    assert next_of(reply) == ("large", 2_000)


@pytest.mark.parametrize("index", [3, 100, 2**31 - 1])
def test_a_cursor_beyond_a_topic_does_not_enlarge_the_page(raw: Raw, index: int) -> None:
    reply = ask(raw, limit=1, cursor=("a", index))
    assert sum(map(len, shown(reply).values())) <= 1
    assert next_of(reply) == ("b", 1)
