"""UpdateFeatures (57): raise or lower the level of a feature; all that a request names, or none.

v1: the kind of the change, trying it out; v2: no results by feature. What v0 says about downgrades is not
looked at, as by Kafka: only a newer version can ask for one.
"""

import logging
from typing import TYPE_CHECKING, Final

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState
    from kohort.broker.features import Features

logger = logging.getLogger("kohort.configs")

UPGRADE: Final = 1
SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 2, 3


async def handle(
    broker: "BrokerState", request: UpdateFeaturesRequest, context: Context
) -> UpdateFeaturesResponse:
    features = broker.features
    changes = {each.feature: each for each in request.feature_updates}
    for change in changes.values():
        if wrong := _wrong_with(features, change):
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION,
                error_message=f"Nothing was changed: version {change.max_version_level} of feature "
                f"{change.feature} is refused. {wrong}",
            )
    for name, change in changes.items():
        before, level = features.level(name), change.max_version_level
        if level != before and not request.validate_only:
            await features.set(name, level)
            logger.warning("%s changes feature %s from version %d to %d", context, name, before, level)
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdatableFeatureResult(feature=each.feature, error_message=None)
            for each in request.feature_updates
        ],
    )


def refuse(_request: UpdateFeaturesRequest, code: ErrorCode) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=code, error_message=None)


def _wrong_with(features: "Features", change: FeatureUpdateKey) -> str | None:
    level, kind = change.max_version_level, change.upgrade_type
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"There is no upgrade type {kind}."
    supported = features.supported.get(change.feature)
    if supported is None:
        return "This broker does not support this feature."
    if level not in supported:
        return f"This broker supports versions {supported[0]} to {supported[-1]}."
    now = features.level(change.feature)
    if level < now and kind == UPGRADE:
        return f"It is {now}: a lower one needs the upgrade type for a safe or an unsafe downgrade."
    if level > now and kind != UPGRADE:
        return f"It is {now}: a higher one is no downgrade."
    return None
