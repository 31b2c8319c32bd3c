"""The configs of groups: which exist, what they may hold, and what the broker's settings make of them.

``consumer.session.timeout.ms`` of a group lies between two settings of the broker; those settings, and the
value for groups that have none of their own, must fit each other when the broker starts (modern-groups 16).
"""

from collections.abc import Callable, Mapping

from kohort.broker.config_values import ConfigValue, ConfigValues
from kohort.broker.configs import ConfigKey, ConfigSource, ConfigType, number_between
from kohort.model.errors import ErrorCode, KohortError, RefusedError

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
_MOST = 2**31 - 1


GROUP_CONFIGS: dict[str, ConfigKey] = {
    name: ConfigKey(name, ConfigType.INT, default, number_between(int, 1, _MOST), synonym=f"group.{name}")
    for name, default in ((SESSION_TIMEOUT, "45000"), (HEARTBEAT_INTERVAL, "5000"))
}


def group_value(configs: ConfigValues, own: Mapping[str, str], name: str) -> ConfigValue:
    """The value that a config of a group has."""
    if name in own:
        return ConfigValue(name, own[name], ConfigSource.GROUP)
    return ConfigValue(name, configs.text(GROUP_CONFIGS[name].synonym), ConfigSource.DEFAULT)


def check_group_configs(configs: ConfigValues, own: Mapping[str, str]) -> None:
    """RefusedError(INVALID_CONFIG) that names the first config that a group must not have."""
    for name, value in own.items():
        if wrong := key_of_group(name).check(value):
            raise RefusedError(
                ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {name}: {wrong}"
            )

    def value_of(name: str) -> int:
        return int(group_value(configs, own, name).value)

    if wrong := _out_of_bounds(configs.number, value_of, prefix=""):
        raise RefusedError(ErrorCode.INVALID_CONFIG, wrong)


def key_of_group(name: str) -> ConfigKey:
    """The declaration of a config of groups, or RefusedError."""
    key = GROUP_CONFIGS.get(name)
    if key is None:
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
    return key


def check_broker_settings(configs: ConfigValues) -> None:
    """The settings about consumer groups fit each other; KohortError names two that do not."""
    for name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL):
        low, high = _bounds(name)
        if configs.number(low) > configs.number(high):
            raise KohortError(f"{high} must be greater than or equal to {low}")
    wrong = _out_of_bounds(configs.number, lambda name: configs.number(f"group.{name}"), prefix="group.")
    if wrong:
        raise KohortError(wrong)


def _out_of_bounds(bound: Callable[[str], int], value: Callable[[str], int], prefix: str) -> str | None:
    for name in (HEARTBEAT_INTERVAL, SESSION_TIMEOUT):
        low, high = _bounds(name)
        if value(name) < bound(low):
            return f"{prefix}{name} must be greater than or equal to {low}"
        if value(name) > bound(high):
            return f"{prefix}{name} must be less than or equal to {high}"
    if value(SESSION_TIMEOUT) <= value(HEARTBEAT_INTERVAL):
        return f"{prefix}{SESSION_TIMEOUT} must be greater than {prefix}{HEARTBEAT_INTERVAL}"
    return None


def _bounds(name: str) -> tuple[str, str]:
    what = name.removeprefix("consumer.")
    return f"group.consumer.min.{what}", f"group.consumer.max.{what}"
