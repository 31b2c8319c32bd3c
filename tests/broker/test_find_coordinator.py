"""FindCoordinator: where groups live (scenarios 1 to 8 of classic-groups.md)."""

import asyncio

import pytest
from tests.broker.asking import create, metadata
from tests.broker.conftest import Restart
from tests.broker.grouping import commit_request, find
from tests.broker.raw import Raw, Reply

from kohort.broker.topics import ServedTopic, TopicToCreate
from kohort.model.errors import ErrorCode, RefusedError
from kohort.testing.broker import Broker
from kohort.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.metadata import MetadataRequest

SINGLE, SEVERAL = range(4), range(4, 7)
TRANSACTION, SHARE = 1, 2


def place(entry: Reply) -> tuple[int, str]:
    return entry.node_id, f"{entry.host}:{entry.port}"


@pytest.mark.parametrize("version", SINGLE)
def test_the_first_lookup_creates_the_offsets_topic_and_succeeds(
    raw: Raw, broker: Broker, version: int
) -> None:
    reply = find(raw, "g", version)
    assert (reply.error_code, place(reply)) == (0, (1, broker.bootstrap))
    topic = metadata(raw, "__consumer_offsets").topics[0]
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 50)


@pytest.mark.parametrize(
    ("group", "partition"),
    [("polygenelubricants", 0), ("test", 48), ("my-group", 12), ("消费组", 35), ("😀", 49)],
)
def test_a_group_is_stored_where_the_hash_of_its_utf_16_units_says(
    raw: Raw, group: str, partition: int
) -> None:
    create(raw, "t")
    find(raw, group)
    assert raw.send(commit_request((0, 5), group=group), 8).topics[0].partitions[0].error_code == 0
    wanted = DescribableLogDirTopic(topic="__consumer_offsets", partitions=list(range(50)))
    (result,) = raw.send(DescribeLogDirsRequest(topics=[wanted]), 4).results
    sizes = {part.partition_index: part.partition_size for part in result.topics[0].partitions}
    assert [index for index, size in sizes.items() if size] == [partition]


# Creating the offsets topic


class SlowTopics:
    """Holds the creation of topics until it is told to go on, and counts."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._topics = broker.server.broker.topics
        self._create = self._topics.create
        self._held: list[asyncio.Future[None]] = []
        self._fail = False
        self.asked = 0
        self._topics.create = self._wait_and_create  # type: ignore[method-assign] # stands in for a slow disk

    async def _wait_and_create(self, new: TopicToCreate) -> ServedTopic:
        self.asked += 1
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held.append(held)
        await held
        if self._fail:
            raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR)
        return await self._create(new)

    def go_on(self, *, fail: bool = False) -> None:
        async def release() -> None:
            self._fail = fail
            for held in self._held:
                held.set_result(None)
            self._held.clear()

        self._broker.run(release())


def test_two_quick_lookups_share_one_creation_and_wait_for_it(raw: Raw, broker: Broker) -> None:
    topics = SlowTopics(broker)
    with Raw(broker.bootstrap) as other:
        raw.post(FindCoordinatorRequest(key="g"), 0)
        other.post(FindCoordinatorRequest(key="h"), 0)
        with Raw(broker.bootstrap) as third:  # whoever asks for something else is served meanwhile
            assert third.send(MetadataRequest(topics=[]), 13).brokers
            third.post(FindCoordinatorRequest(key="i"), 0)
            while topics.asked == 0:
                assert not raw.has_something()
            third.close()  # hanging up does not stop the creation for the others
        topics.go_on()
        assert [raw.take().error_code, other.take().error_code] == [0, 0]
    assert topics.asked == 1


@pytest.mark.parametrize("version", SINGLE)
def test_a_creation_that_fails_is_not_available_and_is_tried_again(
    raw: Raw, broker: Broker, version: int
) -> None:
    topics = SlowTopics(broker)
    raw.post(FindCoordinatorRequest(key="g"), version)
    while topics.asked == 0:
        assert not raw.has_something()
    topics.go_on(fail=True)
    reply = raw.take()
    assert (reply.error_code, reply.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert (reply.host, reply.port) == ("", -1)
    raw.post(FindCoordinatorRequest(key="g"), version)
    while topics.asked == 1:
        assert not raw.has_something()
    topics.go_on()
    assert raw.take().error_code == 0


def test_the_offsets_topic_has_the_settings_the_broker_started_with() -> None:
    configs = {"offsets.topic.num.partitions": 3, "offsets.topic.segment.bytes": 2_000_000}
    with Broker(configs=configs) as broker, Raw(broker.bootstrap) as raw:
        find(raw)
        assert len(metadata(raw, "__consumer_offsets").topics[0].partitions) == 3


# Refusals


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (2, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (3, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_transaction_is_refused_with_the_code_that_ends_the_search_of_who_asks(
    raw: Raw, version: int, code: ErrorCode
) -> None:
    reply = raw.send(FindCoordinatorRequest(key="x", key_type=TRANSACTION), version)
    assert (reply.error_code, reply.node_id, reply.port) == (code, -1, -1)
    assert "transactions" in reply.error_message


def test_a_lookup_of_a_transaction_creates_nothing(raw: Raw) -> None:
    raw.send(FindCoordinatorRequest(key="x", key_type=TRANSACTION), 3)
    assert raw.send(MetadataRequest(topics=None), 13).topics == []


def test_the_offsets_topic_is_made_once(restart: Restart) -> None:
    raw = restart()
    find(raw)
    first = metadata(raw, "__consumer_offsets").topics[0].topic_id
    raw = restart()
    assert find(raw).error_code == 0
    assert metadata(raw, "__consumer_offsets").topics[0].topic_id == first
