"""The features of the cluster and the levels that administrators give them (KIP-584): ``group.version``."""

from kohort.broker.config_values import ConfigValues
from kohort.log.catalog import FEATURES, Catalog
from kohort.security.listeners import split_list

GROUP_VERSION = "group.version"
"""1: groups of the consumer protocol (KIP-848) are served; 0: only classic ones are."""
_EPOCH = "epoch"  # of the levels, beside them


class Features:
    """What this broker supports, and the level that is in force in the cluster.

    A broker that is started for classic groups only supports no feature.
    """

    def __init__(self, catalog: Catalog, configs: ConfigValues) -> None:
        self._catalog = catalog
        protocols = split_list(configs.text("group.coordinator.rebalance.protocols"))
        self.supported: dict[str, range] = {GROUP_VERSION: range(2)} if "consumer" in protocols else {}

    @property
    def has_consumer_groups(self) -> bool:
        return self.level(GROUP_VERSION) > 0

    @property
    def epoch(self) -> int:
        """Grows with each change of a level: clients take no older news for newer ones."""
        return int(self._catalog.broker_configs.get(FEATURES, {}).get(_EPOCH, 0))

    def level(self, name: str) -> int:
        """The level in force: the highest one unless another was set; 0 if the feature is not supported."""
        supported = self.supported.get(name)
        if supported is None:
            return 0
        own = self._catalog.broker_configs.get(FEATURES)
        return supported[-1] if own is None else int(own.get(name, supported[-1]))

    async def set(self, name: str, level: int) -> None:
        """Put a supported level in force, for good."""
        own = self._catalog.broker_configs.get(FEATURES, {})
        changed = {**own, name: str(level), _EPOCH: str(self.epoch + 1)}
        await self._catalog.set_broker_configs(FEATURES, changed)
