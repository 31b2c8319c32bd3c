"""IncrementalAlterConfigs (44): set, delete, append to or subtract from single configs. v1: flexible."""

from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING

from kohort.broker.config_changes import (
    ConfigResourceType,
    check_resource,
    current,
    key_of,
    replace,
    require_list,
)
from kohort.broker.context import Context
from kohort.broker.heavy_work import WorkSlice
from kohort.broker.notices import warn_internal
from kohort.model.errors import ErrorCode, RefusedError
from kohort.security.listeners import split_list
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_RESOURCE_PRICE, _CONFIG_PRICE = 50, 10


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


async def handle(
    broker: "BrokerState", request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    asked = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    results = []
    slice_ = WorkSlice()
    for resource in request.resources:
        await slice_.spend(_RESOURCE_PRICE + _CONFIG_PRICE * len(resource.configs))
        if resource.resource_type == ConfigResourceType.TOPIC and not request.validate_only:
            warn_internal(context, resource.resource_name, "alters configs of")
        try:
            if asked[resource.resource_type, resource.resource_name] > 1:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            await _alter(broker, resource, validate_only=request.validate_only)
            results.append(_result(resource, None))
        except RefusedError as error:
            results.append(_result(resource, error))
    return IncrementalAlterConfigsResponse(responses=results)


def refuse(request: IncrementalAlterConfigsRequest, code: ErrorCode) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[_result(resource, RefusedError(code)) for resource in request.resources]
    )


def _result(resource: AlterConfigsResource, error: RefusedError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code if error else ErrorCode.NONE,
        error_message=str(error) if error else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


async def _alter(broker: "BrokerState", resource: AlterConfigsResource, *, validate_only: bool) -> None:
    kind = check_resource(broker, resource.resource_type, resource.resource_name)
    names = Counter(config.name for config in resource.configs)
    if any(count > 1 for count in names.values()):
        raise RefusedError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    configs = dict(current(broker, kind, resource.resource_name))
    for config in resource.configs:
        _change(broker, kind, configs, config)
    await replace(broker, kind, resource.resource_name, configs, validate_only=validate_only)


def _change(
    broker: "BrokerState", kind: ConfigResourceType, configs: dict[str, str], config: AlterableConfig
) -> None:
    try:
        operation = AlterOperation(config.config_operation)
    except ValueError:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, f"Unknown operation {config.config_operation}"
        ) from None
    if operation is AlterOperation.DELETE:
        configs.pop(config.name, None)  # also an unknown one: it may be left over
        return
    key = key_of(kind, config.name)
    if config.value is None:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"Null value not supported for: {config.name}")
    if operation is AlterOperation.SET:
        configs[key.name] = config.value
        return
    require_list(key)
    if kind is ConfigResourceType.TOPIC:
        inherited = broker.configs.topic_text(configs, key.name)
    else:
        inherited = configs.get(key.name, broker.configs.text(key.name))
    items = split_list(inherited)
    given = split_list(config.value)
    if operation is AlterOperation.APPEND:
        known = set(items)
        items += [item for item in given if item not in known]
    else:
        dropped = set(given)
        items = [item for item in items if item not in dropped]
    configs[key.name] = ",".join(items)
