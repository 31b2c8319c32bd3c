"""The values configs have now: topic, else this broker, else the cluster, else start-up, else default."""

import logging
from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

from kohort.broker.configs import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigSource, ConfigType, find_broker_config
from kohort.log.catalog import CLUSTER_DEFAULT, Catalog
from kohort.model.errors import ErrorCode, KohortError, RefusedError

logger = logging.getLogger("kohort.configs")


class ConfigValue(NamedTuple):
    """A value under the name it was set by, and where it comes from."""

    name: str
    value: str
    source: ConfigSource


class ConfigValues:
    """Looks values up in the order of precedence; what was looked up is remembered until :meth:`changed`."""

    def __init__(self, catalog: Catalog, at_start: Mapping[str, str]) -> None:
        self._catalog = catalog
        self._at_start = at_start
        self._texts: dict[str, str] = {}

    def changed(self) -> None:
        """Dynamic configs were altered."""
        self._texts.clear()

    def synonyms(self, name: str) -> list[ConfigValue]:
        """Every value a broker config has, the one in force first."""
        altered = self._catalog.broker_configs
        found = [
            ConfigValue(name, configs[name], source)
            for configs, source in (
                (altered.get(str(self._catalog.node_id), {}), ConfigSource.DYNAMIC_BROKER),
                (altered.get(CLUSTER_DEFAULT, {}), ConfigSource.DYNAMIC_DEFAULT_BROKER),
                (self._at_start, ConfigSource.STATIC_BROKER),
            )
            if name in configs
        ]
        if name not in BROKER_CONFIGS:
            return found
        return [*found, ConfigValue(name, BROKER_CONFIGS[name].default, ConfigSource.DEFAULT)]

    def unknown(self) -> list[str]:
        """The broker configs that were altered at run time and are not known here."""
        altered = self._catalog.broker_configs
        of_this = altered.get(str(self._catalog.node_id), {}), altered.get(CLUSTER_DEFAULT, {})
        return [name for name in dict.fromkeys(chain(*of_this)) if name not in BROKER_CONFIGS]

    def topic_synonyms(self, overrides: Mapping[str, str], name: str) -> list[ConfigValue]:
        """Every value a topic config has, the one in force first."""
        key = TOPIC_CONFIGS[name]
        own = [ConfigValue(name, overrides[name], ConfigSource.TOPIC)] if name in overrides else []
        if not key.synonym:
            return [*own, ConfigValue(name, key.default, ConfigSource.DEFAULT)]
        return own + self.synonyms(key.synonym)

    def text(self, name: str) -> str:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = self.synonyms(name)[0].value
        return text

    def number(self, name: str) -> int:
        return int(self.text(name))

    def flag(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def topic_text(self, overrides: Mapping[str, str], name: str) -> str:
        return self.topic_synonyms(overrides, name)[0].value

    def topic_number(self, overrides: Mapping[str, str], name: str) -> int:
        return int(self.topic_text(overrides, name))


def check_topic_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The overrides a topic may carry, or RefusedError(INVALID_CONFIG) that names the first bad one."""
    checked: dict[str, str] = {}
    for name, value in configs.items():
        key = TOPIC_CONFIGS.get(name)
        if key is None:
            raise RefusedError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        if value is None:
            raise RefusedError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}"
            )
        if wrong := key.check(value):
            raise RefusedError(
                ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {name}: {wrong}"
            )
        checked[name] = value
    return checked


def check_start_configs(configs: Mapping[str, str]) -> None:
    """The settings a broker is started with; KohortError names the first whose value does not fit.

    One that is not known here is accepted with a warning, as by Kafka: files with settings are shared between
    versions.
    """
    for name, value in configs.items():
        key = find_broker_config(name)
        if key is None:
            logger.warning("the broker setting %s is not known and has no effect; %s", name, _similar(name))
            continue
        if wrong := key.check(value):
            shown = "as it is" if key.type is ConfigType.PASSWORD else repr(value)
            raise KohortError(f"{name} cannot be {shown}: {wrong}")


def _similar(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, list(BROKER_CONFIGS), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(close)}?" if close else "docs/reference/configs.md lists all of them"
