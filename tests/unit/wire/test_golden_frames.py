"""Whole frames as they go over the wire, byte by byte, written down by hand from the protocol."""

from kohort.codec.compiled import decode, encode
from kohort.codec.schema import Message
from kohort.wire.apis import ApiKey, api_spec
from kohort.wire.framing import FrameBuffer, frame
from kohort.wire.headers import RequestHeader, read_request_header, request_header, response_header
from kohort.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.produce import ProduceResponse


def request_frame(message: Message, version: int, client_id: str) -> bytes:
    assert message.api_key is not None
    header = request_header(RequestHeader(message.api_key, version, 1, client_id))
    return b"".join(frame([header, encode(message, version)]))


def reply_frame(message: Message, version: int) -> bytes:
    assert message.api_key is not None
    flexible = api_spec(message.api_key).response_header_is_flexible(version)
    return b"".join(frame([response_header(1, flexible), encode(message, version)]))


def test_the_first_request_of_most_clients() -> None:
    request = ApiVersionsRequest(client_software_name="kohort", client_software_version="0.1")
    golden = bytes.fromhex(
        "0000001f"  # size
        "0012 0003 00000001"  # ApiVersions, version 3, correlation id
        "0008 6b6f686f72742d31"  # client id, with a two-byte length though the header is flexible
        "00"  # tags of the header
        "07 6b6f686f7274"  # name, compact
        "04 302e31"  # version, compact
        "00"  # tags of the body
    )
    assert request_frame(request, 3, "kohort-1") == golden
    buffer = FrameBuffer()
    buffer.feed(golden)
    body = buffer.next_frame()
    assert body is not None
    header, position = read_request_header(body)
    assert header == RequestHeader(ApiKey.API_VERSIONS, 3, 1, "kohort-1")
    assert decode(ApiVersionsRequest, 3, body, position) == request


def test_the_reply_to_api_versions_has_an_old_header_before_a_flexible_body() -> None:
    reply = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])
    golden = bytes.fromhex(
        "00000013"
        "00000001"  # correlation id, and no tags after it
        "0000"  # error
        "02 0012 0000 0004 00"  # one key, with its own tags
        "00000000"  # throttle time
        "00"  # tags: no features
    )
    assert reply_frame(reply, 3) == golden


def test_api_versions_of_an_unknown_version_is_answered_in_version_0() -> None:
    reply = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, max_version=4)])
    golden = bytes.fromhex("00000010 00000001 0023 00000001 0012 0000 0004")
    assert reply_frame(reply, 0) == golden


def test_features_are_tags_of_the_reply_to_api_versions() -> None:
    reply = ApiVersionsResponse(finalized_features_epoch=7)
    golden = bytes.fromhex("00000016 00000001 0000 01 00000000 01 01 08 0000000000000007")
    assert reply_frame(reply, 3) == golden


def test_all_topics_and_no_topics_differ_by_one_byte() -> None:
    flags = "01 00 00"  # auto-create; authorized operations of the cluster and of topics
    start = "0003 0009 00000001 0001 63 00"
    assert request_frame(MetadataRequest(topics=None), 9, "c") == bytes.fromhex(
        f"00000011 {start} 00 {flags} 00"
    )
    assert request_frame(MetadataRequest(topics=[]), 9, "c") == bytes.fromhex(
        f"00000011 {start} 01 {flags} 00"
    )


def test_the_throttle_time_of_produce_comes_last() -> None:
    assert reply_frame(ProduceResponse(throttle_time_ms=5), 3) == bytes.fromhex(
        "0000000c 00000001 00000000 00000005"
    )


def test_a_subscription_is_never_compact() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], generation_id=3, rack_id="r")
    golden = bytes.fromhex("00000001 0001 74 ffffffff 00000000 00000003 0001 72")
    assert encode(subscription, 3) == golden
    assert decode(ConsumerProtocolSubscription, 3, golden) == subscription
