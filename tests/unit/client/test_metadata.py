"""What a client knows of a cluster."""

import pytest

from kohort.client.errors import BrokerError, UnknownTopicError
from kohort.client.metadata import NO_NODE, LeaderHint, Metadata, Node, adopt_leaders, coordinator_in, merge
from kohort.model.errors import ErrorCode
from kohort.model.ids import LeaderEpoch, NodeId, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kohort.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID, OTHER_ID = b"a" * 16, b"b" * 16


def reply(*topics: MetadataResponseTopic, brokers: int = 2) -> MetadataResponse:
    return MetadataResponse(
        cluster_id="c",
        controller_id=2,
        brokers=[
            MetadataResponseBroker(node_id=number, host=f"h{number}", port=9092)
            for number in range(1, brokers + 1)
        ],
        topics=list(topics),
    )


def topic(name: str, *leaders: tuple[int, int], topic_id: bytes = ID) -> MetadataResponseTopic:
    """A topic whose partitions have these (leader, epoch), listed backwards as a broker may."""
    partitions = [
        MetadataResponsePartition(
            partition_index=number, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2]
        )
        for number, (leader, epoch) in enumerate(leaders)
    ]
    return MetadataResponseTopic(name=name, topic_id=topic_id, partitions=partitions[::-1])


def tp(name: str, number: int) -> TopicPartition:
    return TopicPartition(TopicName(name), Partition(number))


def test_a_reply_becomes_nodes_and_topics_in_order() -> None:
    metadata = merge(Metadata(), reply(topic("t", (1, 0), (2, 0))), whole=False)
    assert metadata.nodes[NodeId(2)].address == ("h2", 9092)
    assert metadata.controller_id == 2
    found = metadata.topic("t")
    assert [one.partition for one in found.partitions] == [0, 1]
    assert found.replication_factor == 2
    assert metadata.leader("t", 1) == 2


def test_partitions_are_sorted_by_their_leader() -> None:
    metadata = merge(Metadata(), reply(topic("t", (1, 0), (2, 0), (1, 0))), whole=False)
    asked = [tp("t", 0), tp("t", 1), tp("t", 2)]
    assert metadata.by_leader(asked) == {1: [tp("t", 0), tp("t", 2)], 2: [tp("t", 1)]}


def test_topics_not_in_a_reply_stay_unless_it_names_all() -> None:
    known = merge(Metadata(), reply(topic("a", (1, 0)), topic("b", (1, 0))), whole=False)
    assert set(merge(known, reply(topic("a", (1, 0))), whole=False).topics) == {"a", "b"}
    assert set(merge(known, reply(topic("a", (1, 0))), whole=True).topics) == {"a"}
    assert set(known.topics) == {"a", "b"}  # the old snapshot is as it was


def test_a_topic_that_is_gone_is_remembered_as_a_problem() -> None:
    known = merge(Metadata(), reply(topic("t", (1, 0))), whole=False)
    gone = MetadataResponseTopic(name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    metadata = merge(known, reply(gone), whole=False)
    with pytest.raises(UnknownTopicError, match="'t'"):
        metadata.topic("t")
    back = merge(metadata, reply(topic("t", (1, 0))), whole=False)
    assert back.problems == {}


def test_another_problem_keeps_its_code() -> None:
    refused = MetadataResponseTopic(name="t", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        merge(Metadata(), reply(refused), whole=False).topic("t")


def test_an_older_leader_epoch_does_not_undo_a_newer_one() -> None:
    known = merge(Metadata(), reply(topic("t", (2, 5))), whole=False)
    assert merge(known, reply(topic("t", (1, 4))), whole=False).leader("t", 0) == 2
    assert merge(known, reply(topic("t", (1, 6))), whole=False).leader("t", 0) == 1
    assert merge(known, reply(topic("t", (1, -1))), whole=False).leader("t", 0) == 1


def test_a_topic_created_anew_starts_with_its_own_epochs() -> None:
    known = merge(Metadata(), reply(topic("t", (2, 5))), whole=False)
    anew = merge(known, reply(topic("t", (1, 0), topic_id=OTHER_ID)), whole=False)
    assert anew.leader("t", 0) == 1
    assert anew.name_of(OTHER_ID) == "t"
    assert anew.name_of(ID) is None
    assert anew.name_of(bytes(16)) is None


def test_a_partition_without_a_leader_is_worth_waiting_for_and_a_missing_one_is_not() -> None:
    metadata = merge(Metadata(), reply(topic("t", (NO_NODE, 0))), whole=False)
    with pytest.raises(BrokerError, match="LEADER_NOT_AVAILABLE") as leaderless:
        metadata.leader("t", 0)
    assert leaderless.value.retriable
    with pytest.raises(UnknownTopicError, match="no partition 1: it has the partitions 0 to 0") as missing:
        metadata.leader("t", 1)
    assert not missing.value.retriable
    assert metadata.knows(tp("t", 0))
    assert not metadata.knows(tp("t", 1))
    assert not metadata.knows(tp("u", 0))


def test_a_reply_without_brokers_does_not_make_us_forget_them() -> None:
    known = merge(Metadata(), reply(), whole=False)
    assert set(merge(known, reply(brokers=0), whole=False).nodes) == {1, 2}


def test_an_id_that_leads_nowhere_is_passed_over() -> None:
    nameless = MetadataResponseTopic(name=None, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    assert merge(Metadata(), reply(nameless), whole=False).problems == {}


def test_forgetting_topics_leaves_the_others() -> None:
    known = merge(Metadata(), reply(topic("a", (1, 0)), topic("b", (1, 0))), whole=False)
    assert set(known.without_topics(["a"]).topics) == {"b"}


def test_partitions_with_gaps_in_their_numbers_are_still_found() -> None:
    lonely = MetadataResponsePartition(partition_index=7, leader_id=1, leader_epoch=0)
    gapped = MetadataResponseTopic(name="t", topic_id=ID, partitions=[lonely])
    assert merge(Metadata(), reply(gapped), whole=False).leader("t", 7) == 1


def hint(node: int, epoch: int) -> LeaderHint:
    return LeaderHint(NodeId(node), LeaderEpoch(epoch))


def test_a_hint_of_a_newer_epoch_moves_the_leader_and_brings_its_address() -> None:
    known = merge(Metadata(), reply(topic("t", (1, 4), (1, 4))), whole=False)
    new = Node(NodeId(3), "h3", 9092)
    after = adopt_leaders(known, {tp("t", 1): hint(3, 5)}, [new])
    assert [after.leader("t", 0), after.leader("t", 1)] == [1, 3]
    assert after.nodes[NodeId(3)] == new
    assert known.leader("t", 1) == 1


@pytest.mark.parametrize("leader", [hint(2, 4), hint(2, 3), hint(9, 5)])
def test_hints_that_are_old_or_lead_nowhere_change_nothing(leader: LeaderHint) -> None:
    known = merge(Metadata(), reply(topic("t", (1, 4))), whole=False)
    assert adopt_leaders(known, {tp("t", 0): leader, tp("u", 0): leader, tp("t", 7): leader}, []) == known


@pytest.mark.parametrize(
    ("response", "host", "code"),
    [
        (FindCoordinatorResponse(coordinators=[Coordinator(host="new")], host="-"), "new", ErrorCode.NONE),
        (FindCoordinatorResponse(node_id=1, host="old", port=9), "old", ErrorCode.NONE),
        (FindCoordinatorResponse(coordinators=[Coordinator()] * 2), "", ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_the_coordinator_is_the_only_entry_or_the_response_itself(
    response: FindCoordinatorResponse, host: str, code: ErrorCode
) -> None:
    found = coordinator_in(response)
    assert (found.host, found.error_code) == (host, code)
