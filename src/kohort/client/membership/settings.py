"""The settings of a member: the part of a consumer's settings that the group protocol needs."""

from dataclasses import dataclass

from kohort.client.settings import SettingError, check_choice
from kohort.model.ids import GroupId

MAX_INT32 = 2_147_483_647
JOIN_GROUP_TIMEOUT_LAPSE_MS = 5_000  # how much longer than the rebalance a client waits for JoinGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """Kafka's settings of the same names, with Kafka's defaults (consumer-client 9)."""

    group_id: str | None = None
    group_instance_id: str | None = None  # a static member
    group_protocol: str = "classic"  # or "consumer" (KIP-848)
    group_remote_assignor: str | None = None  # of the broker; only with group_protocol "consumer"
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000  # also the rebalance timeout
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    enable_auto_commit: bool | None = None  # None: with a group yes, without one no
    auto_commit_interval_ms: int = 5_000
    client_rack: str = ""
    exclude_internal_topics: bool = True
    internal_leave_group_on_close: bool = True

    def __post_init__(self) -> None:
        if self.group_id == "":
            raise SettingError("group_id must not be empty", hint="name the group, or leave it out")
        check_choice("group_protocol", self.group_protocol, ("classic", "consumer"))
        if self.group_remote_assignor is not None and not self.uses_consumer_protocol:
            raise SettingError(
                "group_remote_assignor needs group_protocol='consumer'",
                hint="in the classic protocol partition_assignment_strategy decides",
            )
        if self.uses_consumer_protocol:
            return  # the broker decides about sessions and heartbeats
        if self.group_id is not None and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise SettingError(
                f"heartbeat.interval.ms ({self.heartbeat_interval_ms}) must be less than "
                f"session.timeout.ms ({self.session_timeout_ms})",
                hint="a third of it or less leaves room for two lost heartbeats",
            )

    @property
    def group(self) -> GroupId:
        """The group of a member, which always has one."""
        assert self.group_id is not None
        return GroupId(self.group_id)

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.group_protocol == "consumer"

    @property
    def auto_commits(self) -> bool:
        return self.group_id is not None if self.enable_auto_commit is None else self.enable_auto_commit

    @property
    def join_timeout_ms(self) -> int:
        """How long JoinGroup may take: the broker holds it while it waits for the other members."""
        lapsed = self.max_poll_interval_ms + JOIN_GROUP_TIMEOUT_LAPSE_MS
        return max(self.request_timeout_ms, lapsed if lapsed <= MAX_INT32 else self.max_poll_interval_ms)
