"""All comparison scripts by name."""

from typing import Final

from tests.interop.scripts import (
    api_versions,
    cluster,
    configs,
    fetch,
    fetch_sessions,
    list_offsets,
    metadata,
    produce,
    sequences,
    topics,
)
from tests.interop.scripts.exchange import Script

SCRIPTS: Final[dict[str, Script]] = {
    "api-versions": api_versions.api_versions,
    "metadata": metadata.metadata,
    "produce-versions": produce.produce_versions,
    "produce-targets": produce.produce_targets,
    "produce-damaged": produce.produce_damaged,
    "produce-limits": produce.produce_limits,
    "producer-ids": sequences.producer_ids,
    "sequences": sequences.sequences,
    "fetch-versions": fetch.fetch_versions,
    "fetch-budgets": fetch.fetch_budgets,
    "fetch-refusals": fetch.fetch_refusals,
    "fetch-waiting": fetch.fetch_waiting,
    "fetch-sessions": fetch_sessions.fetch_sessions,
    "fetch-sessions-by-id": fetch_sessions.fetch_sessions_by_id,
    "list-offsets": list_offsets.list_offsets,
    "create-topics": topics.create_topics,
    "create-refusals": topics.create_refusals,
    "delete-topics": topics.delete_topics,
    "create-partitions": topics.create_partitions,
    "describe-configs": configs.describe_configs,
    "incremental-configs": configs.incremental_configs,
    "replaced-configs": configs.replaced_configs,
    "describe-cluster": cluster.describe_cluster,
    "describe-partitions": cluster.describe_partitions,
    "log-dirs": cluster.log_dirs,
    "reassignments": cluster.reassignments,
    "delete-records": cluster.delete_records,
    "leader-epochs": cluster.leader_epochs,
}
