"""``kohort cluster`` and ``kohort apis``: the brokers, and what one of them serves."""

from typing import Annotated

import typer

from kohort.cli.running import OK
from kohort.cli.screen import Column, TextTable, show_bytes, show_facts, show_json, show_table
from kohort.cli.session import AsJson, ClusterOptions, on_cluster, talk
from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import ClusterInfo, LogDir
from kohort.client.cluster import Role
from kohort.client.connection import ClientConnection
from kohort.client.errors import ApiNotServedError, BrokerError
from kohort.codec.schema import Versions
from kohort.model.errors import KohortError
from kohort.wire.apis import APIS

# APIs of Kafka that have no messages here: only their names are known.
_OTHER_NAMES = {
    34: "AlterReplicaLogDirs",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    45: "AlterPartitionReassignments",
    49: "AlterClientQuotas",
    55: "DescribeQuorum",
    64: "UnregisterBroker",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
    88: "StreamsGroupHeartbeat",
    89: "StreamsGroupDescribe",
    90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
}


def cluster(where: ClusterOptions, as_json: bool) -> None:
    """Show the brokers of the cluster, its controller, and their disks."""

    async def command(admin: AsyncAdmin) -> int:
        found = await admin.describe_cluster()
        directories = await _log_dirs(admin)
        if as_json:
            show_json(_cluster_json(found, directories))
        else:
            _show_cluster(found, directories)
        return OK

    talk(where, command)


async def _log_dirs(admin: AsyncAdmin) -> list[LogDir]:
    try:
        return await admin.describe_log_dirs()
    except (ApiNotServedError, BrokerError):
        return []  # not everybody may see them


def _show_cluster(found: ClusterInfo, directories: list[LogDir]) -> None:
    show_facts(
        f"cluster {found.cluster_id or 'without an id'}",
        (("controller", str(found.controller_id)), ("brokers", str(len(found.nodes)))),
    )
    columns = (
        Column("broker", True),
        Column("address"),
        Column("rack", rank=2),
        Column("directory"),
        Column("replicas", True, rank=1),
        Column("size", True),
        Column("free", True),
    )
    rows = []
    for node in found.nodes:
        own = [one for one in directories if one.node_id == node.node_id]
        if not own:
            rows.append((str(node.node_id), str(node.address), node.rack or "-", "-", "-", "-", "-"))
        for one in own:
            size = sum(replica.size for replica in one.replicas)
            rows.append(
                (
                    str(node.node_id),
                    str(node.address),
                    node.rack or "-",
                    one.path,
                    str(len(one.replicas)),
                    show_bytes(size),
                    show_bytes(one.usable_bytes),
                )
            )
    show_table(TextTable(columns, rows), empty="no brokers")


def _cluster_json(found: ClusterInfo, directories: list[LogDir]) -> dict[str, object]:
    return {
        "cluster_id": found.cluster_id,
        "controller_id": found.controller_id,
        "brokers": [
            {
                "node_id": node.node_id,
                "host": node.host,
                "port": node.port,
                "rack": node.rack,
                "log_dirs": [
                    {
                        "path": one.path,
                        "replicas": len(one.replicas),
                        "size": sum(replica.size for replica in one.replicas),
                        "usable_bytes": None if one.usable_bytes < 0 else one.usable_bytes,
                    }
                    for one in directories
                    if one.node_id == node.node_id
                ],
            }
            for node in found.nodes
        ],
    }


@on_cluster
def apis(
    where: ClusterOptions,
    node: Annotated[
        int | None, typer.Option("--node", "-n", help="Which broker; any one if not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show which APIs a broker serves, and in which versions."""

    async def command(admin: AsyncAdmin) -> int:
        there = [one.node_id for one in (await admin.describe_cluster()).nodes]
        if node is not None and node not in there:
            raise KohortError(f"there is no broker {node}", hint=f"there are {', '.join(map(str, there))}")
        connection = await admin.connection_to(Role.ANY if node is None else node)
        if as_json:
            show_json(_apis_json(connection))
        else:
            _show_apis(connection)
        return OK

    talk(where, command)


def _name(key: int) -> str:
    return APIS[key].name if key in APIS else _OTHER_NAMES.get(key, f"API {key}")


def _spoken(key: int, served: Versions) -> Versions | None:
    """What both the broker and Kohort's own client speak."""
    if key not in APIS:
        return None
    ours = APIS[key].versions
    common = Versions(max(ours.first, served.first), min(ours.last, served.last))
    return common if common.first <= common.last else None


def _show_apis(connection: ClientConnection) -> None:
    levels = connection.feature_levels
    features = ", ".join(
        f"{name} {levels.get(name, 0)} of {versions}"
        for name, versions in sorted(connection.features.items())
    )
    facts = [("apis", str(len(connection.api_versions)))]
    if features:
        facts.append(("features", features))
    show_facts(f"broker at {connection.address}", facts)
    rows = []
    for key in sorted(connection.api_versions):
        served = connection.api_versions[key]
        rows.append((str(key), _name(key), str(served), str(_spoken(key, served) or "-")))
    columns = (Column("key", True), Column("api"), Column("served"), Column("used by kohort"))
    show_table(TextTable(columns, rows), empty="it serves nothing")


def _apis_json(connection: ClientConnection) -> dict[str, object]:
    return {
        "address": str(connection.address),
        "apis": [
            {"key": key, "name": _name(key), "min_version": served.first, "max_version": served.last}
            for key, served in sorted(connection.api_versions.items())
        ],
        "features": [
            {
                "name": name,
                "min_version": versions.first,
                "max_version": versions.last,
                "level": connection.feature_levels.get(name, 0),
            }
            for name, versions in sorted(connection.features.items())
        ],
    }
