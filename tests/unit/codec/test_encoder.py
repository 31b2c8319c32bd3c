"""What the compiler of encoders makes of a declaration."""

from kohort.codec.compiled import encode
from kohort.codec.encoder import LARGE, compile_encoder, encoder_source
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kohort.wire.messages.heartbeat import HeartbeatResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def test_neighbours_of_fixed_width_and_an_empty_tag_section_are_packed_at_once() -> None:
    assert encoder_source(HeartbeatResponse, 4).count("pack_") == 1
    assert encode(HeartbeatResponse(throttle_time_ms=1, error_code=2), 4) == b"\0\0\0\1\0\2\0"


def test_elements_of_numbers_alone_are_packed_in_one_expression() -> None:
    assert " for " in encoder_source(OffsetCommitResponse, 3)
    partitions = [OffsetCommitResponsePartition(partition_index=index) for index in range(2)]
    reply = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=partitions)])
    assert (
        encode(reply, 8)
        == b"\0\0\0\0" + b"\2" + b"\2t" + b"\3" + bytes(7) + b"\0\0\0\1\0\0\0" + b"\0" + b"\0"
    )


def test_an_encoder_notes_which_pieces_are_large() -> None:
    pieces: list[bytes | memoryview] = [bytes(LARGE - 1), bytes(LARGE), memoryview(bytes(LARGE + 1))]
    reply = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=pieces)])])
    out: list[bytes | memoryview] = []
    large: list[int] = []
    compile_encoder(FetchResponse, 12)(reply, out, large, 10)
    assert [out[index] for index in large] == pieces[1:]
    assert b"".join(out) == encode(reply, 12)


def test_tags_are_looked_at_only_if_one_is_set() -> None:
    source = encoder_source(FetchResponse, 12)
    test = "diverging_epoch is not None or e"
    assert test in source
