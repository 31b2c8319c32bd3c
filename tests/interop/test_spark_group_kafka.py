"""A query in a group of Apache Kafka whose offsets are reset, and whose topic is deleted and made again."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from tests.clients.waiting import eventually
from tests.interop.conftest import StartTarget
from tests.spark.group_stage import Driven, group_reader

from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import CommittedOffset, NewTopic
from kohort.client.errors import BrokerError
from kohort.client.producer import Producer
from kohort.model.errors import ErrorCode
from kohort.model.ids import Offset
from kohort.spark.errors import TopicMadeAgainError
from kohort.spark.group.offsets import GroupOffsetJson
from kohort.spark.offsets import topic_partition

pytestmark = [pytest.mark.interop, pytest.mark.slow]
T = TypeVar("T")


class Stage:
    """One topic of one partition in Kafka, and one checkpoint."""

    def __init__(self, bootstrap: str, topic: str, checkpoint: Path) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self._checkpoint = checkpoint

    def ask(self, question: Callable[[AsyncAdmin], Awaitable[T]]) -> T:
        async def work() -> T:
            async with AsyncAdmin(self.bootstrap) as admin:
                return await question(admin)

        return asyncio.run(work())

    def make(self, *, records: int) -> None:
        eventually("the topic can be made", self._make)
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for number in range(records):
                producer.send(self.topic, b"%d" % number, partition=0)

    def _make(self) -> bool:
        try:
            self.ask(lambda admin: admin.create_topic(NewTopic(name=self.topic, partitions=1)))
        except BrokerError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            return False  # Kafka is still at deleting it
        return True

    def query(self, end: GroupOffsetJson | None = None, *, careless: bool = False) -> Driven:
        reader = group_reader(
            self.bootstrap,
            self.topic,
            self.topic,
            kohort__checkpoint=str(self._checkpoint),
            failOnDataLoss="false" if careless else "true",
        )
        return Driven(reader, end)


@pytest.fixture
def stage(start_target: StartTarget, fresh_name: Callable[[str], str], tmp_path: Path) -> Stage:
    return Stage(start_target("kafka").bootstrap, fresh_name("spark-again"), tmp_path)


def test_a_reset_is_followed_and_a_topic_made_again_is_known_by_its_id(stage: Stage) -> None:
    stage.make(records=10)
    query = stage.query()
    assert [query.trigger(), query.trigger()] == [10, 0]
    query.stop()

    back = {topic_partition(stage.topic, 0): CommittedOffset(Offset(4))}
    stage.ask(lambda admin: admin.alter_group_offsets(stage.topic, back))
    again = stage.query(query.end)
    assert [again.trigger(), again.trigger()] == [6, 0]
    again.stop()

    stage.ask(lambda admin: admin.delete_topics([stage.topic]))
    stage.make(records=25)
    strict = stage.query(again.end)
    with pytest.raises(TopicMadeAgainError):
        strict.trigger()
    strict.stop()
    careless = stage.query(again.end, careless=True)
    assert [careless.trigger(), careless.trigger()] == [25, 0]
    careless.stop()
