"""The audit log (security A8)."""

import pytest
from tests.broker.asking import batch, produce
from tests.broker.security.test_acls import Cluster, cluster, fetch, send

from kohort.security.acls import Operation, PatternType, Permission
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

__all__ = ["cluster"]  # the fixture


def test_the_audit_log_says_who_was_denied_what_and_by_which_rule(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.allow(Operation.READ, name="*", permission=Permission.DENY, principal="User:*")
    cluster.allow(Operation.WRITE, name="x", pattern=PatternType.PREFIXED)
    caplog.set_level("INFO", "kohort.authorizer")
    with cluster.user("alice") as alice:
        alice.send(MetadataRequest(topics=None, include_topic_authorized_operations=True), 12)
        send(alice, ListGroupsRequest())
        assert [record.message for record in caplog.records if record.name == "kohort.authorizer"] == []
        fetch(alice, cluster)
        produce(alice, "t", batch("x"))
    denied = [record for record in caplog.records if record.name == "kohort.authorizer"]
    assert [record.levelname for record in denied] == ["INFO", "INFO"]
    reading, writing = (record.message for record in denied)
    assert "denied: User:alice from 127.0.0.1, READ on TOPIC 't' by Fetch v17 of client" in reading
    assert "rule DENY User:* from *, READ on TOPIC LITERAL:*" in reading
    assert "WRITE on TOPIC 't' by Produce" in writing
    assert "no rule allows it" in writing
    caplog.clear()
    caplog.set_level("DEBUG", "kohort.authorizer")
    with cluster.user("alice") as alice:
        produce(alice, "x1", batch("x"))
    assert "allowed: User:alice from 127.0.0.1, WRITE on TOPIC 'x1'" in caplog.text
    assert "rule ALLOW User:alice from *, WRITE on TOPIC PREFIXED:x" in caplog.text


def test_one_user_cannot_flood_the_audit_log(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kohort.authorizer")
    with cluster.user("alice") as alice:
        alice.send(MetadataRequest(topics=[MetadataRequestTopic(name=f"n{n}") for n in range(1_000)]), 12)
    assert sum(record.name == "kohort.authorizer" for record in caplog.records) == 600
