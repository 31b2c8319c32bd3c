"""Groups through ``AsyncAdmin``."""

import pytest
from tests.unit.client.scripted import ScriptedCluster, in_turn, on_loop

from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import CommittedOffset, GroupInfo
from kohort.client.errors import BrokerError
from kohort.codec.schema import Versions
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, Offset, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.apis import ApiKey
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse as ConsumerResponse,
)
from kohort.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from kohort.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kohort.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)


def tp(topic: str, number: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), Partition(number))


@on_loop
async def test_groups_are_listed_from_every_broker() -> None:
    brokers = ScriptedCluster(nodes=2)
    first = ListGroupsResponse(groups=[ListedGroup(group_id="b", group_state="Stable", group_type="classic")])
    second = ListGroupsResponse(groups=[ListedGroup(group_id="a", protocol_type="consumer")])
    loading = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    brokers.on(ListGroupsRequest, in_turn(loading, first, second))
    async with AsyncAdmin(brokers.client()) as admin:
        groups = await admin.list_groups(states=["Stable"], types=["classic"])
    assert [group.group_id for group in groups] == ["a", "b"]
    assert {one.node_id for one in brokers.asked(ListGroupsRequest)} == {1, 2}
    request = brokers.asked(ListGroupsRequest)[0].request
    assert isinstance(request, ListGroupsRequest)
    assert (request.states_filter, request.types_filter) == (["Stable"], ["classic"])


@on_loop
async def test_a_kip_848_group_is_described_as_such() -> None:
    brokers = ScriptedCluster()
    group = ConsumerGroup(group_id="g", group_state="Stable", group_epoch=3, assignor_name="uniform")
    brokers.on(ConsumerGroupDescribeRequest, lambda _: ConsumerResponse(groups=[group]))
    async with AsyncAdmin(brokers.client()) as admin:
        found = (await admin.describe_groups(["g"]))[GroupId("g")]
    assert isinstance(found, GroupInfo)
    assert (found.type, found.epoch, found.assignor) == ("consumer", 3, "uniform")


@pytest.mark.parametrize("served", [True, False])
@on_loop
async def test_a_classic_group_is_asked_for_when_it_is_no_other(served: bool) -> None:
    brokers = ScriptedCluster(nodes=2)
    brokers.coordinator = 2
    if not served:
        del brokers.peers[2].served[ApiKey.CONSUMER_GROUP_DESCRIBE]
    no_such = ConsumerGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    brokers.on(ConsumerGroupDescribeRequest, lambda _: ConsumerResponse(groups=[no_such]))
    group = DescribedGroup(group_id="g", group_state="Empty", protocol_type="consumer")
    brokers.on(DescribeGroupsRequest, lambda _: DescribeGroupsResponse(groups=[group]))
    async with AsyncAdmin(brokers.client()) as admin:
        found = (await admin.describe_groups(["g"]))[GroupId("g")]
    assert isinstance(found, GroupInfo)
    assert (found.type, found.state, found.coordinator.node_id) == ("classic", "Empty", 2)
    assert len(brokers.asked(ConsumerGroupDescribeRequest)) == int(served)


@on_loop
async def test_a_group_that_is_not_there_has_its_error_as_result() -> None:
    brokers = ScriptedCluster()
    denied = ConsumerGroup(group_id="h", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    no_such = ConsumerGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    classic = DescribedGroup(
        group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message="Group g not found."
    )
    brokers.on(
        ConsumerGroupDescribeRequest,
        in_turn(ConsumerResponse(groups=[no_such]), ConsumerResponse(groups=[denied])),
    )
    brokers.on(DescribeGroupsRequest, lambda _: DescribeGroupsResponse(groups=[classic]))
    async with AsyncAdmin(brokers.client()) as admin:
        found = await admin.describe_groups(["g", "h"])
    assert "cannot describe group 'g': Group g not found" in str(found[GroupId("g")])
    assert "GROUP_AUTHORIZATION_FAILED" in str(found[GroupId("h")])


def fetched(version_of_broker: int) -> OffsetFetchResponse:
    """One commit at 5, one partition without; in the old form and the new."""
    if version_of_broker < 8:
        old = [
            OffsetFetchResponsePartition(partition_index=0, committed_offset=5, metadata="m"),
            OffsetFetchResponsePartition(partition_index=1, committed_offset=-1),
        ]
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=old)])
    new = [
        OffsetFetchResponsePartitions(partition_index=0, committed_offset=5, metadata="m"),
        OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
    ]
    topics = [OffsetFetchResponseTopics(name="t", partitions=new)]
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics)])


@pytest.mark.parametrize("highest", [7, 10])
@on_loop
async def test_committed_offsets_are_listed_in_old_versions_and_new(highest: int) -> None:
    brokers = ScriptedCluster()
    brokers.peers[1].served[ApiKey.OFFSET_FETCH] = Versions(1, highest)
    brokers.on(OffsetFetchRequest, lambda _: fetched(highest))
    async with AsyncAdmin(brokers.client()) as admin:
        everything = await admin.list_group_offsets("g")
        await admin.list_group_offsets("g", [tp("t", 0), tp("t", 1)], require_stable=True)
    assert everything == {tp("t", 0): CommittedOffset(Offset(5), metadata="m")}
    first, second = (one.request for one in brokers.asked(OffsetFetchRequest))
    assert isinstance(first, OffsetFetchRequest)
    assert isinstance(second, OffsetFetchRequest)
    assert second.require_stable
    asked = first.topics if highest < 8 else first.groups[0].topics
    named = second.topics if highest < 8 else second.groups[0].topics
    assert asked is None
    assert named is not None
    assert named[0].partition_indexes == [0, 1]
    assert brokers.asked(OffsetFetchRequest)[0].header.api_version == min(highest, 9)


@on_loop
async def test_an_unreadable_offset_is_an_error_and_an_unstable_one_is_waited_for() -> None:
    brokers = ScriptedCluster()
    unstable = fetched(9)
    unstable.groups[0].topics[0].partitions[0].error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    denied = fetched(9)
    denied.groups[0].error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    brokers.on(OffsetFetchRequest, in_turn(unstable, fetched(9), denied))
    async with AsyncAdmin(brokers.client()) as admin:
        assert len(await admin.list_group_offsets("g")) == 1
        with pytest.raises(BrokerError, match="list the offsets of group 'g': GROUP_AUTHORIZATION_FAILED"):
            await admin.list_group_offsets("g")


@on_loop
async def test_offsets_are_set_for_a_group_without_members() -> None:
    brokers = ScriptedCluster()

    def answer(code: ErrorCode) -> OffsetCommitResponse:
        partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[partition])])

    brokers.on(
        OffsetCommitRequest,
        in_turn(
            answer(ErrorCode.NOT_COORDINATOR), answer(ErrorCode.NONE), answer(ErrorCode.UNKNOWN_MEMBER_ID)
        ),
    )
    offsets = {tp("t", 0): CommittedOffset(Offset(7), metadata="note")}
    async with AsyncAdmin(brokers.client()) as admin:
        assert await admin.alter_group_offsets("g", offsets) == {tp("t", 0): None}
        refused = (await admin.alter_group_offsets("g", offsets))[tp("t", 0)]
    assert "while the group has no members" in str(refused)
    assert len(brokers.asked(FindCoordinatorRequest)) == 2
    request = brokers.asked(OffsetCommitRequest)[1].request
    assert isinstance(request, OffsetCommitRequest)
    assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
    committed = request.topics[0].partitions[0]
    assert (committed.committed_offset, committed.committed_metadata) == (7, "note")


@on_loop
async def test_groups_are_deleted_each_at_its_coordinator() -> None:
    brokers = ScriptedCluster()
    codes = {"g": ErrorCode.NONE, "h": ErrorCode.NON_EMPTY_GROUP}

    def delete(request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        (group,) = request.groups_names
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=group, error_code=codes[group])])

    brokers.on(DeleteGroupsRequest, delete)
    async with AsyncAdmin(brokers.client()) as admin:
        deleted = await admin.delete_groups(["g", "h"])
    assert deleted[GroupId("g")] is None
    assert "stop its members first" in str(deleted[GroupId("h")])


@on_loop
async def test_offsets_of_single_partitions_are_deleted() -> None:
    brokers = ScriptedCluster()
    partition = OffsetDeleteResponsePartition(error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    some = OffsetDeleteResponse(topics=[OffsetDeleteResponseTopic(name="t", partitions=[partition])])
    none = OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    brokers.on(OffsetDeleteRequest, in_turn(some, none))
    async with AsyncAdmin(brokers.client()) as admin:
        refused = (await admin.delete_group_offsets("g", [tp("t", 0)]))[tp("t", 0)]
        assert "a member still subscribes" in str(refused)
        with pytest.raises(BrokerError, match="delete offsets of group 'g': GROUP_ID_NOT_FOUND"):
            await admin.delete_group_offsets("g", [tp("t", 0)])


@on_loop
async def test_the_coordinator_of_a_group_can_be_asked_for() -> None:
    brokers = ScriptedCluster(nodes=2)
    brokers.coordinator = 2
    async with AsyncAdmin(brokers.client()) as admin:
        assert (await admin.find_coordinator("g")).node_id == 2
