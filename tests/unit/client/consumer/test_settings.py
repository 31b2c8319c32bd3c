"""The settings of a consumer."""

from dataclasses import fields
from pathlib import Path

import pytest

from kohort.client.addresses import AddressError
from kohort.client.consumer import Consumer
from kohort.client.consumer.settings import (
    LEFT_OUT,
    NOT_WITH_CONSUMER_PROTOCOL,
    ConsumerOptions,
    ConsumerSettings,
    consumer_settings,
)
from kohort.client.fetching.positions import ResetPolicy
from kohort.client.settings import SettingError


def test_every_setting_is_described() -> None:
    howto = Path(__file__).parents[4] / "docs" / "howto"
    page = (howto / "consume.md").read_text() + (howto / "secured-cluster.md").read_text()
    assert [each.name for each in fields(ConsumerSettings) if f"`{each.name}`" not in page] == []
    assert [name for name in LEFT_OUT if f"`{name}`" not in page] == []


KAFKAS = (
    "bootstrap.servers client.id client.rack group.id group.instance.id group.protocol group.remote.assignor "
    "session.timeout.ms heartbeat.interval.ms max.poll.interval.ms max.poll.records "
    "partition.assignment.strategy enable.auto.commit auto.commit.interval.ms auto.offset.reset "
    "isolation.level fetch.min.bytes fetch.max.bytes max.partition.fetch.bytes fetch.max.wait.ms check.crcs "
    "request.timeout.ms default.api.timeout.ms retry.backoff.ms retry.backoff.max.ms reconnect.backoff.ms "
    "reconnect.backoff.max.ms socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms "
    "connections.max.idle.ms metadata.max.age.ms allow.auto.create.topics exclude.internal.topics "
    "send.buffer.bytes receive.buffer.bytes interceptor.classes internal.leave.group.on.close "
    "internal.throw.on.fetch.stable.offset.unsupported key.deserializer value.deserializer"
)


def test_every_setting_of_kafkas_consumer_exists_or_says_why_not() -> None:
    known = {each.name for each in fields(ConsumerSettings)} | set(LEFT_OUT)
    assert {name.replace(".", "_") for name in KAFKAS.split()} <= known


def test_a_setting_that_was_left_out_says_what_to_do_instead() -> None:
    with pytest.raises(SettingError, match=r"no setting 'send\.buffer\.bytes'") as refused:
        consumer_settings({"send.buffer.bytes": 1})
    assert refused.value.hint == "the operating system sizes the buffers of sockets"


@pytest.mark.parametrize("name", NOT_WITH_CONSUMER_PROTOCOL)
def test_what_the_broker_decides_does_not_go_with_the_consumer_protocol(name: str) -> None:
    """Even with the value that it would have anyway."""
    given = {"group_id": "g", name: getattr(ConsumerSettings(), name)}
    assert consumer_settings({**given, "group_protocol": "classic"}).group_protocol == "classic"
    with pytest.raises(SettingError, match=f"{name} does not go with group_protocol='consumer'") as refused:
        consumer_settings({**given, "group_protocol": "consumer"})
    assert "broker" in refused.value.hint


def test_the_assignor_of_a_broker_needs_the_consumer_protocol() -> None:
    with pytest.raises(SettingError, match="group_remote_assignor needs group_protocol='consumer'"):
        consumer_settings({"group_id": "g", "group_remote_assignor": "range"})


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("consumer_timeout_ms", "poll"),
        ("something", "there are security_protocol"),
    ],
)
def test_settings_of_other_libraries_say_what_to_do_instead(given: str, hint: str) -> None:
    with pytest.raises(SettingError, match=hint):
        consumer_settings({given: "x"})


def test_the_typed_options_are_the_settings() -> None:
    assert set(ConsumerOptions.__annotations__) == {each.name for each in fields(ConsumerSettings)}


@pytest.mark.parametrize(
    ("given", "suggestion"),
    [
        ("group.id", "group_id"),
        ("auto_offset_rest", "auto_offset_reset"),
        ("max_poll_record", "max_poll_records"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_one(given: str, suggestion: str) -> None:
    with pytest.raises(SettingError, match=f"did you mean {suggestion}"):
        consumer_settings({given: "x"})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"group_id": ""}, "group_id must not be empty"),
        ({"enable_auto_commit": True}, "needs a group_id"),
        ({"auto_offset_reset": "earlyest"}, "did you mean earliest"),
        ({"isolation_level": "dirty"}, "read_uncommitted, read_committed"),
        ({"max_poll_records": 0}, "at least 1"),
        ({"group_instance_id": ".."}, "not legal"),
        ({"group_instance_id": "a b"}, "not legal"),
        ({"fetch_max_wait_ms": -1}, "fetch_max_wait_ms cannot be -1"),
        ({"auto_offset_reset": "EARLIEST"}, "did you mean earliest"),
        ({"group_id": "g", "enable_auto_commit": "false"}, "it is True or False or None"),
        ({"group_id": 5}, "it is text or None"),
        ({"client_id": None}, "it is text"),
        ({"max_poll_records": "10"}, "it is a whole number"),
        ({"session_timeout_ms": 10.5}, "it is a whole number"),
        ({"request_timeout_ms": True}, "it is a whole number"),
        ({"fetch_min_bytes": 2**31}, "up to 2147483647"),
        ({"key_deserializer": "utf-8"}, "it is a function or None"),
        ({"partition_assignment_strategy": "range"}, "it is a list"),
        ({"interceptors": object()}, "it is a list"),
        ({"bootstrap_servers": None}, "it is text or a list of text"),
        ({"bootstrap_servers": [("localhost", 9092)]}, "it is text or a list of text"),
    ],
)
def test_values_that_cannot_be_are_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        consumer_settings(given)


@pytest.mark.parametrize(
    ("given", "words"), [([], "names no host"), ("PLAINTEXT://localhost:9092", "without a scheme")]
)
def test_addresses_are_looked_at_when_the_consumer_is_made(given: str | list[str], words: str) -> None:
    with pytest.raises(AddressError, match=words):
        Consumer(bootstrap_servers=given)


def test_heartbeats_that_do_not_fit_into_the_session_are_refused_when_the_consumer_is_made() -> None:
    """T37."""
    with pytest.raises(SettingError, match=r"heartbeat.interval.ms \(10\).*session.timeout.ms"):
        Consumer(group_id="g", session_timeout_ms=10, heartbeat_interval_ms=10)


def test_auto_commit_is_on_with_a_group_and_off_without() -> None:
    assert consumer_settings({"group_id": "g"}).auto_commits
    assert not consumer_settings({}).auto_commits
    assert not consumer_settings({"group_id": "g", "enable_auto_commit": False}).auto_commits


def test_settings_reach_the_parts() -> None:
    settings = consumer_settings(
        {
            "bootstrap_servers": ["a:1", "b:2"],
            "group_id": "g",
            "group_instance_id": "i-1",
            "auto_offset_reset": "none",
            "isolation_level": "read_committed",
            "socket_connection_setup_timeout_ms": 77,
        }
    )
    assert settings.bootstrap == "a:1,b:2"
    assert settings.reset_policy is ResetPolicy.NONE
    assert settings.reading().read_committed
    assert settings.client().client_id == "consumer-g-i-1"
    assert settings.client().connect_timeout_ms == 77
    assert consumer_settings({"client_id": "me"}).client().client_id == "me"
