"""AlterConfigs (33): replace all configs of resources; what is not listed goes back to its default.

v2: flexible.
"""

from collections import Counter
from typing import TYPE_CHECKING

from kohort.broker.config_changes import ConfigResourceType, check_resource, key_of, replace
from kohort.broker.context import Context
from kohort.broker.heavy_work import WorkSlice
from kohort.broker.notices import warn_internal
from kohort.model.errors import ErrorCode, RefusedError
from kohort.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_RESOURCE_PRICE, _CONFIG_PRICE = 50, 10


async def handle(
    broker: "BrokerState", request: AlterConfigsRequest, context: Context
) -> AlterConfigsResponse:
    asked = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    results = []
    slice_ = WorkSlice()
    for resource in request.resources:
        await slice_.spend(_RESOURCE_PRICE + _CONFIG_PRICE * len(resource.configs))
        if resource.resource_type == ConfigResourceType.TOPIC and not request.validate_only:
            warn_internal(context, resource.resource_name, "alters configs of")
        if asked[resource.resource_type, resource.resource_name] > 1:
            repeated = RefusedError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            results.append(_result(resource, repeated))
        else:
            results.append(await _alter(broker, resource, validate_only=request.validate_only))
    return AlterConfigsResponse(responses=results)


def refuse(request: AlterConfigsRequest, code: ErrorCode) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[_result(resource, RefusedError(code)) for resource in request.resources]
    )


def _result(resource: AlterConfigsResource, error: RefusedError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code if error else ErrorCode.NONE,
        error_message=str(error) if error else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


async def _alter(
    broker: "BrokerState", resource: AlterConfigsResource, *, validate_only: bool
) -> AlterConfigsResourceResponse:
    try:
        kind = check_resource(broker, resource.resource_type, resource.resource_name)
        configs: dict[str, str] = {}
        for config in resource.configs:
            key_of(kind, config.name)
            if config.value is None:
                raise RefusedError(ErrorCode.INVALID_REQUEST, f"Null value not supported for: {config.name}")
            configs[config.name] = config.value
        await replace(broker, kind, resource.resource_name, configs, validate_only=validate_only)
    except RefusedError as error:
        return _result(resource, error)
    return _result(resource, None)
