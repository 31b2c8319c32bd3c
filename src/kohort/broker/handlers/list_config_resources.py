"""ListConfigResources (74): which resources can have configs of their own.

v0: only those of client metrics, of which there are none; v1: by type.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kohort.broker.config_changes import ConfigResourceType
from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_FIRST_VERSION_WITH_TYPES = 1
_BROKER_LOGGER, _CLIENT_METRICS = 8, 16
_SERVED = (
    ConfigResourceType.TOPIC,
    ConfigResourceType.BROKER,
    _BROKER_LOGGER,
    _CLIENT_METRICS,
    ConfigResourceType.GROUP,
)


def handle(
    broker: "BrokerState", request: ListConfigResourcesRequest, context: Context
) -> ListConfigResourcesResponse:
    if context.version < _FIRST_VERSION_WITH_TYPES:
        return ListConfigResourcesResponse()
    wanted = dict.fromkeys(request.resource_types or _SERVED)
    if any(kind not in _SERVED for kind in wanted):
        return refuse(request, ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_type=kind, resource_name=name)
            for kind in wanted
            for name in _names(broker, kind)
        ]
    )


def refuse(_request: ListConfigResourcesRequest, code: ErrorCode) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=code)


def _names(broker: "BrokerState", kind: int) -> Iterator[str]:
    if kind == ConfigResourceType.TOPIC:
        yield from (topic.name for topic in broker.topics)
    elif kind == ConfigResourceType.GROUP:
        yield from sorted(broker.catalog.group_configs)
    elif kind != _CLIENT_METRICS:
        yield str(broker.node_id)
