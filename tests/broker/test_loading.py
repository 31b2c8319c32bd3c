"""What group requests get while their partition of the offsets topic is being read, or cannot be."""

import asyncio
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.broker.asking import create, eventually
from tests.broker.grouping import (
    GROUP,
    alone,
    commit_request,
    find,
    heartbeat_request,
    join_request,
    sync_request,
)
from tests.broker.raw import DEADLINE_S, Raw

from kohort.broker.topic_runtime import load
from kohort.groups.shard import Shard
from kohort.log.log import Log
from kohort.model.errors import ErrorCode, KohortError
from kohort.testing.broker import Broker
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.offset_delete import OffsetDeleteRequest
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
CONFIGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 5}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which group ``g`` has a member and has committed."""
    path = tmp_path_factory.mktemp("prepared")
    with Broker(data=path, configs=CONFIGS) as broker, Raw(broker.bootstrap) as raw:
        create(raw, "t")
        member = alone(raw)
        raw.send(commit_request((0, 7), member=member), 8)
    return path


@pytest.fixture
def data(prepared: Path, tmp_path: Path) -> Path:
    """The same, for a test of its own."""
    return Path(shutil.copytree(prepared, tmp_path / "copy"))


@pytest.fixture(scope="module")
def loading(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that never finishes loading; no test here changes anything about group ``g``."""

    begun = threading.Event()

    async def load(_core: Shard, _log: Log) -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    copy = shutil.copytree(prepared, tmp_path_factory.mktemp("loading") / "copy")
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kohort.broker.topic_runtime.load", load)
            broker = stack.enter_context(Broker(data=copy, configs=CONFIGS))
            assert begun.wait(DEADLINE_S)
        yield broker


@pytest.fixture
def raw(loading: Broker) -> Iterator[Raw]:
    with Raw(loading.bootstrap) as raw:
        yield raw


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_found_anyway(raw: Raw, version: int) -> None:
    if version < 4:
        assert find(raw, version=version).error_code == 0
    else:
        request = FindCoordinatorRequest(coordinator_keys=[GROUP])
        assert raw.send(request, version).coordinators[0].error_code == 0


@pytest.mark.parametrize("version", range(6))
def test_a_sync_is_sent_back_to_join(raw: Raw, version: int) -> None:
    assert raw.send(sync_request("me", 1), version).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_to_a_topic_that_does_not_exist_does_not_ask_the_group(raw: Raw) -> None:
    reply = raw.send(commit_request((0, 1), topic="none"), 8)
    assert reply.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_fetch_of_offsets_has_its_error_wherever_a_client_of_its_version_looks_for_it(raw: Raw) -> None:
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0, 3])
    request = OffsetFetchRequest(group_id=GROUP, topics=[topic])
    for version in range(1, 8):
        reply = raw.send(request, version)
        assert reply.error_code == (LOADING if version > 1 else 0)
        entries = [
            (part.partition_index, part.committed_offset, part.error_code)
            for part in reply.topics[0].partitions
        ]
        assert entries == [(0, -1, LOADING), (3, -1, LOADING)]
    several = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    for version in range(8, 11):
        (group,) = raw.send(several, version).groups
        assert (group.group_id, group.error_code, group.topics) == (GROUP, LOADING, [])


def test_a_deletion_of_offsets_is_told_at_the_top(raw: Raw) -> None:
    reply = raw.send(OffsetDeleteRequest(group_id=GROUP), 0)
    assert (reply.error_code, reply.topics) == (LOADING, [])


def test_administrators_are_told_to_try_again(raw: Raw) -> None:
    assert raw.send(DescribeGroupsRequest(groups=[GROUP]), 5).groups[0].error_code == LOADING
    assert raw.send(DeleteGroupsRequest(groups_names=[GROUP]), 2).results[0].error_code == LOADING
    listed = raw.send(ListGroupsRequest(), 5)
    assert (listed.error_code, listed.groups) == (LOADING, [])


def test_groups_of_other_partitions_are_served_meanwhile(raw: Raw) -> None:
    others = [f"other-{number}" for number in range(20)]
    codes = {
        raw.send(commit_request((0, 1), group=group), 8).topics[0].partitions[0].error_code
        for group in others
    }
    assert codes == {0, LOADING}


async def loaded(broker: Broker) -> None:
    """Wait until the coordinator has read what is stored."""
    await broker.server.broker.coordinator.ready()


# Without any offsets topic, and after a load that failed


def test_before_there_is_an_offsets_topic_nobody_coordinates() -> None:
    with Broker() as broker, Raw(broker.bootstrap) as raw:
        not_here = ErrorCode.NOT_COORDINATOR
        create(raw, "t")
        assert raw.send(join_request(), 9).error_code == not_here
        assert raw.send(heartbeat_request("me", 1), 4).error_code == not_here
        assert raw.send(sync_request("me", 1), 5).error_code == not_here
        assert raw.send(commit_request((0, 1)), 9).topics[0].partitions[0].error_code == not_here
        assert raw.send(DescribeGroupsRequest(groups=[GROUP]), 6).groups[0].error_code == not_here
        assert raw.send(ListGroupsRequest(), 5).error_code == 0


def test_a_partition_that_cannot_be_loaded_is_not_coordinated_here(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def load(_core: Shard, _log: Log) -> None:
        raise KohortError("damaged beyond recognition")

    monkeypatch.setattr("kohort.broker.topic_runtime.load", load)
    with Broker(data=data, configs=CONFIGS) as broker, Raw(broker.bootstrap) as raw:
        broker.run(loaded(broker))
        assert raw.send(join_request(), 9).error_code == ErrorCode.NOT_COORDINATOR
        assert raw.send(ListGroupsRequest(), 5).error_code == 0
    assert "damaged beyond recognition" in caplog.text


def test_when_it_is_loaded_the_group_is_there_again(data: Path) -> None:
    with Broker(data=data, configs=CONFIGS) as broker, Raw(broker.bootstrap) as raw:
        broker.run(loaded(broker))
        (group,) = raw.send(DescribeGroupsRequest(groups=[GROUP]), 5).groups
        assert (group.group_state, len(group.members)) == ("Stable", 1)
        assert raw.send(heartbeat_request(group.members[0].member_id, 1), 4).error_code == 0


def test_a_topic_deleted_while_its_commits_are_read_takes_them_along(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    async def held(core: Shard, log: Log) -> None:
        await asyncio.get_running_loop().run_in_executor(None, go_on.wait, DEADLINE_S)
        await load(core, log)

    monkeypatch.setattr("kohort.broker.topic_runtime.load", held)
    with Broker(data=data, configs=CONFIGS) as broker, Raw(broker.bootstrap) as raw:
        deleted = raw.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
        assert deleted.responses[0].error_code == 0
        create(raw, "t")
        go_on.set()
        broker.run(loaded(broker))
        wanted = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        asking = OffsetFetchRequest(group_id=GROUP, topics=wanted)
        eventually(lambda: raw.send(asking, 7).topics[0].partitions[0].committed_offset == -1)
