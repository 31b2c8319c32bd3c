"""What an operator may set about groups; fixed while a shard lives."""

from dataclasses import dataclass
from enum import Enum

NEW_MEMBER_JOIN_TIMEOUT_MS = (
    300_000  # how long a member that was just added may wait for its first generation
)


class MigrationPolicy(Enum):
    """``group.consumer.migration.policy``: which groups with members may change their kind."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The settings the core reads; names and defaults are Kafka's (classic-groups 9,
    modern-groups 16).
    """

    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms, inclusive
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms, inclusive
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    max_size: int = 2_147_483_647  # group.max.size
    max_bytes: int = 2**63 - 1  # of the memory one group's members and handed-out ids may take
    offset_metadata_max_bytes: int = 4_096  # offset.metadata.max.bytes, counted in UTF-16 units
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    max_batch_bytes: int = 1_048_588  # max.message.bytes of __consumer_offsets: what does not fit is refused

    consumer_session_timeout_ms: int = 45_000  # group.consumer.session.timeout.ms
    consumer_heartbeat_interval_ms: int = 5_000  # group.consumer.heartbeat.interval.ms
    consumer_max_size: int = 2_147_483_647  # group.consumer.max.size
    consumer_assignors: tuple[str, ...] = (
        "uniform",
        "range",
    )  # group.consumer.assignors; the first is default
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    # Partitions and subscriptions of a consumer group up to which its target is computed at once, not by the
    # shell: some milliseconds.
    consumer_target_at_once: int = 5_000
    consumer_regex_refresh_interval_ms: int = 600_000  # group.consumer.regex.refresh.interval.ms
