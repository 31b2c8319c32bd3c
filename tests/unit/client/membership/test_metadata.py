"""Subscriptions and metadata: what makes a member join again."""

import pytest
from tests.unit.client.membership.stage import Stage, member, topics, tps, wish

from kohort.client.addresses import Address
from kohort.client.membership.state import (
    NO_GENERATION,
    TRANSITIONS,
    ClassicMemberState,
    ClusterTopics,
    cluster_topics,
)
from kohort.client.metadata import Metadata, Node, PartitionInfo, TopicInfo
from kohort.client.subscription import SubscriptionError
from kohort.model.errors import ErrorCode
from kohort.model.ids import LeaderEpoch, NodeId, Partition, TopicId, TopicName
from kohort.wire.messages.join_group import JoinGroupRequest


def leading(*, rack: str = "", shape: int | list[set[str]] = 2) -> Stage:
    """A stable leader of topic t."""
    stage = Stage(client_rack=rack).found()
    stage.metadata(t=shape)
    stage.answer_join(leader="m", members=[member("m", wish("t"))])
    stage.answer_sync("t-0 t-1")
    assert stage.poll()
    return stage


def test_a_leader_joins_again_when_a_topic_grows() -> None:
    """T72 Partition count grows: the leader rejoins."""
    stage = leading()
    stage.metadata(t=2)
    assert stage.poll(), "newer metadata that says the same"
    stage.metadata(t=3)
    assert not stage.poll()
    assert len(stage.requests(JoinGroupRequest)) == 2


def test_a_follower_waits_until_it_is_told() -> None:
    """T72 a follower only after REBALANCE_IN_PROGRESS."""
    stage = Stage().stable("t-0")
    stage.metadata(t=2)
    stage.metadata(t=3)
    assert stage.poll()
    stage.sleep(3_000)
    stage.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert not stage.poll()


def test_a_leader_that_becomes_a_follower_stops_watching() -> None:
    stage = leading()
    stage.rejoined("t-0", generation=2)
    assert not stage.membership.is_leader
    stage.metadata(t=9)
    assert stage.poll()


def test_a_pattern_matches_whole_names_and_no_internal_topics() -> None:
    """T73 Pattern `topic` does not match `topic-1`; a new match causes one rejoin; internal ones excluded."""
    stage = Stage(pattern="topic|inner|topic2")
    stage.poll()
    stage.find()
    assert not stage.poll(), "what matches is asked afresh before a join"
    assert stage.refreshes()[-1] is None
    stage.metadata(topic=1, topic1=1, inner=50, internal="inner", asks_all=True)
    stage.poll()
    assert stage.subscriptions.subscription.topics == topics("topic")
    stage.answer_join()
    stage.answer_sync("topic-0")
    assert stage.poll()
    stage.metadata(topic=1, topic2=1, asks_all=True)
    assert not stage.poll()
    assert not stage.poll()
    stage.metadata(topic=1, topic2=1, asks_all=True)
    stage.poll()
    stage.poll()
    assert len(stage.requests(JoinGroupRequest)) == 2
    assert stage.subscriptions.subscription.topics == topics("topic", "topic2")


def test_internal_topics_match_a_pattern_if_that_is_wanted() -> None:
    stage = Stage(pattern=".*", exclude_internal_topics=False)
    stage.metadata(t=1, inner=1, internal="inner", asks_all=True)
    stage.poll()
    assert stage.subscriptions.subscription.topics == topics("t", "inner")
    assert stage.membership.wanted_topics is None


def test_a_topic_the_leader_saw_first_is_adopted_by_a_pattern() -> None:
    stage = Stage(pattern="t.*")
    stage.poll()
    stage.find()
    stage.poll()
    stage.metadata(t1=1, asks_all=True)
    stage.poll()
    stage.answer_join()
    stage.answer_sync("t1-0 t2-0")
    assert stage.poll()
    assert stage.owned == "t1-0 t2-0"
    assert stage.subscriptions.subscription.topics == topics("t1", "t2")
    assert stage.poll(), "no rejoin for what is known now"


@pytest.mark.parametrize(("rack", "rejoins"), [("r1", True), ("", False)])
def test_replicas_that_move_matter_only_to_who_has_a_rack(rack: str, rejoins: bool) -> None:
    """T74 Replica rack change triggers the leader's rejoin only when client.rack is set."""
    stage = leading(rack=rack, shape=[{"r1"}, {"r2"}])
    stage.metadata(t=[{"r1"}, {"r1"}])
    assert stage.poll() is not rejoins


def test_ways_of_subscribing_exclude_each_other() -> None:
    """T75 subscribe after assign without unsubscribe: refused."""
    stage = Stage("")
    stage.subscriptions.assign(tps("t-0"))
    with pytest.raises(SubscriptionError, match="unsubscribe"):
        stage.subscriptions.subscribe(["t"])
    stage.unsubscribe()
    stage.subscriptions.subscribe(["t"])


def test_a_new_subscription_keeps_the_membership_and_joins_again() -> None:
    stage = Stage().stable("t-0")
    stage.subscribe("t u")
    assert stage.refreshes()[-1] == topics("t", "u")
    stage.poll()
    assert "subscription" in (stage.requests(JoinGroupRequest)[-1].reason or "")
    assert stage.requests(JoinGroupRequest)[-1].member_id == "m"


def test_metadata_of_a_client_becomes_topics_with_racks() -> None:
    partition = PartitionInfo(Partition(0), NodeId(1), LeaderEpoch(0), (1, 2, 3), (1,), (), 0)
    nodes = {NodeId(each): Node(NodeId(each), "h", 1, rack) for each, rack in ((1, "a"), (2, None))}
    topic = TopicInfo(TopicName("t"), TopicId(bytes(16)), True, (partition,))
    seen = cluster_topics(Metadata(nodes=nodes, topics={TopicName("t"): topic}), 3, [TopicName("t")])
    assert seen.topics == {"t": (frozenset({"a"}),)}
    assert seen.internal == {"t"}
    assert seen.asked == topics("t")
    assert nodes[NodeId(1)].address == Address("h", 1)


def test_topics_nobody_asked_for_are_not_covered() -> None:
    seen = ClusterTopics(1, {}, frozenset(), topics("gone"))
    assert seen.covers(topics("gone"))
    assert not seen.covers(topics("other"))
    assert ClusterTopics(1, {}, frozenset(), None).covers(topics("other"))


def test_states_follow_each_other_as_the_table_says() -> None:
    assert set(TRANSITIONS) == set(ClassicMemberState)
    assert all(ClassicMemberState.UNJOINED in after for after in TRANSITIONS.values()), (
        "a reset is always possible"
    )
    assert [each for each, after in TRANSITIONS.items() if ClassicMemberState.STABLE in after] == [
        ClassicMemberState.COMPLETING_REBALANCE
    ]
    assert str(NO_GENERATION) == "generation -1 as 'no member'"
