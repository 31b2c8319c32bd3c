"""What Kafka serves and we do not have: the answers it gives itself where the feature is switched off."""

from collections.abc import Iterator

import pytest
from tests.broker.asking import create
from tests.broker.raw import Raw

from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.describe_acls import DescribeAclsRequest
from kohort.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kohort.wire.messages.describe_transactions import DescribeTransactionsRequest
from kohort.wire.messages.elect_leaders import ElectLeadersRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.list_transactions import ListTransactionsRequest
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest
from kohort.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from kohort.wire.messages.share_fetch import ShareFetchRequest
from kohort.wire.messages.share_group_describe import ShareGroupDescribeRequest
from kohort.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

ACL_VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


@pytest.fixture
def only_classic() -> Iterator[Raw]:
    """A broker that serves classic groups only."""
    configs = {"group.coordinator.rebalance.protocols": "classic"}
    with Broker(configs=configs) as broker, Raw(broker.bootstrap) as raw:
        yield raw


@pytest.mark.parametrize("version", [0, 1])
def test_the_consumer_protocol_is_unsupported(only_classic: Raw, version: int) -> None:
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"])
    reply = only_classic.send(beat, version)
    assert (reply.error_code, reply.member_id, reply.assignment) == (35, None, None)
    assert "group.protocol=classic" in reply.error_message


@pytest.mark.parametrize("version", [0, 1])
def test_no_group_of_the_consumer_protocol_can_be_described(only_classic: Raw, version: int) -> None:
    reply = only_classic.send(ConsumerGroupDescribeRequest(group_ids=["g", ""]), version)
    assert [(group.group_id, group.error_code) for group in reply.groups] == [("g", 35), ("", 35)]


def test_without_the_consumer_protocol_no_features_are_published(only_classic: Raw) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    reply = only_classic.send(request, 4)
    assert (reply.supported_features, reply.finalized_features) == ([], [])
    assert reply.finalized_features_epoch == -1


def test_a_member_of_the_consumer_protocol_is_one_warning_in_the_log(
    only_classic: Raw, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        only_classic.send(ConsumerGroupHeartbeatRequest(group_id="g"), 1)
    (message,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "set group.protocol=classic" in message


def test_share_groups_are_unsupported(raw: Raw) -> None:
    reply = raw.send(ShareGroupHeartbeatRequest(group_id="g", member_id="m"), 1)
    assert (reply.error_code, reply.member_id, reply.assignment) == (35, None, None)
    assert "share groups" in reply.error_message
    described = raw.send(ShareGroupDescribeRequest(group_ids=["g"]), 1)
    assert [(group.group_id, group.error_code) for group in described.groups] == [("g", 35)]
    for version in (1, 2):
        assert (
            raw.send(ShareFetchRequest(group_id="g", member_id="m"), version).error_code
            == ErrorCode.UNSUPPORTED_VERSION
        )
        assert (
            raw.send(ShareAcknowledgeRequest(group_id="g", member_id="m"), version).error_code
            == ErrorCode.UNSUPPORTED_VERSION
        )


def test_there_are_no_transactions_to_describe_or_list(raw: Raw) -> None:
    reply = raw.send(DescribeTransactionsRequest(transactional_ids=["a", ""]), 0)
    assert [state.error_code for state in reply.transaction_states] == [
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.INVALID_REQUEST,
    ]
    for version in (0, 1, 2):
        listed = raw.send(ListTransactionsRequest(state_filters=["Ongoing", "strange"]), version)
        assert (listed.error_code, listed.transaction_states) == (0, [])
        assert listed.unknown_state_filters == ["strange"]
    for pattern in ("(", "a" * 1_001):
        wrong = raw.send(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        assert wrong.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    ("request_", "version", "reason"),
    [
        (ShareGroupHeartbeatRequest(group_id="g"), 1, "there are no share groups here"),
        (InitProducerIdRequest(transactional_id="x"), 4, "there are no transactions here"),
        (FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4, "there are no transactions here"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_client_that_asks_for_what_is_not_there_is_one_warning_in_the_log(
    raw: Raw, caplog: pytest.LogCaptureFixture, request_: Message, version: int, reason: str
) -> None:
    for _ in range(5):
        raw.send(request_, version)
    (message,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert reason in message
    assert "127.0.0.1" in message


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


def test_an_election_of_all_that_need_one_elects_nobody(raw: Raw) -> None:
    create(raw, "t", 2)
    reply = raw.send(ElectLeadersRequest(topic_partitions=None), 2)
    assert [(each.topic, each.partition_result) for each in reply.replica_election_results] == [("t", [])]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([], 0),
        ([("user", 2, None)], 0),
        ([("user", 0, "alice"), ("client-id", 1, None)], 0),
        ([("", 2, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 2, None), ("user", 2, None)], ErrorCode.INVALID_REQUEST),
        ([("group", 2, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 1, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", 2, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", 2, None), ("user", 2, None)], ErrorCode.INVALID_REQUEST),
    ],
)
@pytest.mark.parametrize("version", [0, 1])
def test_there_are_no_quotas_to_describe(
    raw: Raw, version: int, components: list[tuple[str, int, str | None]], code: int
) -> None:
    asked = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    reply = raw.send(DescribeClientQuotasRequest(components=asked), version)
    assert (reply.error_code, reply.entries) == (code, None if code else [])
