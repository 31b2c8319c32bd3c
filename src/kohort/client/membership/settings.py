"""What a member is told when it is made; fixed while it lives."""

from dataclasses import dataclass

from kohort.client.membership.errors import MembershipSettingsError
from kohort.model.ids import GroupId, InstanceId

MAX_INT32 = 2_147_483_647
JOIN_GROUP_TIMEOUT_LAPSE_MS = 5_000  # how much longer than the rebalance a client waits for JoinGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipSettings:
    """Kafka's settings of the same names, with Kafka's defaults (consumer-client 9)."""

    group_id: GroupId
    instance_id: InstanceId | None = None  # group.instance.id: a static member
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000  # also the rebalance timeout
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    client_rack: str = ""
    exclude_internal_topics: bool = True
    leave_group_on_close: bool = True  # internal.leave.group.on.close

    def __post_init__(self) -> None:
        if not self.group_id:
            raise MembershipSettingsError(
                "group.id must not be empty", hint="name the group, or use assign()"
            )
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise MembershipSettingsError(
                f"heartbeat.interval.ms ({self.heartbeat_interval_ms}) must be less than "
                f"session.timeout.ms ({self.session_timeout_ms})",
                hint="a third of it or less leaves room for two lost heartbeats",
            )

    @property
    def join_timeout_ms(self) -> int:
        """How long JoinGroup may take: the broker holds it while it waits for the other members."""
        lapsed = self.max_poll_interval_ms + JOIN_GROUP_TIMEOUT_LAPSE_MS
        return max(self.request_timeout_ms, lapsed if lapsed <= MAX_INT32 else self.max_poll_interval_ms)
