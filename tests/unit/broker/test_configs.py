"""Which configs exist and what they may hold."""

import pytest

from kohort.broker.config_values import ConfigValues, check_topic_configs
from kohort.broker.configs import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigSource
from kohort.model.errors import ErrorCode, RefusedError
from kohort.security.listeners import split_list


@pytest.mark.parametrize("key", [*TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values()], ids=lambda key: key.name)
def test_every_default_is_a_legal_value(key: object) -> None:
    from kohort.broker.configs import ConfigKey

    assert isinstance(key, ConfigKey)
    assert key.check(key.default) is None


def test_every_synonym_of_a_topic_config_is_a_broker_config_with_its_default() -> None:
    for key in TOPIC_CONFIGS.values():
        if key.synonym:
            assert BROKER_CONFIGS[key.synonym].default == key.default


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-2"),
        ("retention.ms", "soon"),
        ("segment.bytes", "1048575"),
        ("cleanup.policy", "compress"),
        ("compression.type", "brotli"),
        ("message.timestamp.type", "Never"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("preallocate", "maybe"),
        ("no.such.config", "1"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(RefusedError, match=name) as refused:
        check_topic_configs({name: value})
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_a_null_value_is_refused() -> None:
    with pytest.raises(RefusedError, match="Null value"):
        check_topic_configs({"retention.ms": None})


def test_lists_are_split_at_commas() -> None:
    assert split_list(" compact, delete,") == ["compact", "delete"]
    assert check_topic_configs({"cleanup.policy": "compact,delete"}) == {"cleanup.policy": "compact,delete"}


class FakeCatalog:
    """Only what ConfigValues reads."""

    def __init__(self, **configs: dict[str, str]) -> None:
        self.broker_configs = configs
        self.node_id = 1


def test_a_topic_config_without_a_synonym_has_only_its_default() -> None:
    values = ConfigValues(FakeCatalog(), {})  # type: ignore[arg-type] # reads one property
    assert [v.source for v in values.topic_synonyms({}, "remote.storage.enable")] == [ConfigSource.DEFAULT]
    assert values.flag("auto.create.topics.enable")
