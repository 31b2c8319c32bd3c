"""``kohort topics``, where a cluster is slower than its controller."""

import asyncio
from typing import cast

import pytest

from kohort.cli import topics
from kohort.client.admin import AsyncAdmin
from kohort.client.metadata import PartitionInfo, TopicInfo


class LaggingCluster:
    """Hears of new partitions when it is asked for the third time."""

    def __init__(self) -> None:
        self.asked = 0

    async def describe_topic(self, name: str) -> TopicInfo:
        self.asked += 1
        return cast(TopicInfo, FakeTopic(3 if self.asked < 3 else 4))


class FakeTopic:
    def __init__(self, partitions: int) -> None:
        self.partitions = [cast(PartitionInfo, number) for number in range(partitions)]


@pytest.mark.parametrize(("wanted", "asked"), [(0, 1), (3, 1), (4, 3)])
def test_a_topic_that_has_grown_is_shown_as_soon_as_the_brokers_know_it(
    wanted: int, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "_LOOK_AGAIN_SECONDS", 0)
    cluster = LaggingCluster()
    shown = asyncio.run(topics.describe_grown(cast(AsyncAdmin, cluster), "t", wanted))
    assert len(shown.partitions) >= wanted
    assert cluster.asked == asked


def test_a_topic_that_does_not_grow_in_time_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_LOOK_AGAIN_SECONDS", 0)
    shown = asyncio.run(topics.describe_grown(cast(AsyncAdmin, LaggingCluster()), "t", 5))
    assert len(shown.partitions) == 4
