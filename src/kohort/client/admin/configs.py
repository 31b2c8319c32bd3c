"""Configs of topics, brokers and groups: calls of ``AsyncAdmin`` and ``Admin``."""

from collections.abc import Collection, Iterable, Mapping

from kohort.client.admin.results import Config, Resource, ResourceType, Source
from kohort.client.admin.topics import controller_takes, outcome
from kohort.client.cluster import ClusterClient, Role, Target
from kohort.client.errors import BrokerError
from kohort.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_SET, _DELETE = 0, 1


def _target(resource: Resource, otherwise: Role) -> Target:
    """A broker's own configs are known to that broker only."""
    of_one_broker = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
    return int(resource.name) if of_one_broker and resource.name else otherwise


def _by_target(resources: Iterable[Resource], otherwise: Role) -> dict[Target, list[Resource]]:
    grouped: dict[Target, list[Resource]] = {}
    for resource in resources:
        grouped.setdefault(_target(resource, otherwise), []).append(resource)
    return grouped


async def describe_configs(
    cluster: ClusterClient, resources: Collection[Resource]
) -> dict[Resource, dict[str, Config] | BrokerError]:
    """All configs of these resources by name; the error of each that cannot be described."""
    described: dict[Resource, dict[str, Config] | BrokerError] = {}
    for target, asked in _by_target(resources, Role.ANY).items():
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
                for kind, name in asked
            ]
        )
        reply = await cluster.ask(target, request, DescribeConfigsResponse)
        for one in reply.results:
            resource = Resource(ResourceType(one.resource_type), one.resource_name)
            what = f"describe the configs of {_show(resource)}"
            described[resource] = (
                BrokerError(one.error_code, what, one.error_message)
                if one.error_code
                else {config.name: _config(config) for config in one.configs}
            )
    return described


def _config(described: DescribeConfigsResourceResult) -> Config:
    return Config(
        name=described.name,
        value=described.value,
        source=Source.of(described.config_source),
        read_only=described.read_only,
        sensitive=described.is_sensitive,
    )


async def alter_configs(
    cluster: ClusterClient,
    changes: Mapping[Resource, Mapping[str, str | None]],
    *,
    validate_only: bool = False,
) -> dict[Resource, BrokerError | None]:
    """Set these configs and leave all others alone; None goes back to the default."""
    altered: dict[Resource, BrokerError | None] = {}
    for target, asked in _by_target(changes, Role.CONTROLLER).items():
        request = IncrementalAlterConfigsRequest(
            resources=[_alteration(resource, changes[resource]) for resource in asked],
            validate_only=validate_only,
        )
        reply = await cluster.ask(target, request, IncrementalAlterConfigsResponse, check=_on_controller)
        for one in reply.responses:
            resource = Resource(ResourceType(one.resource_type), one.resource_name)
            what = f"alter the configs of {_show(resource)}"
            altered[resource] = outcome(one.error_code, what, one.error_message)
    return altered


def _on_controller(reply: IncrementalAlterConfigsResponse) -> None:
    controller_takes(one.error_code for one in reply.responses)


def _alteration(resource: Resource, changes: Mapping[str, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=resource.type,
        resource_name=resource.name,
        configs=[
            AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
            for name, value in changes.items()
        ],
    )


def _show(resource: Resource) -> str:
    kind = resource.type.name.lower().replace("_", " ")
    return f"{kind} {resource.name!r}" if resource.name else f"every {kind}"
