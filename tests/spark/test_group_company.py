"""A query and ordinary consumers, of several libraries, in one group."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

import pytest
from tests.clients.libraries import Got, Library, Membership, NotCommittedError, ReadPartition
from tests.clients.with_confluent import Confluent
from tests.clients.with_kafka_python import KafkaPython, lost_sockets_collected
from tests.clients.with_own import Own
from tests.spark.group_stage import Driven, Stage, all_offsets, run

from kohort.model.topics import TopicPartition
from kohort.spark.offsets import topic_partition
from kohort.testing.plugin import Kohort

pytestmark = pytest.mark.slow


class Company(Driven):
    """An ordinary consumer, driven like a query; commits what it has processed after every poll."""

    def __init__(self, library: Library, stage: Stage) -> None:
        self._seen: list[tuple[TopicPartition, int]] = []
        self._held: set[TopicPartition] = set()
        membership = Membership(name="other", group=stage.group, topics=(stage.topic,))
        self._member = library.join(stage.kohort.bootstrap, membership, self)

    def assigned(self, member: str, places: Iterable[ReadPartition]) -> None:
        self._held |= {topic_partition(*place) for place in places}

    def revoked(self, member: str, places: Iterable[ReadPartition]) -> None:
        self._held -= {topic_partition(*place) for place in places}

    def consumed(self, member: str, records: Sequence[Got]) -> None:
        self._seen += [(topic_partition(*one.place), one.offset) for one in records]

    def trigger(self) -> int:
        before = len(self._seen)
        self._member.poll()
        newest = {ReadPartition(*where): offset + 1 for where, offset in sorted(self._seen[before:])}
        if newest:
            try:
                self._member.commit(newest)
            except NotCommittedError:
                return 0  # a rebalance came between; somebody reads them again
        return len(newest)

    @property
    def holds(self) -> dict[TopicPartition, int]:
        return dict.fromkeys(self._held, 0)

    @property
    def offsets(self) -> list[tuple[TopicPartition, int]]:
        return self._seen

    def close(self) -> None:
        self._member.close()


@pytest.fixture
def stage(kohort: Kohort, caplog: pytest.LogCaptureFixture) -> Iterator[Stage]:
    with lost_sockets_collected(caplog):
        yield Stage(kohort, partitions=4)


@pytest.mark.parametrize("library", [Own(), Confluent(), KafkaPython()], ids=lambda each: str(each.name))
def test_a_query_shares_its_group_with_an_ordinary_consumer(stage: Stage, library: Library) -> None:
    stage.write(5)
    query = stage.query()
    stage.catch_up(query, each=5)
    with closing(Company(library, stage)) as other:
        run(query, other, until=lambda: len(query.holds) == len(other.holds) == 2)
        stage.write(5)
        stage.catch_up(query, other, each=10)
        assert other.offsets, "both have worked"
    query.trigger_until(4)
    stage.write(5)
    stage.catch_up(query, each=15)
    assert sorted({*query.offsets, *other.offsets}) == all_offsets(stage.everywhere(15)), "none is missing"
    assert len(query.offsets) == len(set(query.offsets)), "the query has none twice"
    query.stop()
