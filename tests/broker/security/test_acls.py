"""Rights (security 4 and 5): what each API needs, and what a peer without rights gets."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.broker.asking import append, batch, create, metadata, produce, produce_request
from tests.broker.exemplars import exemplar, versions
from tests.broker.raw import Raw, Reply
from tests.broker.security.secured import USERS, Login, RunningServer, serving

from kohort.broker.authorization import RULES
from kohort.broker.handlers import SERVED, Served
from kohort.codec.schema import Message, Struct
from kohort.model.errors import ErrorCode
from kohort.security.acls import AclResourceType, Operation, PatternType, Permission
from kohort.wire.apis import ApiKey
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kohort.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.describe_acls import DescribeAclsRequest
from kohort.wire.messages.describe_cluster import DescribeClusterRequest
from kohort.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "connection.failed.authentication.delay.ms": "1",
    "authorizer": "acl",
    "super.users": "User:admin; User:root",
}
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
DENIALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Cluster:
    """A broker with a topic ``t``, and connections of its users."""

    def __init__(self, running: RunningServer) -> None:
        self.running = running
        with self.user("admin") as admin:
            self.topic_id = create(admin, "t")
            append(admin, "t", batch("secret value"))

    @contextmanager
    def user(self, name: str) -> Iterator[Raw]:
        with Raw(self.running.address("SASL_PLAINTEXT")) as raw:
            assert Login(raw).plain(name, USERS[name]).error_code == 0
            yield raw

    def allow(self, *operations: Operation, **what: Any) -> None:  # noqa: ANN401 - fields of a rule
        with self.user("admin") as admin:
            rules = [rule(one, **what) for one in operations]
            assert [one.error_code for one in send(admin, CreateAclsRequest(creations=rules)).results] == [
                0 for _ in rules
            ]


def rule(
    operation: int,
    kind: int = TOPIC,
    name: str = "t",
    *,
    pattern: int = PatternType.LITERAL,
    permission: int = Permission.ALLOW,
    principal: str = "User:alice",
    host: str = "*",
) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


EVERY_RULE = DeleteAclsFilter(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)


def send(raw: Raw, request: Message) -> Reply:
    """In the newest version."""
    assert request.api_key is not None
    return raw.send(request, next(api.newest for api in SERVED if api.key == request.api_key))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with serving("SASL_PLAINTEXT", settings=SETTINGS) as running:
        yield Cluster(running)


@pytest.fixture(scope="module")
def locked() -> Iterator[Cluster]:
    with serving("SASL_PLAINTEXT", settings=SETTINGS) as running:
        yield Cluster(running)


# Nobody gets in


def codes(message: Struct) -> set[int]:
    """Every error code in a reply, at any depth."""
    found: set[int] = set()
    for field in message.fields:
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            found.add(value)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Struct):
                found |= codes(inner)
    return found


each_version = pytest.mark.parametrize(
    ("key", "version"), list(versions()), ids=[f"{key.name.lower()}-v{number}" for key, number in versions()]
)
RULE_OF = {api.key: api.rule for api in SERVED}
SILENT = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS}  # what may not be seen is left out


def test_a_broker_that_serves_an_api_without_a_rule_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RULES.keys() == {api.rule for api in SERVED}
    monkeypatch.delitem(RULES, "delete records")
    with pytest.raises(RuntimeError, match="DELETE_RECORDS"), serving("SASL_PLAINTEXT", settings=SETTINGS):
        pass


def test_a_row_of_the_served_apis_has_a_rule() -> None:
    with pytest.raises(TypeError, match="rule"):
        Served(ApiKey.DELETE_RECORDS, 0, 2)  # type: ignore[call-arg]


@each_version
def test_a_user_without_rights_is_refused_everything_and_changes_nothing(
    locked: Cluster, key: ApiKey, version: int
) -> None:
    request = exemplar(key, locked.topic_id)
    with locked.user("alice") as raw:
        reply = raw.send(request, version)
        seen = codes(reply) - {0}
        assert b"secret value" not in repr(reply).encode()
        if RULE_OF[key] == "free" or key is ApiKey.DESCRIBE_CLUSTER:
            assert not seen & DENIALS
        elif key in SILENT:
            assert seen == set()
            assert not getattr(reply, "groups", None)
        elif key is ApiKey.DESCRIBE_LOG_DIRS and version < 3:
            assert reply.results == []
        else:
            assert seen
            assert seen <= DENIALS | {ErrorCode.UNKNOWN_TOPIC_ID}  # ids are no secret
    with locked.user("admin") as admin:
        (topic,) = metadata(admin, "t").topics
        assert (topic.error_code, len(topic.partitions)) == (0, 1)


@each_version
def test_a_peer_that_has_not_logged_in_gets_no_answer(locked: Cluster, key: ApiKey, version: int) -> None:
    if key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
        return
    with Raw(locked.running.address("SASL_PLAINTEXT")) as raw:
        raw.post(exemplar(key, locked.topic_id), version)
        locked.running.server.broker.endpoints[0].sasl.failed._failures.clear()  # type: ignore[union-attr]
        assert raw.is_closed()


# Exactly what is needed


def test_a_producer_needs_write_and_an_idempotent_one_nothing_more(cluster: Cluster) -> None:
    """Security trap 8. See security 10."""
    with cluster.user("alice") as alice:
        assert produce(alice, "t", batch("x")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        refused = send(alice, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1))
        assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert refused.producer_id == -1
        cluster.allow(Operation.WRITE)
        assert produce(alice, "t", batch("x")).error_code == 0
        accepted = send(alice, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1))
        assert accepted.error_code == 0


def test_a_produce_without_acks_that_is_denied_closes_the_connection(cluster: Cluster) -> None:
    with cluster.user("alice") as alice:
        alice.post_unanswered(produce_request("t", batch("x"), acks=0), 12)
        assert alice.is_closed()


def fetch(raw: Raw, cluster: Cluster, **session: int) -> Reply:
    topics = [FetchTopic(topic_id=cluster.topic_id, partitions=[FetchPartition(partition=0)])]
    request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=[] if session else topics)
    request.topics = topics if session.get("session_epoch", -1) <= 0 else []
    for part in topics[0].partitions:
        part.partition_max_bytes = 1 << 20
    request.session_id, request.session_epoch = session.get("session_id", 0), session.get("session_epoch", -1)
    return raw.send(request, 17)


def test_a_revoked_right_ends_reading_also_inside_a_fetch_session(cluster: Cluster) -> None:
    """Security scenario 52. See security 9.

    Security trap 10. See security 10.
    """
    cluster.allow(Operation.READ)
    with cluster.user("alice") as alice, cluster.user("admin") as admin:
        opened = fetch(alice, cluster, session_epoch=0)
        assert opened.responses[0].partitions[0].error_code == 0
        assert opened.session_id
        everything = DeleteAclsFilter(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        (removed,) = send(admin, DeleteAclsRequest(filters=[everything])).filter_results
        assert len(removed.matching_acls) == 1
        later = fetch(alice, cluster, session_id=opened.session_id, session_epoch=1)
        (part,) = later.responses[0].partitions
        assert part.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (part.high_watermark, bytes(part.records or b"")) == (-1, b"")


def test_with_read_on_all_topics_a_user_reads_the_offsets_of_all_groups(cluster: Cluster) -> None:
    """Security trap 11. As in Kafka: an internal topic is a topic like others for READ."""
    with cluster.user("admin") as admin:
        send(admin, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))  # makes the topic
    with cluster.user("alice") as alice:
        (topic,) = metadata(alice, "__consumer_offsets").topics
        assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    cluster.allow(Operation.READ, name="*")
    with cluster.user("alice") as alice:
        (topic,) = metadata(alice, "__consumer_offsets").topics
        assert topic.error_code == 0


def test_metadata_leaves_out_what_may_not_be_described(cluster: Cluster) -> None:
    """Security trap 9. See security 10."""
    with cluster.user("admin") as admin:
        create(admin, "other")
    cluster.allow(Operation.READ)
    with cluster.user("alice") as alice:
        shown = alice.send(MetadataRequest(topics=None, include_topic_authorized_operations=True), 12)
        assert [topic.name for topic in shown.topics] == ["t"]
        assert shown.topics[0].topic_authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
        assert [one.name for one in alice.send(MetadataRequest(topics=[]), 0).topics] == ["t"]


def test_pages_of_topics_and_their_cursors_name_only_what_may_be_described(cluster: Cluster) -> None:
    with cluster.user("admin") as admin:
        for name in ("a", "hidden", "z"):
            create(admin, name)
    with cluster.user("alice") as alice:
        nothing = send(alice, DescribeTopicPartitionsRequest())
        assert (nothing.topics, nothing.next_cursor) == ([], None)
    for name in ("a", "t", "z"):
        cluster.allow(Operation.DESCRIBE, name=name)
    with cluster.user("alice") as alice:
        seen, cursor = [], None
        for _ in range(9):
            page = send(alice, DescribeTopicPartitionsRequest(response_partition_limit=1, cursor=cursor))
            seen += [(topic.name, part.partition_index) for topic in page.topics for part in topic.partitions]
            cursor = page.next_cursor
            if cursor is None:
                break
            assert cursor.topic_name != "hidden"
        assert list(dict.fromkeys(name for name, _ in seen)) == ["a", "t", "z"]
        assert len(seen) == len(set(seen))
        past = DescribeTopicPartitionsRequest(cursor=Cursor(topic_name="hidden", partition_index=0))
        assert [topic.name for topic in send(alice, past).topics] == ["t", "z"]


def test_a_denied_topic_that_exists_and_one_that_does_not_look_alike(cluster: Cluster) -> None:
    with cluster.user("alice") as alice:
        for allow_creation in (False, True):
            there, missing = (
                metadata(alice, name, create=allow_creation).topics[0] for name in ("t", "missing")
            )
            missing.name = there.name
            assert repr(there) == repr(missing)
            assert there.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with cluster.user("admin") as admin:
        assert metadata(admin, "missing").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_by_id_a_denied_topic_keeps_its_name_to_itself(cluster: Cluster) -> None:
    with cluster.user("alice") as alice:
        wanted = MetadataRequest(topics=[MetadataRequestTopic(topic_id=cluster.topic_id, name=None)])
        (topic,) = alice.send(wanted, 12).topics
        assert (topic.error_code, topic.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def test_making_a_missing_topic_needs_create(cluster: Cluster) -> None:
    cluster.allow(Operation.DESCRIBE, name="new", pattern=PatternType.PREFIXED)
    with cluster.user("alice") as alice:
        assert (
            metadata(alice, "new-1", create=True).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        )
        assert metadata(alice, "new-1").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        cluster.allow(Operation.CREATE, name="new", pattern=PatternType.PREFIXED)
        assert metadata(alice, "new-1", create=True).topics[0].error_code == 0


def test_deny_wins_over_allow_and_a_super_user_over_both(cluster: Cluster) -> None:
    cluster.allow(Operation.ALL, name="*", principal="User:*")
    cluster.allow(Operation.WRITE, permission=Permission.DENY, principal="User:*")
    with cluster.user("alice") as alice, cluster.user("admin") as admin:
        assert produce(alice, "t", batch("x")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert metadata(alice, "t").topics[0].error_code == 0
        assert produce(admin, "t", batch("x")).error_code == 0


def test_groups_are_found_by_those_who_may_describe_them(cluster: Cluster) -> None:
    with cluster.user("alice") as alice:
        for key, code in (("mine", 30), ("other", 30)):
            (found,) = send(alice, FindCoordinatorRequest(key_type=0, coordinator_keys=[key])).coordinators
            assert (found.error_code, found.node_id, found.host, found.port) == (code, -1, "", -1)
        cluster.allow(Operation.READ, kind=GROUP, name="mine")
        reply = send(alice, FindCoordinatorRequest(key_type=0, coordinator_keys=["other", "mine"]))
        assert {one.key: one.error_code for one in reply.coordinators} == {"mine": 0, "other": 30}
        assert send(alice, ListGroupsRequest()).error_code == 0


def test_topics_are_deleted_by_name_or_id_only_with_the_right(cluster: Cluster) -> None:
    cluster.allow(Operation.DESCRIBE)
    by_id = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=cluster.topic_id)])
    with cluster.user("alice") as alice:
        assert send(alice, by_id).responses[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        missing = DeleteTopicsRequest(topics=[DeleteTopicState(name="missing")])
        assert send(alice, missing).responses[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        cluster.allow(Operation.DELETE)
        assert send(alice, by_id).responses[0].error_code == 0


def test_the_cluster_shows_its_operations_to_those_who_may_describe_it(cluster: Cluster) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    with cluster.user("alice") as alice, cluster.user("admin") as admin:
        assert send(alice, request).cluster_authorized_operations == 0
        assert send(admin, request).cluster_authorized_operations == 8096
        cluster.allow(Operation.DESCRIBE, kind=CLUSTER, name="kafka-cluster")
        assert send(alice, request).cluster_authorized_operations == 1 << Operation.DESCRIBE


# The rules themselves


@pytest.mark.parametrize(
    "wrong",
    [
        rule(3, CLUSTER, "other"),
        rule(3, name=""),
        rule(3, 1),
        rule(3, 99),
        rule(3, pattern=PatternType.MATCH),
        rule(1),
        rule(99),
        rule(3, permission=1),
        rule(3, principal="alice"),
        rule(3, principal="User:"),
        rule(3, host="h.example"),
    ],
    ids=str,
)
def test_a_rule_that_cannot_be_is_refused_and_its_neighbours_are_stored(
    cluster: Cluster, wrong: AclCreation
) -> None:
    with cluster.user("admin") as admin:
        reply = send(admin, CreateAclsRequest(creations=[wrong, rule(3), rule(3)]))
        assert [one.error_code for one in reply.results] == [ErrorCode.INVALID_REQUEST, 0, 0]
        (resource,) = send(admin, all_acls()).resources
        assert (resource.resource_name, len(resource.acls)) == ("t", 1)


def all_acls() -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def test_an_unknown_element_closes_the_connection(cluster: Cluster) -> None:
    with cluster.user("admin") as admin:
        admin.post(CreateAclsRequest(creations=[rule(0)]), 3)
        assert admin.is_closed()


def test_rules_survive_a_restart(tmp_path: Any) -> None:  # noqa: ANN401 - a Path
    with serving("SASL_PLAINTEXT", settings=SETTINGS, data=tmp_path) as running:
        Cluster(running).allow(Operation.READ, Operation.WRITE)
    with (
        serving("SASL_PLAINTEXT", settings=SETTINGS, data=tmp_path) as running,
        Raw(running.address("SASL_PLAINTEXT")) as raw,
    ):
        Login(raw).plain("alice", USERS["alice"])
        assert produce(raw, "t", batch("x")).error_code == 0


def test_an_expression_gets_only_the_topics_that_its_member_may_describe(cluster: Cluster) -> None:
    with cluster.user("admin") as admin:
        create(admin, "t-hidden")
        assert send(admin, FindCoordinatorRequest(coordinator_keys=["g"])).coordinators[0].error_code == 0
    cluster.allow(Operation.DESCRIBE)
    cluster.allow(Operation.READ, kind=GROUP, name="g")
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1_000, subscribed_topic_regex="t.*"
    )
    with cluster.user("alice") as alice:
        reply = send(alice, beat)
        while not reply.assignment or not reply.assignment.topic_partitions:
            assert reply.error_code == 0, reply
            reply = send(
                alice,
                ConsumerGroupHeartbeatRequest(
                    group_id="g", member_id="m", member_epoch=reply.member_epoch, topic_partitions=None
                ),
            )
    assert [topic.topic_id for topic in reply.assignment.topic_partitions] == [cluster.topic_id]
