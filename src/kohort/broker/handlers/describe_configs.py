"""DescribeConfigs (32): every config of a topic, a broker or a group, with where its value comes from.

v1: sources and synonyms; v3: types and documentation; v4: flexible.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kohort.broker.config_changes import ConfigResourceType, check_resource
from kohort.broker.config_values import ConfigValue
from kohort.broker.configs import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    ConfigKey,
    ConfigSource,
    ConfigType,
    broker_config_to_alter,
)
from kohort.broker.context import Context, Result
from kohort.broker.group_configs import GROUP_CONFIGS, group_value
from kohort.broker.heavy_work import Steps, WorkSlice
from kohort.log.catalog import CLUSTER_DEFAULT
from kohort.model.errors import ErrorCode, RefusedError
from kohort.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_PRICE = 100


# The configs of topics that override nothing, by the names asked for: alike for thousands of topics.
_Shared = dict[frozenset[str], list[DescribeConfigsResourceResult]]


def handle(broker: "BrokerState", request: DescribeConfigsRequest, _context: Context) -> Result:
    return broker.heavy_work.run(_answer(broker, request))


def _answer(broker: "BrokerState", request: DescribeConfigsRequest) -> Steps[None, DescribeConfigsResponse]:
    """A resource that is asked for the same again is answered once: it may have a hundred configs."""
    response = DescribeConfigsResponse()
    shared: _Shared = {}
    slice_ = WorkSlice()
    asked = {
        (one.resource_type, one.resource_name, frozenset(one.configuration_keys or ())): one
        for one in request.resources
    }
    for resource in asked.values():
        response.results.append(_describe(broker, resource, request, shared))
        if slice_.is_full(_PRICE):
            yield None
    return response


def refuse(request: DescribeConfigsRequest, code: ErrorCode) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_result(resource, RefusedError(code)) for resource in request.resources]
    )


def _result(resource: DescribeConfigsResource, error: RefusedError | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code if error else ErrorCode.NONE,
        error_message=str(error) if error else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _describe(
    broker: "BrokerState", resource: DescribeConfigsResource, request: DescribeConfigsRequest, shared: _Shared
) -> DescribeConfigsResult:
    name = resource.resource_name
    try:
        kind = check_resource(broker, resource.resource_type, name)
    except RefusedError as error:
        return _result(resource, error)
    wanted = frozenset(resource.configuration_keys or ())
    topic = broker.topics.get(name) if kind is ConfigResourceType.TOPIC else None
    result = _result(resource, None)
    if topic is None or topic.configs:
        result.configs = _entries(broker, kind, name, wanted, request)
    elif wanted in shared:
        result.configs = shared[wanted]
    else:
        result.configs = shared[wanted] = _entries(broker, kind, name, wanted, request)
    return result


def _entries(
    broker: "BrokerState",
    kind: ConfigResourceType,
    name: str,
    wanted: frozenset[str],
    request: DescribeConfigsRequest,
) -> list[DescribeConfigsResourceResult]:
    return [
        _entry(key, values, request, read_only=not key.dynamic or key.type is ConfigType.UNKNOWN)
        for key, values in _values(broker, kind, name)
        if not wanted or key.name in wanted
    ]


def _values(
    broker: "BrokerState", kind: ConfigResourceType, name: str
) -> Iterator[tuple[ConfigKey, list[ConfigValue]]]:
    """Every config of a resource with all its values, the one in force first."""
    if kind is ConfigResourceType.TOPIC:
        topic = broker.topics.get(name)
        overrides = topic.configs if topic is not None else {}
        for key in TOPIC_CONFIGS.values():
            yield key, broker.configs.topic_synonyms(overrides, key.name)
    elif kind is ConfigResourceType.GROUP:
        own = broker.catalog.group_configs.get(name, {})
        for key in GROUP_CONFIGS.values():
            yield key, [group_value(broker.configs, own, key.name)]
    elif name == CLUSTER_DEFAULT:
        for config, value in broker.catalog.broker_configs.get(CLUSTER_DEFAULT, {}).items():
            entry = ConfigValue(config, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)
            yield broker_config_to_alter(config), [entry]
    else:
        for key in BROKER_CONFIGS.values():
            yield key, broker.configs.synonyms(key.name)
        for config in broker.configs.unknown():
            yield broker_config_to_alter(config), broker.configs.synonyms(config)
        for config, value in broker.identity().items():
            key = ConfigKey(config, ConfigType.STRING, value, lambda _text: None, dynamic=False)
            yield key, [ConfigValue(config, value, ConfigSource.STATIC_BROKER)]


def _entry(
    key: ConfigKey, values: list[ConfigValue], request: DescribeConfigsRequest, *, read_only: bool
) -> DescribeConfigsResourceResult:
    synonyms = values if request.include_synonyms else []
    is_secret = key.type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)  # an unknown one may be a secret
    return DescribeConfigsResourceResult(
        name=key.name,
        value=None if is_secret else values[0].value,
        read_only=read_only,
        is_sensitive=is_secret,
        config_source=values[0].source,
        synonyms=[
            DescribeConfigsSynonym(
                name=value.name, value=None if is_secret else value.value, source=value.source
            )
            for value in synonyms
        ],
        config_type=key.type,
        documentation=(key.effect or None) if request.include_documentation else None,
    )
