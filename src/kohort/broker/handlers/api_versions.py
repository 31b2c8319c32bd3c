"""ApiVersions (18): what this broker serves, computed from the registry.

v0: the list; v1: throttle time; v3: flexible, client software name, features; v4: features may start at 0.
The reply keeps the old header in every version, since the client cannot know yet what we speak.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.handlers import SERVED
from kohort.model.errors import ErrorCode
from kohort.wire.apis import ApiKey
from kohort.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_FIRST_VERSION_WITH_FEATURES_FROM_0 = 4  # older Java clients cannot read them
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


@cache
def advertised() -> list[ApiVersion]:
    """One entry for each served API, sorted by key."""
    return [
        ApiVersion(
            api_key=api.key,
            min_version=api.oldest if api.advertised_from is None else api.advertised_from,
            max_version=api.newest,
        )
        for api in sorted(SERVED)
    ]


def handle(broker: "BrokerState", request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    if context.version >= 3 and not (
        _SOFTWARE.match(request.client_software_name) and _SOFTWARE.match(request.client_software_version)
    ):
        return refuse(request, ErrorCode.INVALID_REQUEST)
    response = ApiVersionsResponse(api_keys=advertised())
    features = broker.features
    if features.supported:
        response.finalized_features_epoch = features.epoch
        response.finalized_features = [
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name in features.supported
            if (level := features.level(name))  # 0 is said by leaving it out
        ]
        if context.version >= _FIRST_VERSION_WITH_FEATURES_FROM_0:
            response.supported_features = [
                SupportedFeatureKey(name=name, min_version=levels[0], max_version=levels[-1])
                for name, levels in features.supported.items()
            ]
    return response


def refuse(_request: ApiVersionsRequest, code: ErrorCode) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=code)


def unsupported_version() -> ApiVersionsResponse:
    """The answer to a version we do not know; sent in v0, and it names only ApiVersions itself."""
    own = next(entry for entry in advertised() if entry.api_key == ApiKey.API_VERSIONS)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
