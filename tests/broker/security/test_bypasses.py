"""Ways around the rules that an attacker would try: names in replies, other users' sessions, repeats."""

from typing import Any

import pytest
from tests.broker.asking import append, batch, create, fetch_request, part
from tests.broker.exemplars import exemplar, versions
from tests.broker.grouping import find
from tests.broker.raw import Raw, Reply
from tests.broker.security.secured import USERS, Login, serving
from tests.broker.security.test_acls import CLUSTER, GROUP, SETTINGS, Cluster, cluster, send

from kohort.broker.broker import BrokerState
from kohort.broker.handlers import offset_fetch
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicName
from kohort.security.acls import Operation, PatternType, Permission
from kohort.wire.apis import ApiKey
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.fetch import ForgottenTopic
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
__all__ = ["cluster"]  # the fixture


def commit(raw: Raw, topic: str, group: str = "g") -> None:
    find(raw, group)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="m")
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    assert raw.send(request, 9).topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize("version", [8, 9, 10])
def test_a_group_that_is_asked_for_twice_shows_no_topic_that_is_hidden(
    cluster: Cluster, version: int
) -> None:
    with cluster.user("admin") as admin:
        create(admin, "hidden")
        commit(admin, "hidden")
        commit(admin, "t")
    cluster.allow(Operation.DESCRIBE, kind=GROUP, name="g")
    cluster.allow(Operation.DESCRIBE)
    named = OffsetFetchRequestTopics(name="t", topic_id=cluster.topic_id, partition_indexes=[0])
    everything = OffsetFetchRequestGroup(group_id="g", topics=None)
    some = OffsetFetchRequestGroup(group_id="g", topics=[named])
    with cluster.user("alice") as alice:
        for groups in ([everything, some], [some, everything], [everything, everything, some]):
            reply = alice.send(OffsetFetchRequest(groups=groups), version)
            for answer in reply.groups:
                shown = [topic.name or topic.topic_id for topic in answer.topics]
                assert shown in (["t"], [cluster.topic_id]), reply


def test_a_topic_that_goes_while_its_offsets_are_written_stays_hidden(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = offset_fetch._by_topic

    async def write_then_delete(broker: BrokerState, *given: Any) -> Any:  # noqa: ANN401 - passed on
        written = await write(broker, *given)
        hidden = broker.topics.get(TopicName("hidden"))
        assert hidden is not None
        await broker.topics.delete(hidden)
        return written

    with cluster.user("admin") as admin:
        create(admin, "hidden")
        commit(admin, "hidden")
    cluster.allow(Operation.DESCRIBE, kind=GROUP, name="g")
    monkeypatch.setattr(offset_fetch, "_by_topic", write_then_delete)
    with cluster.user("alice") as alice:
        everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        (group,) = alice.send(everything, 10).groups
        assert (group.error_code, group.topics) == (0, [])


def session(
    raw: Raw, session_id: int, epoch: int, *wanted: bytes, forgotten: tuple[bytes, ...] = ()
) -> Reply:
    request = fetch_request({topic_id: [part()] for topic_id in wanted}, session=(session_id, epoch))
    request.forgotten_topics_data = [ForgottenTopic(topic_id=one, partitions=[0]) for one in forgotten]
    return raw.send(request, 17)


def test_the_fetch_session_of_another_user_gives_no_records(cluster: Cluster) -> None:
    with cluster.user("admin") as admin, cluster.user("alice") as alice:
        opened = session(admin, 0, 0, cluster.topic_id)
        assert opened.session_id
        append(admin, "t", batch("more"))
        taken = session(alice, opened.session_id, 1)
    assert taken.responses
    for topic in taken.responses:
        for one in topic.partitions:
            assert (one.error_code, bytes(one.records or b"")) == (DENIED, b"")


def test_forgotten_topics_of_a_session_come_back_only_with_the_right(cluster: Cluster) -> None:
    with cluster.user("admin") as admin:
        other = create(admin, "other")
        append(admin, "other", batch("x"))
    cluster.allow(Operation.READ, name="other")
    with cluster.user("alice") as alice:
        opened = session(alice, 0, 0, cluster.topic_id, other)
        session(alice, opened.session_id, 1, forgotten=(cluster.topic_id,))
        again = session(alice, opened.session_id, 2, cluster.topic_id)
    answers = {topic.topic_id: topic.partitions[0] for topic in again.responses}
    assert answers[cluster.topic_id].error_code == DENIED
    assert not answers[cluster.topic_id].records


@pytest.mark.parametrize("version", [4, 12])
def test_a_fetch_of_old_versions_is_checked_as_well(cluster: Cluster, version: int) -> None:
    with cluster.user("alice") as alice:
        reply = alice.send(fetch_request({"t": [part()]}), version)
        for one in reply.responses[0].partitions:
            assert (one.error_code, bytes(one.records or b"")) == (DENIED, b"")


def test_a_peer_that_poses_as_a_replica_gets_nothing(cluster: Cluster) -> None:
    cluster.allow(Operation.READ)
    request = fetch_request({"t": [part()]})
    request.replica_id = 2
    with cluster.user("alice") as alice:
        reply = alice.send(request, 12)
    assert all(one.error_code and not one.records for topic in reply.responses for one in topic.partitions)


def test_a_name_beside_an_id_opens_nothing(cluster: Cluster) -> None:
    with cluster.user("admin") as admin:
        create(admin, "mine")
        mine = admin.send(MetadataRequest(topics=[MetadataRequestTopic(name="mine")]), 12).topics[0].topic_id
    cluster.allow(Operation.ALL, name="mine")
    with cluster.user("alice") as alice:
        for topic_id in (mine, b"\7" * 16):
            asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name="t")])
            assert all(one.name != "t" for one in alice.send(asked, 12).topics)
            both = DeleteTopicState(name="t", topic_id=topic_id)
            (gone,) = alice.send(DeleteTopicsRequest(topics=[both]), 6).responses
            assert gone.error_code
    with cluster.user("admin") as admin:
        found = admin.send(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
        assert found.topics[0].error_code == 0


def test_rights_on_a_group_do_not_show_the_topics_of_its_members(cluster: Cluster) -> None:
    with cluster.user("admin") as admin:
        find(admin, "g")
        beat = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", rebalance_timeout_ms=1_000, subscribed_topic_names=["t"]
        )
        assert send(admin, beat).error_code == 0
    cluster.allow(Operation.DESCRIBE, kind=GROUP, name="g")
    with cluster.user("alice") as alice:
        (group,) = send(alice, ConsumerGroupDescribeRequest(group_ids=["g"])).groups
        assert (group.error_code, group.members) == (DENIED, [])


def test_a_prefix_rule_of_a_star_is_no_wildcard_and_no_rule_reaches_beyond_its_name(
    cluster: Cluster,
) -> None:
    with cluster.user("admin") as admin:
        for name in ("te", "team", "T"):
            create(admin, name)
    cluster.allow(Operation.READ, name="*", pattern=PatternType.PREFIXED)
    cluster.allow(Operation.READ, name="te")
    with cluster.user("alice") as alice:
        assert [one.name for one in alice.send(MetadataRequest(topics=None), 12).topics] == ["te"]
    cluster.allow(Operation.READ, name="te", pattern=PatternType.PREFIXED)
    cluster.allow(Operation.DESCRIBE, name="team", permission=Permission.DENY)
    with cluster.user("alice") as alice:
        assert [one.name for one in alice.send(MetadataRequest(topics=None), 12).topics] == ["te"]


def test_a_rule_of_another_host_or_of_the_cluster_opens_no_topic(cluster: Cluster) -> None:
    cluster.allow(Operation.ALL, host="10.0.0.9")
    cluster.allow(Operation.DESCRIBE, Operation.ALTER_CONFIGS, kind=CLUSTER, name="kafka-cluster")
    asked = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        ],
    )
    with cluster.user("alice") as alice:
        (found,) = send(alice, asked).topics[0].partitions
        assert (found.error_code, found.offset) == (DENIED, -1)


def test_no_api_is_served_between_the_steps_of_a_new_log_in() -> None:
    """A session that may be renewed is not one that may be used meanwhile, by whatever API."""
    settings = {**SETTINGS, "connections.max.reauth.ms": "60000"}
    with serving("SASL_PLAINTEXT", settings=settings) as running:
        topic_id = Cluster(running).topic_id
        for key, version in dict(versions()).items():  # the newest of each
            if key in (ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS):
                continue
            with Raw(running.address("SASL_PLAINTEXT")) as raw:
                login = Login(raw)
                assert login.plain("admin", USERS["admin"]).error_code == 0
                assert login.handshake("PLAIN").error_code == 0
                raw.post(exemplar(key, topic_id), version)
                running.server.broker.endpoints[0].sasl.failed._failures.clear()  # type: ignore[union-attr]
                assert raw.is_closed()


def test_a_new_log_in_of_another_user_is_refused_and_ends_the_connection() -> None:
    settings = {**SETTINGS, "connections.max.reauth.ms": "60000"}
    with serving("SASL_PLAINTEXT", settings=settings) as running:
        Cluster(running)
        with Raw(running.address("SASL_PLAINTEXT")) as raw:
            login = Login(raw)
            assert login.plain("alice", USERS["alice"]).error_code == 0
            refused = login.plain("admin", USERS["admin"])
            assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert "Cannot change principals" in refused.error_message
            assert raw.is_closed()
