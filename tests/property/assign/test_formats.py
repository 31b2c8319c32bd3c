"""The blobs, byte for byte against the encoders of kio, kafka-python and aiokafka."""

from importlib import import_module
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer
from tests.property.assign.generated import steady
from tests.property.assign.others import (
    AioAssignment,
    AioStickyUserData,
    AioSubscription,
    PythonAssignment,
    PythonStickyUserData,
    PythonSubscription,
)

from kohort.assign.protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_generation,
    decode_sticky_user_data,
    decode_subscription,
    encode_assignment,
    encode_sticky_user_data,
    encode_subscription,
)
from kohort.model.errors import ProtocolError
from kohort.model.ids import Generation, Partition, TopicName
from kohort.model.topics import TopicPartition

pytestmark = pytest.mark.slow

names = st.text("abcXYZ019._-", min_size=1, max_size=8).map(TopicName)
partitions = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1).map(Partition))
owned = st.lists(partitions, max_size=8, unique=True).map(lambda found: tuple(sorted(found)))
generations = st.integers(0, 2**31 - 1).map(Generation)
user_data = st.none() | st.binary(min_size=1, max_size=12)
subscriptions = st.builds(
    Subscription,
    st.lists(names, max_size=5, unique=True).map(lambda found: tuple(sorted(found))),
    user_data,
    owned,
    st.none() | generations,
    st.none() | st.text(min_size=1, max_size=6),
)
assignments = st.builds(Assignment, owned, user_data)
versions = st.integers(0, 3)


def by_topic(found: tuple[TopicPartition, ...]) -> dict[TopicName, list[int]]:
    grouped: dict[TopicName, list[int]] = {}
    for topic, partition in found:
        grouped.setdefault(topic, []).append(partition)
    return grouped


def kio_bytes(message: str, version: int, fields: dict[str, Any], nested: str) -> bytes:
    module = import_module(f"kio.schema.{message}.v{version}.data")
    (holder,) = [value for name, value in vars(module).items() if name.startswith("ConsumerProtocol")]
    if nested in fields:
        pairs = fields[nested].items()
        fields[nested] = tuple(module.TopicPartition(topic=t, partitions=tuple(n)) for t, n in pairs)
    written = BytesIO()
    entity_writer(holder)(written, holder(**fields))
    return version.to_bytes(2, "big") + written.getvalue()


@given(subscription=subscriptions, version=versions)
@steady
def test_subscriptions_are_written_as_kio_and_kafka_python_write_them(
    subscription: Subscription, version: int
) -> None:
    since = [
        ("topics", 0, subscription.topics),
        ("user_data", 0, subscription.user_data),
        ("owned_partitions", 1, by_topic(subscription.owned)),
        ("generation_id", 2, -1 if subscription.generation is None else subscription.generation),
        ("rack_id", 3, subscription.rack),
    ]
    fields: dict[str, Any] = {name: value for name, first, value in since if version >= first}
    ours = encode_subscription(subscription, version)
    assert ours == kio_bytes("consumer_protocol_subscription", version, dict(fields), "owned_partitions")
    nested = PythonSubscription.TopicPartition
    if "owned_partitions" in fields:
        pairs = by_topic(subscription.owned).items()
        fields["owned_partitions"] = [nested(topic=topic, partitions=numbers) for topic, numbers in pairs]
    fields["topics"] = list(subscription.topics)
    assert ours == PythonSubscription(version=version, **fields).encode(version=version)


@given(subscription=subscriptions, version=versions)
@steady
def test_subscriptions_come_back_as_far_as_their_version_knows(
    subscription: Subscription, version: int
) -> None:
    expected = Subscription(
        subscription.topics,
        subscription.user_data,
        subscription.owned if version >= 1 else (),
        subscription.generation if version >= 2 else None,
        subscription.rack if version >= 3 else None,
    )
    assert decode_subscription(encode_subscription(subscription, version)) == expected


@given(assignment=assignments, version=versions)
@steady
def test_assignments_are_written_as_the_others_write_them(assignment: Assignment, version: int) -> None:
    fields = {
        "assigned_partitions": by_topic(assignment.partitions),
        "user_data": assignment.user_data,
    }
    ours = encode_assignment(assignment, version)
    pairs = list(by_topic(assignment.partitions).items())
    assert ours == kio_bytes("consumer_protocol_assignment", version, fields, "assigned_partitions")
    assert ours == PythonAssignment(version, pairs, assignment.user_data).encode(version=version)
    assert ours == AioAssignment(version, pairs, assignment.user_data).encode()
    assert decode_assignment(ours) == assignment


@given(topics=st.lists(names, max_size=5, unique=True).map(sorted), told=user_data)
@steady
def test_version_0_is_what_aiokafka_writes(topics: list[TopicName], told: bytes | None) -> None:
    theirs = AioSubscription(0, topics, told).encode()
    assert encode_subscription(Subscription(tuple(topics), told), 0) == theirs


@given(held=owned, generation=generations)
@steady
def test_sticky_user_data_is_what_the_others_write(
    held: tuple[TopicPartition, ...], generation: Generation
) -> None:
    ours = encode_sticky_user_data(held, generation)
    pairs = list(by_topic(held).items())
    assert ours == PythonStickyUserData(pairs, generation).encode(version=1, header=False)
    assert ours == AioStickyUserData(pairs, generation).encode()
    assert decode_sticky_user_data(ours) == (held, generation)


@given(blob=st.binary(max_size=40))
@steady
def test_whatever_bytes_come_only_protocol_errors_do(blob: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            assert isinstance(decode(blob), Subscription | Assignment)
        except ProtocolError:
            continue
    assert decode_sticky_user_data(blob).partitions is not None
    assert (decode_generation(blob) is None) == (not blob)
