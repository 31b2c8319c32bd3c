"""The settings of a consumer."""

from dataclasses import fields
from pathlib import Path

import pytest

from kohort.client.consumer.settings import (
    ConsumerOptions,
    ConsumerSettings,
    SettingError,
    consumer_settings,
)
from kohort.client.fetching.positions import ResetPolicy


def test_every_setting_is_described() -> None:
    page = (Path(__file__).parents[4] / "docs" / "howto" / "consume.md").read_text()
    assert [each.name for each in fields(ConsumerSettings) if f"`{each.name}`" not in page] == []


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
    ],
)
def test_values_that_cannot_be_are_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        consumer_settings(given)


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
            "session_timeout_ms": 7_000,
        }
    )
    assert settings.bootstrap == "a:1,b:2"
    assert settings.reset_policy is ResetPolicy.NONE
    assert settings.reading().read_committed
    membership = settings.membership()
    assert membership is not None
    assert (membership.session_timeout_ms, membership.instance_id) == (7_000, "i-1")
    assert settings.client().client_id == "consumer-g-i-1"
    assert consumer_settings({}).membership() is None
    assert consumer_settings({"client_id": "me"}).client().client_id == "me"
