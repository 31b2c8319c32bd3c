"""Why a message cannot be written, in words that name the field."""

import pytest

from kohort.codec.diagnosis import explain
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupResponse


def test_a_field_is_named_by_its_path() -> None:
    partition = PartitionData(partition_index=2**40)
    reply = FetchResponse(
        responses=[FetchableTopicResponse(), FetchableTopicResponse(partitions=[partition])]
    )
    found = explain(reply, 12, TypeError())
    assert found.startswith(
        "FetchResponse v12: responses[1].partitions[0].partition_index cannot be 1099511627776"
    )


def test_null_is_fine_where_it_is_allowed() -> None:
    reply = ConsumerGroupHeartbeatResponse(assignment=None, error_message=None)
    assert explain(reply, 0, TypeError("why")) == "ConsumerGroupHeartbeatResponse v0: why"
    request = FetchRequest(cluster_id=None, replica_state=None)
    assert explain(request, 15, TypeError("why")) == "FetchRequest v15: why"


def test_null_is_at_fault_only_in_versions_that_do_not_allow_it() -> None:
    reply = JoinGroupResponse(protocol_name=None)
    assert explain(reply, 6, TypeError()) == "JoinGroupResponse v6: protocol_name is null"
    assert explain(reply, 7, TypeError()) == "JoinGroupResponse v7: TypeError"


def test_records_may_be_null_or_in_pieces() -> None:
    partitions = [PartitionData(records=None), PartitionData(records=[b"a", b"b"])]
    reply = FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)])
    assert explain(reply, 4, TypeError("why")) == "FetchResponse v4: why"


def test_a_field_that_was_never_set_is_null() -> None:
    request = HeartbeatRequest.__new__(HeartbeatRequest)
    assert explain(request, 0, AttributeError()) == "HeartbeatRequest v0: group_id is null"


@pytest.mark.parametrize(
    ("version", "reason"), [(3, "has 32768 bytes; this version has room for 32767"), (4, "")]
)
def test_a_long_string_is_at_fault_only_where_lengths_are_short(version: int, reason: str) -> None:
    assert reason in explain(HeartbeatRequest(group_id="x" * 32_768), version, TypeError("why"))
