"""The codec on examples one can check by eye; the property tests compare it with kio on everything else."""

import pytest

from kohort.codec.compiled import (
    DecodeError,
    EncodeError,
    TooManyElementsError,
    decode,
    decode_request,
    encode,
    encode_parts,
)
from kohort.model.errors import ProtocolError
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest

BEAT = HeartbeatRequest(group_id="g", generation_id=7, member_id="m", group_instance_id=None)


def test_a_heartbeat_of_the_first_version_is_two_strings_and_a_number() -> None:
    data = b"\0\1g" + b"\0\0\0\7" + b"\0\1m"
    assert encode(BEAT, 0) == data
    assert decode(HeartbeatRequest, 0, data) == BEAT


def test_a_nullable_struct_has_a_marker_before_it() -> None:
    """Modern trap 2. The assignment of a heartbeat begins with 01, or is ff."""
    base = b"\0\0\0\0" + b"\0\0" + b"\0" + b"\2m" + b"\0\0\0\1" + b"\0\0\0\5"
    reply = ConsumerGroupHeartbeatResponse(
        member_id="m", member_epoch=1, heartbeat_interval_ms=5, error_message=None
    )
    assert encode(reply, 0) == base + b"\xff" + b"\0"
    reply.assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=b"t" * 16, partitions=[3])])
    assigned = b"\1" + b"\2" + b"t" * 16 + b"\2\0\0\0\3" + b"\0" + b"\0"
    assert encode(reply, 0) == base + assigned + b"\0"
    assert decode(ConsumerGroupHeartbeatResponse, 0, base + assigned + b"\0") == reply


def test_unknown_tagged_fields_are_skipped() -> None:
    unknown = b"\2" + b"\x63\3abc" + b"\xe4\1\0"  # 99 with three bytes, 228 with none
    assert decode(HeartbeatRequest, 4, encode(BEAT, 4)[:-1] + unknown) == BEAT


def test_an_unknown_tag_beside_known_ones_is_skipped() -> None:
    request = FetchRequest(cluster_id="c")
    data = encode(request, 15)
    assert data.endswith(b"\1\0\2\2c")
    assert decode(FetchRequest, 15, data.removesuffix(b"\1\0\2\2c") + b"\2\0\2\2c\x63\1z") == request


def test_a_tagged_field_of_another_size_than_announced_is_refused() -> None:
    data = encode(FetchRequest(cluster_id="c"), 15).removesuffix(b"\2\2c") + b"\3\2cx"
    with pytest.raises(DecodeError, match="cluster_id: the tagged field is not as long as announced"):
        decode(FetchRequest, 15, data)


def test_a_message_without_fields_is_no_bytes_or_an_empty_tag_section() -> None:
    for version, data in ((0, b""), (3, b"\0")):
        assert encode(ListGroupsRequest(), version) == data
        assert encode_parts(ListGroupsRequest(), version) == [data]
        assert decode(ListGroupsRequest, version, data) == ListGroupsRequest()


def test_decoding_starts_at_the_given_position() -> None:
    assert decode(HeartbeatResponse, 0, b"header\0\x1b", 6).error_code == 27


@pytest.mark.parametrize(
    ("version", "data", "reason"),
    [
        (0, b"", "ends in the middle"),
        (0, b"\0\5g", "group_id: 5 bytes announced, 1 left"),
        (0, b"\xff\xff", "group_id: null is not allowed"),
        (0, b"\xff\xfe", "group_id: length -2"),
        (0, b"\0\1\xff\0\0\0\7\0\0", "not UTF-8"),
        (0, b"\0\1g\0\0\0\7\0\1m!", "1 bytes after its end"),
        (4, b"\0", "group_id: null is not allowed"),
        (4, b"\x80\0", "group_id: null is not allowed"),
        (4, b"\x80\x80\x80\x80\x80\1", "group_id: a number of more than 32 bits"),
        (4, b"\xff\xff\xff\xff\x1f", "group_id: a number of more than 32 bits"),
        (4, b"\xff\xff\xff\xff\x0f", "group_id: 4294967294 bytes announced, 0 left"),
        (4, b"\2g\0\0\0\7\2m\0\1", "ends in the middle"),
        (4, b"\2g\0\0\0\7\2m\0\1\5\x7f", "tags: 127 bytes announced, 0 left"),
        (9, b"", "only versions 0-4 are known"),
    ],
)
def test_bytes_that_are_not_the_message_are_refused_with_the_reason(
    version: int, data: bytes, reason: str
) -> None:
    with pytest.raises(DecodeError, match=reason) as caught:
        decode(HeartbeatRequest, version, data)
    assert isinstance(caught.value, ProtocolError)
    assert str(caught.value).startswith(f"HeartbeatRequest v{version}: ")


def test_a_count_is_believed_only_if_the_bytes_for_it_are_there() -> None:
    with pytest.raises(DecodeError, match="topics: 2147483647 elements announced, 3 bytes left"):
        decode(MetadataRequest, 1, b"\x7f\xff\xff\xff" + b"abc")
    with pytest.raises(DecodeError, match="topics: 4294967294 elements announced, 3 bytes left"):
        decode(MetadataRequest, 9, b"\xff\xff\xff\xff\x0f" + b"abc")


def test_a_request_has_not_more_elements_than_the_caller_allows() -> None:
    def request(count: int) -> bytes:
        return count.to_bytes(4, "big") + b"\0\1t" * count

    topics = decode(MetadataRequest, 1, request(1000), at_most=1000).topics
    assert topics is not None
    assert len(topics) == 1000
    with pytest.raises(TooManyElementsError, match="topics: too many elements"):
        decode(MetadataRequest, 1, request(1001), at_most=1000)


def test_the_elements_of_all_arrays_count_together() -> None:
    topic = b"\0\1t" + (99).to_bytes(4, "big") + (bytes(12) + b"\xff\xff") * 99
    start = encode(OffsetCommitRequest(group_id="g"), 2).removesuffix(bytes(4))
    request = decode(OffsetCommitRequest, 2, start + (2).to_bytes(4, "big") + topic * 2, at_most=200)
    assert [len(read.partitions) for read in request.topics] == [99, 99]
    with pytest.raises(TooManyElementsError, match=r"topics.partitions: too many elements"):
        decode(OffsetCommitRequest, 2, start + (3).to_bytes(4, "big") + topic * 3, at_most=200)


def test_numbers_are_elements_too() -> None:
    fetch = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=list(range(100)))]
    )
    body = encode(fetch, 1)
    assert decode(OffsetFetchRequest, 1, body, at_most=101) == fetch
    with pytest.raises(TooManyElementsError):
        decode(OffsetFetchRequest, 1, body, at_most=100)


def test_a_reply_with_more_elements_than_the_caller_allows_is_not_written() -> None:
    reply = ListGroupsResponse(groups=[ListedGroup(group_id="g")] * 10)
    assert encode_parts(reply, 5, at_most=10) == [encode(reply, 5)]
    with pytest.raises(TooManyElementsError):
        encode_parts(reply, 5, at_most=9)


@pytest.mark.slow
def test_a_reply_may_have_any_number_of_elements() -> None:
    count = 200_001
    reply = decode(ListGroupsResponse, 0, b"\0\0" + count.to_bytes(4, "big") + bytes(4) * count)
    assert len(reply.groups) == count


def test_values_are_copies_but_records_are_a_view_of_the_frame() -> None:
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=b"batch")])]
    )
    frame = encode(request, 9)
    [partition] = decode(ProduceRequest, 9, frame).topic_data[0].partition_data
    assert isinstance(partition.records, memoryview)
    assert partition.records.obj is frame
    assert bytes(partition.records) == b"batch"
    token = decode(SaslAuthenticateRequest, 0, b"\0\0\0\1x")
    assert type(token.auth_bytes) is bytes


@pytest.mark.parametrize("version", [11, 12])
def test_large_records_are_handed_through_and_small_ones_joined(version: int) -> None:
    large = memoryview(bytes(5000))
    partitions = [PartitionData(records=[b"a", large, b"b"]), PartitionData(records=large), PartitionData()]
    reply = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    parts = encode_parts(reply, version)
    assert [part is large for part in parts] == [False, True, False, True, False]
    assert b"".join(parts) == encode(reply, version)
    [first, _, last] = decode(FetchResponse, version, encode(reply, version)).responses[0].partitions
    assert first.records == b"a" + bytes(5000) + b"b"
    assert last.records is None


def test_parts_may_end_with_records() -> None:
    large = bytes(5000)
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=large)])]
    )
    parts = encode_parts(request, 3)
    assert len(parts) == 2
    assert parts[1] is large


@pytest.mark.parametrize(
    ("message", "version", "reason"),
    [
        (HeartbeatRequest(group_id=None), 0, "group_id is null"),  # type: ignore[arg-type]  # the point
        (HeartbeatRequest(generation_id=2**31), 0, "generation_id cannot be 2147483648"),
        (HeartbeatRequest(group_id="\ud800"), 4, "group_id is not text that UTF-8 can hold"),
        (HeartbeatRequest(group_id="x" * 40_000), 3, "group_id has 40000 bytes"),
        (HeartbeatRequest(group_id=3), 4, "group_id should be a string, not 3"),  # type: ignore[arg-type]  # the point
        (MetadataRequest(topics=None), 0, "topics is null"),
        (MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9, r"topics\[0\].name is null"),
        (MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"short")]), 10, "should be 16 bytes"),
        (MetadataRequest(topics="abc"), 9, r"topics should be a list"),  # type: ignore[arg-type]  # the point
        (MetadataRequest(topics=[BEAT]), 9, r"topics\[0\] should be a MetadataRequestTopic"),  # type: ignore[list-item]  # the point
        (MetadataRequest(allow_auto_topic_creation=None), 9, "allow_auto_topic_creation is null"),  # type: ignore[arg-type]  # the point
        (SaslAuthenticateRequest(auth_bytes="x"), 2, "auth_bytes should be bytes, not 'x'"),  # type: ignore[arg-type]  # the point
        (JoinGroupResponse(protocol_name=None), 6, "protocol_name is null"),
        (BEAT, 5, "only versions 0-4 are known"),
    ],
)
def test_a_value_that_has_no_place_on_the_wire_is_refused_by_name(
    message: HeartbeatRequest | MetadataRequest, version: int, reason: str
) -> None:
    with pytest.raises(EncodeError, match=reason) as caught:
        encode(message, version)
    assert str(caught.value).startswith(f"{type(message).__name__} v{version}: ")
    with pytest.raises(EncodeError, match=reason):
        encode_parts(message, version)


def test_what_follows_a_request_is_ignored_as_kafka_ignores_it() -> None:
    """librdkafka's Metadata request for all topics has three bytes too many."""
    body = bytes.fromhex("00000000010000")
    request = decode_request(MetadataRequest, 13, body, 0)
    assert request == MetadataRequest(topics=None, allow_auto_topic_creation=False)
    with pytest.raises(DecodeError, match="3 bytes after its end"):
        decode(MetadataRequest, 13, body)
