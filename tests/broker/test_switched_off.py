"""What Kafka serves and we do not have: the answers it gives itself where the feature is switched off."""

import pytest
from tests.broker.asking import create
from tests.broker.raw import Raw

from kohort.model.errors import ErrorCode
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kohort.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kohort.wire.messages.describe_acls import DescribeAclsRequest
from kohort.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest

ACL_VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


@pytest.mark.parametrize("version", [0, 1])
def test_the_consumer_protocol_is_unsupported(raw: Raw, version: int) -> None:
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"])
    reply = raw.send(beat, version)
    assert (reply.error_code, reply.member_id, reply.assignment) == (35, None, None)
    assert "group.protocol=classic" in reply.error_message


@pytest.mark.parametrize("version", [0, 1])
def test_a_client_that_wants_to_log_in_is_told_that_it_cannot(raw: Raw, version: int) -> None:
    reply = raw.send(SaslHandshakeRequest(mechanism="PLAIN"), version)
    assert (reply.error_code, reply.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    reply = raw.send(SaslAuthenticateRequest(auth_bytes=b"\0user\0password"), version)
    assert reply.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert "plaintext" in reply.error_message


@ACL_VERSIONS
def test_acls_cannot_be_described(raw: Raw, version: int) -> None:
    reply = raw.send(DescribeAclsRequest(), version)
    assert (reply.error_code, reply.resources) == (ErrorCode.SECURITY_DISABLED, [])
    assert "no authorizer" in reply.error_message


@ACL_VERSIONS
def test_each_acl_to_create_is_refused(raw: Raw, version: int) -> None:
    reply = raw.send(CreateAclsRequest(creations=[AclCreation(), AclCreation()]), version)
    assert [result.error_code for result in reply.results] == [ErrorCode.SECURITY_DISABLED] * 2


@ACL_VERSIONS
def test_each_filter_of_acls_to_delete_is_refused(raw: Raw, version: int) -> None:
    reply = raw.send(DeleteAclsRequest(filters=[DeleteAclsFilter(), DeleteAclsFilter()]), version)
    assert [result.error_code for result in reply.filter_results] == [ErrorCode.SECURITY_DISABLED] * 2


@pytest.mark.parametrize(("version", "kind"), [(0, 0), (1, 1), (2, 0), (2, 1)])
def test_no_partition_needs_another_leader(raw: Raw, version: int, kind: int) -> None:
    create(raw, "t", 2)
    asked = [
        TopicPartitions(topic="t", partitions=[1, 0, 2]),
        TopicPartitions(topic="nowhere", partitions=[0]),
    ]
    reply = raw.send(ElectLeadersRequest(election_type=kind, topic_partitions=asked), version)
    assert reply.error_code == 0
    assert [
        (topic.topic, [(part.partition_id, part.error_code) for part in topic.partition_result])
        for topic in reply.replica_election_results
    ] == [("t", [(1, 84), (0, 84), (2, 3)]), ("nowhere", [(0, 3)])]


def test_an_election_of_all_that_need_one_elects_nobody(raw: Raw) -> None:
    create(raw, "t", 2)
    reply = raw.send(ElectLeadersRequest(topic_partitions=None), 2)
    assert [(each.topic, each.partition_result) for each in reply.replica_election_results] == [("t", [])]


def test_an_election_of_no_known_kind_is_invalid(raw: Raw) -> None:
    asked = [TopicPartitions(topic="t", partitions=[0])]
    reply = raw.send(ElectLeadersRequest(election_type=7, topic_partitions=asked), 2)
    assert reply.error_code == ErrorCode.INVALID_REQUEST
    assert reply.replica_election_results[0].partition_result[0].error_code == ErrorCode.INVALID_REQUEST
