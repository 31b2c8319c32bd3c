"""``super.users`` and ``allow.everyone.if.no.acl.found``: who may do what without a rule (security 4)."""

import pytest
from tests.broker.asking import batch, metadata, produce
from tests.broker.raw import Raw
from tests.broker.security.secured import serving
from tests.broker.security.test_acls import CLUSTER, GROUP, SETTINGS, Cluster, rule, send

from kohort.model.errors import ErrorCode
from kohort.security.acls import Operation, PatternType, Permission
from kohort.wire.messages.create_acls import CreateAclsRequest
from kohort.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kohort.wire.messages.describe_cluster import DescribeClusterRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

OPEN = {"allow.everyone.if.no.acl.found": "true"}


def test_everyone_may_use_what_has_no_rule_if_the_setting_says_so() -> None:
    """Security scenario 48. A rule about a name ends that, for all users. Kafka 4.2 says the same."""
    with serving("SASL_PLAINTEXT", settings=SETTINGS | OPEN) as running:
        cluster = Cluster(running)
        with cluster.user("alice") as alice, cluster.user("bob") as bob:
            assert produce(alice, "t", batch("x")).error_code == 0
            cluster.allow(Operation.READ, principal="User:bob")
            assert produce(alice, "t", batch("x")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert metadata(bob, "t").topics[0].error_code == 0
        cluster.allow(Operation.READ, name="literal", principal="User:bob")
        cluster.allow(Operation.READ, name="pre", pattern=PatternType.PREFIXED, principal="User:bob")
        cluster.allow(Operation.READ, name="denied", principal="User:bob", permission=Permission.DENY)
        cluster.allow(Operation.READ, name="host", host="10.0.0.1")
        cluster.allow(Operation.READ, name="own")
        cluster.allow(Operation.READ, kind=GROUP, name="*", principal="User:bob")
        own = 1 << Operation.READ | 1 << Operation.DESCRIBE
        everything = {"free": (3, 3_576), "p": (3, 3_576), "own": (3, own), "cluster": 8_096}
        for name in ("literal", "pre-1", "denied", "host"):
            everything[name] = HIDDEN
        assert what_alice_may(cluster) == everything
        cluster.allow(Operation.READ, name="*", principal="User:bob")
        cluster.allow(Operation.ALTER, kind=CLUSTER, name="kafka-cluster", principal="User:bob")
        assert what_alice_may(cluster) == dict.fromkeys(everything, HIDDEN) | {"own": (3, own), "cluster": 0}


HIDDEN = (int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), -(2**31))


def what_alice_may(cluster: Cluster) -> dict[str, object]:
    """The error and the bits of topics that do not exist, and the bits of the cluster."""
    names = ("free", "p", "own", "literal", "pre-1", "denied", "host")
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    with cluster.user("alice") as alice:
        found: dict[str, object] = {
            one.name: (one.error_code, one.topic_authorized_operations)
            for one in alice.send(asked, 12).topics
        }
        shown = send(alice, DescribeClusterRequest(include_cluster_authorized_operations=True))
        return found | {"cluster": shown.cluster_authorized_operations}


@pytest.mark.parametrize(
    ("more", "warns"), [({"super.users": ""}, True), ({}, False), ({"super.users": ""} | OPEN, False)]
)
def test_the_log_warns_at_the_start_if_nobody_may_change_the_rules(
    more: dict[str, str], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with serving("SASL_PLAINTEXT", settings=SETTINGS | more):
        assert ("super.users=User:NAME" in caplog.text) == warns


@pytest.mark.parametrize("super_users", ["", "User:root"])
def test_the_log_warns_when_the_last_right_to_change_rules_is_removed(
    super_users: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Security trap 16. A rule that locks out the administrator is not removed without a word."""
    settings = SETTINGS | {"super.users": super_users, "allow.everyone.if.no.acl.found": "true"}
    with (
        serving("SASL_PLAINTEXT", "PLAINTEXT", settings=settings) as running,
        Raw(running.address("PLAINTEXT")) as raw,
    ):
        last = rule(Operation.ALTER, CLUSTER, "kafka-cluster", principal="User:ANONYMOUS")
        assert send(raw, CreateAclsRequest(creations=[last])).results[0].error_code == 0
        which = DeleteAclsFilter(
            resource_type_filter=CLUSTER, resource_name_filter=None, pattern_type_filter=1,
            principal_filter=None, host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        (result,) = send(raw, DeleteAclsRequest(filters=[which])).filter_results
        assert len(result.matching_acls) == 1
    assert ("removed the last right to change ACLs" in caplog.text) == (not super_users)
