"""The vocabulary of declarations, on a few small ones."""

import pytest

from kohort.codec.schema import (
    BOOL,
    INT32,
    NEVER,
    STRING,
    UUID,
    ZERO_UUID,
    Array,
    Field,
    Message,
    Struct,
    Versions,
    since,
)
from kohort.wire.messages.fetch import FetchRequest, FetchResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def test_a_range_of_versions_has_both_its_ends() -> None:
    assert [version for version in range(6) if Versions(2, 4).includes(version)] == [2, 3, 4]
    assert [version for version in range(6) if since(3).includes(version)] == [3, 4, 5]
    assert not any(NEVER.includes(version) for version in range(6))
    assert (str(Versions(2, 4)), str(Versions(0, 0))) == ("2-4", "0")


def test_messages_are_equal_if_their_class_and_all_their_fields_are() -> None:
    assert HeartbeatRequest(group_id="a") == HeartbeatRequest(group_id="a")
    assert HeartbeatRequest(group_id="a") != HeartbeatRequest(group_id="b")
    assert HeartbeatResponse() != HeartbeatRequest()
    topics = [MetadataRequestTopic(name="a")]
    assert MetadataRequest(topics=topics) == MetadataRequest(topics=[MetadataRequestTopic(name="a")])


def test_a_message_has_no_hash_because_it_can_change() -> None:
    with pytest.raises(TypeError):
        hash(HeartbeatRequest())


def test_a_message_shows_what_differs_from_its_defaults() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a")], allow_auto_topic_creation=False)
    shown = "MetadataRequest(topics=[MetadataRequestTopic(name='a')], allow_auto_topic_creation=False)"
    assert repr(request) == shown
    assert repr(HeartbeatResponse()) == "HeartbeatResponse()"


def test_a_message_takes_no_attribute_the_protocol_does_not_know() -> None:
    with pytest.raises(AttributeError):
        HeartbeatRequest().group = "g"  # type: ignore[attr-defined]  # the point


def test_no_two_messages_share_a_list() -> None:
    first, second = FetchResponse(), FetchResponse()
    first.responses.append(first_topic := FetchRequest.fields[0])  # type: ignore[arg-type]  # anything will do
    assert first.responses == [first_topic]
    assert second.responses == []


def test_defaults_are_the_schemas_or_the_zero_of_the_type() -> None:
    assert Field("a", INT32).make_default() == 0
    assert Field("a", INT32, default=-1).make_default() == -1
    assert Field("a", BOOL).make_default() is False
    assert Field("a", STRING, nullable=since(0)).make_default() == ""
    assert Field("a", STRING, nullable=since(0), default=None).make_default() is None
    assert Field("a", UUID).make_default() == ZERO_UUID
    assert Field("a", Array(INT32)).make_default() == []
    assert Field("a", HeartbeatRequest).make_default() == HeartbeatRequest()
    assert Field("a", HeartbeatRequest, tag=0).make_default() is None


def test_a_message_that_is_never_flexible_says_so() -> None:
    class Blob(Message):
        versions = Versions(0, 3)

    assert not Blob.is_flexible(3)
    assert HeartbeatRequest.is_flexible(4)
    assert not HeartbeatRequest.is_flexible(3)


def test_a_struct_without_fields_equals_another() -> None:
    class Nothing(Struct):
        pass

    assert Nothing() == Nothing()
    assert repr(Nothing()) == "Nothing()"
