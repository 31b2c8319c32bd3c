"""Changing configs at run time: what both AlterConfigs APIs do once they know the new values."""

import logging
from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from kohort.broker.config_values import check_topic_configs
from kohort.broker.configs import TOPIC_CONFIGS, ConfigKey, ConfigType, broker_config_to_alter
from kohort.broker.group_configs import check_group_configs, key_of_group
from kohort.log.catalog import CLUSTER_DEFAULT
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.topics import is_legal_name, why_illegal

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

logger = logging.getLogger("kohort.configs")

_MOST_SHOWN = 5


class ConfigResourceType(IntEnum):
    """Codes of the config APIs; the ones we know."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


def check_resource(broker: "BrokerState", kind: int, name: str) -> ConfigResourceType:
    """The type of a resource that exists here, or RefusedError."""
    if kind == ConfigResourceType.TOPIC:
        if not is_legal_name(name):
            raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, why_illegal(name))
        if broker.topics.get(name) is None:
            raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return ConfigResourceType.TOPIC
    if kind == ConfigResourceType.BROKER:
        if name not in (CLUSTER_DEFAULT, str(broker.node_id)):
            raise RefusedError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}",
            )
        return ConfigResourceType.BROKER
    if kind == ConfigResourceType.GROUP:
        if not name:
            raise RefusedError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return ConfigResourceType.GROUP
    raise RefusedError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")


def current(broker: "BrokerState", kind: ConfigResourceType, name: str) -> Mapping[str, str]:
    """What has been set for a resource, without what it inherits."""
    if kind is ConfigResourceType.TOPIC:
        topic = broker.topics.get(name)
        return topic.configs if topic is not None else {}
    if kind is ConfigResourceType.GROUP:
        return broker.catalog.group_configs.get(name, {})
    return broker.catalog.broker_configs.get(name, {})


def key_of(kind: ConfigResourceType, name: str) -> ConfigKey:
    """The declaration of a config that may be altered, or RefusedError."""
    if kind is ConfigResourceType.GROUP:
        return key_of_group(name)
    if kind is ConfigResourceType.TOPIC:
        if name not in TOPIC_CONFIGS:
            raise RefusedError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        return TOPIC_CONFIGS[name]
    key = broker_config_to_alter(name)
    if not key.dynamic:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: Set({name})")
    return key


def require_list(key: ConfigKey) -> None:
    """Appending and subtracting make sense for lists alone."""
    if key.type is not ConfigType.LIST:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG,
            f"Can't APPEND or SUBTRACT to key {key.name} because its type is not LIST.",
        )


async def replace(
    broker: "BrokerState",
    kind: ConfigResourceType,
    name: str,
    configs: Mapping[str, str],
    *,
    validate_only: bool,
) -> None:
    """Check the whole new set of a resource and put it in force."""
    if kind is ConfigResourceType.TOPIC:
        checked = check_topic_configs(configs)
        topic = broker.topics.get(name)
        if topic is not None and not validate_only:
            await broker.topics.set_configs(topic, checked)
        return
    if kind is ConfigResourceType.GROUP:
        check_group_configs(broker.configs, configs)
        if not validate_only:
            await broker.catalog.set_group_configs(name, configs)
        return
    unknown = []
    for config, value in configs.items():
        key = key_of(kind, config)
        if wrong := key.check(value):
            text = f"Invalid value {value} for configuration {config}: {wrong}"
            raise RefusedError(ErrorCode.INVALID_REQUEST, text)  # of a topic: INVALID_CONFIG (KAFKA-13609)
        if key.type is ConfigType.UNKNOWN and current(broker, kind, name).get(config) != value:
            unknown.append(config)
    if not validate_only:
        await broker.catalog.set_broker_configs(name, configs)
        if unknown:
            shown = ", ".join(unknown[:_MOST_SHOWN]) + (" …" if len(unknown) > _MOST_SHOWN else "")
            logger.warning("altered broker settings that are not known and have no effect: %s", shown)
