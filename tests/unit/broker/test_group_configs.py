"""Settings of consumer groups: the broker's must fit each other, a group's lie within them."""

import pytest

from kohort.broker.config_values import ConfigValues
from kohort.broker.configs import BROKER_CONFIGS
from kohort.broker.features import Features
from kohort.broker.group_configs import (
    GROUP_CONFIGS,
    check_broker_settings,
    check_group_configs,
)
from kohort.model.errors import ErrorCode, KohortError, RefusedError


class NoCatalog:
    """Nothing was altered."""

    def __init__(self) -> None:
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.node_id = 1


def started_with(**settings: str) -> ConfigValues:
    named = {f"group.{name.replace('_', '.')}": value for name, value in settings.items()}
    assert named.keys() <= BROKER_CONFIGS.keys()
    return ConfigValues(NoCatalog(), named)  # type: ignore[arg-type] # reads one property


def test_the_defaults_fit_each_other() -> None:
    check_broker_settings(started_with())


def test_the_default_of_a_group_is_that_of_its_broker() -> None:
    for key in GROUP_CONFIGS.values():
        assert BROKER_CONFIGS[key.synonym].default == key.default


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"consumer_session_timeout_ms": "44999"}, "group.consumer.min.session.timeout.ms"),
        ({"consumer_session_timeout_ms": "60001"}, "group.consumer.max.session.timeout.ms"),
        ({"consumer_heartbeat_interval_ms": "4999"}, "group.consumer.min.heartbeat.interval.ms"),
        ({"consumer_heartbeat_interval_ms": "15001"}, "group.consumer.max.heartbeat.interval.ms"),
        ({"consumer_max_session_timeout_ms": "44999"}, "group.consumer.max.session.timeout.ms"),
        ({"consumer_max_heartbeat_interval_ms": "4999"}, "group.consumer.max.heartbeat.interval.ms"),
        (
            {"consumer_session_timeout_ms": "5000", "consumer_min_session_timeout_ms": "1"},
            "group.consumer.session.timeout.ms must be greater than group.consumer.heartbeat.interval.ms",
        ),
    ],
)
def test_settings_that_do_not_fit_each_other_are_named(settings: dict[str, str], named: str) -> None:
    with pytest.raises(KohortError, match=named):
        check_broker_settings(started_with(**settings))


def test_a_group_may_have_what_lies_within_the_bounds_of_its_broker() -> None:
    configs = started_with(consumer_min_session_timeout_ms="1000", consumer_min_heartbeat_interval_ms="100")
    check_group_configs(
        configs, {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "100"}
    )
    with pytest.raises(RefusedError, match=r"must be greater than consumer\.heartbeat") as refused:
        check_group_configs(configs, {"consumer.session.timeout.ms": "1000"})
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(("protocols", "enabled"), [("classic", False), ("classic, consumer", True)])
def test_the_consumer_protocol_is_served_where_it_is_named(protocols: str, enabled: bool) -> None:
    configs = started_with(coordinator_rebalance_protocols=protocols)
    assert Features(NoCatalog(), configs).has_consumer_groups is enabled  # type: ignore[arg-type] # as above


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group.consumer.assignors", ""),
        ("group.consumer.assignors", "uniform,sticky"),
        ("group.consumer.migration.policy", "sideways"),
        ("group.consumer.regex.refresh.interval.ms", "9999"),
        ("group.coordinator.rebalance.protocols", "classic,quantum"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(name: str, value: str) -> None:
    assert BROKER_CONFIGS[name].check(value)


def test_the_policy_may_be_written_in_any_case() -> None:
    assert BROKER_CONFIGS["group.consumer.migration.policy"].check("BIDIRECTIONAL") is None
