"""Byte for byte what other clients write; patience with what they get wrong."""

import pytest
from tests.unit.assign.notation import partitions

from kohort.assign.protocol import (
    Assignment,
    Subscription,
    TruncatedError,
    decode_assignment,
    decode_generation,
    decode_sticky_user_data,
    decode_subscription,
    encode_assignment,
    encode_generation,
    encode_sticky_user_data,
    encode_subscription,
)
from kohort.model.errors import KohortError, ProtocolError
from kohort.model.ids import Generation, TopicName

A = (TopicName("a"),)
OWNED = partitions("a-0 a-1")
TOPICS = "00000001 000161 ffffffff "
OWNED_HEX = "00000001 000161 00000002 00000000 00000001 "
SUBSCRIPTIONS = [
    (0, "0000 " + TOPICS, Subscription(A)),
    (1, "0001 " + TOPICS + OWNED_HEX, Subscription(A, owned=OWNED)),
    (2, "0002 " + TOPICS + OWNED_HEX + "00000005", Subscription(A, owned=OWNED, generation=Generation(5))),
    (
        3,
        "0003 " + TOPICS + OWNED_HEX + "00000005 0002 7231",
        Subscription(A, owned=OWNED, generation=Generation(5), rack="r1"),
    ),
    (3, "0003 " + TOPICS + "00000000 ffffffff ffff", Subscription(A)),
]
ASSIGNMENTS = [
    ("0003 00000001 000161 00000002 00000000 00000001 ffffffff", Assignment(OWNED)),
    ("0003 00000000 ffffffff", Assignment()),
]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_assignments_of_other_versions_have_the_same_body(version: int) -> None:
    blob = encode_assignment(Assignment(OWNED, b"x"), version)
    assert blob[:2] == bytes([0, version])
    assert blob[2:] == encode_assignment(Assignment(OWNED, b"x"))[2:]
    assert decode_assignment(blob) == Assignment(OWNED, b"x")


@pytest.mark.parametrize(
    ("version", "text", "subscription"), [SUBSCRIPTIONS[index] for index in (0, 2, 3, 4)]
)
def test_a_subscription_cut_anywhere_is_truncated(
    version: int, text: str, subscription: Subscription
) -> None:
    blob = encode_subscription(subscription, version)
    for size in range(len(blob)):
        with pytest.raises(TruncatedError):
            decode_subscription(blob[:size])


@pytest.mark.parametrize(("text", "assignment"), ASSIGNMENTS)
def test_an_assignment_cut_anywhere_is_truncated(text: str, assignment: Assignment) -> None:
    blob = encode_assignment(assignment)
    for size in range(len(blob)):
        with pytest.raises(TruncatedError):
            decode_assignment(blob[:size])


def test_a_short_version_1_is_read_as_version_0() -> None:
    blob = encode_subscription(Subscription(A, owned=OWNED), 1)
    body = len(encode_subscription(Subscription(A), 0))
    for size in range(body, len(blob)):
        assert decode_subscription(blob[:size]) == Subscription(A)
    for size in range(body):
        with pytest.raises(TruncatedError):
            decode_subscription(blob[:size])


def test_newer_versions_and_bytes_after_the_end_are_tolerated() -> None:
    full = Subscription(A, b"u", OWNED, Generation(5), "r1")
    newer = b"\x00\x09" + encode_subscription(full)[2:] + b"whatever comes later"
    assert decode_subscription(newer) == full
    assert decode_subscription(encode_subscription(Subscription(A), 0) + b"x") == Subscription(A)
    assert decode_assignment(b"\x7f\xff" + encode_assignment(Assignment(OWNED))[2:] + b"x") == Assignment(
        OWNED
    )


@pytest.mark.parametrize(
    "text",
    [
        "ffff 00000000 ffffffff",  # a negative version
        "0000 ffffffff ffffffff",  # a null array of topics
        "0000 00000001 ffff ffffffff",  # a null topic
        "0000 00000001 0001ff ffffffff",  # not UTF-8
        "0001 00000000 ffffffff 00000001 000161 ffffffff",  # a null array of partitions
    ],
)
def test_bytes_that_are_no_subscription_are_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        decode_subscription(bytes.fromhex(text))


def test_a_length_nobody_could_have_sent_costs_no_memory() -> None:
    with pytest.raises(TruncatedError, match="are needed at byte 6, 0 are there"):
        decode_assignment(bytes.fromhex("0003 7fffffff"))
    with pytest.raises(TruncatedError):
        decode_assignment(bytes.fromhex("0003 00000001 000161 7fffffff 00000000"))


def test_empty_user_data_and_an_empty_rack_are_absent() -> None:
    blob = bytes.fromhex("0003 00000000 00000000 00000000 fffffffe 0000")
    assert decode_subscription(blob) == Subscription(())
    assert decode_assignment(bytes.fromhex("0000 00000000 00000000")) == Assignment()
    assert encode_subscription(Subscription((), rack="")).endswith(b"\xff\xff")


def test_topics_and_owned_partitions_are_written_sorted() -> None:
    topics = (TopicName("b"), TopicName("a"), TopicName("b"))
    mixed = Subscription(topics, owned=partitions("b-1 a-10 b-0 a-2"))
    tidy = Subscription((TopicName("a"), TopicName("b")), owned=partitions("a-2 a-10 b-0 b-1"))
    assert encode_subscription(mixed) == encode_subscription(tidy)
    assert decode_subscription(encode_subscription(mixed)) == tidy


def test_assigned_partitions_are_grouped_in_the_order_given() -> None:
    blob = encode_assignment(Assignment(partitions("b-1 a-0 b-0")))
    assert decode_assignment(blob).partitions == partitions("b-1 b-0 a-0")


def test_versions_that_do_not_exist_and_strings_too_long_are_not_written() -> None:
    for version in (-1, 4):
        with pytest.raises(KohortError, match="versions are 0 to 3"):
            encode_subscription(Subscription(A), version)
    with pytest.raises(KohortError, match="32768 bytes"):
        encode_subscription(Subscription(A, rack="r" * 0x8000))
    assert decode_subscription(encode_subscription(Subscription(A, rack="r" * 0x7FFF))).rack == "r" * 0x7FFF


def test_sticky_user_data_is_read_in_both_versions() -> None:
    newer = bytes.fromhex("00000001 000161 00000002 00000000 00000002 00000007")
    assert encode_sticky_user_data(partitions("a-2 a-0"), Generation(7)) == newer
    assert decode_sticky_user_data(newer) == (partitions("a-0 a-2"), 7)
    assert decode_sticky_user_data(newer[:-4]) == (partitions("a-0 a-2"), None)


@pytest.mark.parametrize(
    ("blob", "generation"),
    [(None, None), (b"", None), (b"\x00\x00\x00", -1), (b"garbage", -1), (b"\xff\xff\xff\xff", -1)],
)
def test_sticky_user_data_that_cannot_be_read_claims_nothing(
    blob: bytes | None, generation: int | None
) -> None:
    assert decode_sticky_user_data(blob) == ((), generation)


@pytest.mark.parametrize(
    ("blob", "generation"), [(None, None), (b"", None), (b"\x00\x00\x05", -1), (b"\x00\x00\x00\x05", 5)]
)
def test_cooperative_user_data_is_a_generation(blob: bytes | None, generation: int | None) -> None:
    assert decode_generation(blob) == generation
    assert encode_generation(Generation(5)) == b"\x00\x00\x00\x05"
