"""The settings of a consumer: Kafka's names with underscores, Kafka's defaults, checked when it is made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import count
from typing import Any

from kohort.assign.registry import AssignorChoice
from kohort.client.addresses import parse_bootstrap
from kohort.client.fetching.chunk import Deserializer, Reading
from kohort.client.fetching.positions import ResetPolicy
from kohort.client.security.entry import client_security
from kohort.client.security.names import is_security_name, security_arguments
from kohort.client.security.settings import SecurityOptions, SecuritySettings
from kohort.client.settings import (
    ClientOptions,
    SettingError,
    bootstrap_text,
    check_choice,
    check_kinds,
    check_names,
)
from kohort.model.ids import GroupId

_numbers = count(1)
MAX_INT32 = 2_147_483_647
JOIN_GROUP_TIMEOUT_LAPSE_MS = 5_000  # how much longer than the rebalance a client waits for JoinGroup
_ISOLATION = ("read_uncommitted", "read_committed")
_LONGEST_INSTANCE_ID = 249


LEFT_OUT = {
    "reconnect_backoff_ms": "retry_backoff_ms paces new connections, too",
    "reconnect_backoff_max_ms": "retry_backoff_max_ms paces new connections, too",
    "socket_connection_setup_timeout_max_ms": "socket_connection_setup_timeout_ms does not grow",
    "connections_max_idle_ms": "connections stay open; the broker's setting of this name ends idle ones",
    "send_buffer_bytes": "the operating system sizes the buffers of sockets",
    "receive_buffer_bytes": "the operating system sizes the buffers of sockets",
    "interceptor_classes": "pass objects: interceptors",
    "internal_throw_on_fetch_stable_offset_unsupported": "older brokers are asked for what they can tell",
}
"""Settings of Kafka's consumer that do not exist here, and what to do instead."""

_ELSEWHERE = {
    "api_version": "versions are agreed upon with each broker",
    "consumer_timeout_ms": "poll(timeout_ms) returns {} when the time is up",
    "enable_auto_offset_store": "with enable_auto_commit=False, commit({partition: offset}) what is done",
    "enable_partition_eof": "compare position(partition) with end_offsets([partition])",
    "loop": "an AsyncConsumer works on the loop it is started on",
}
"""The same of other libraries."""


NOT_WITH_CONSUMER_PROTOCOL = {
    "partition_assignment_strategy": "the broker assigns: group_remote_assignor names one of its assignors",
    "session_timeout_ms": "the group's config consumer.session.timeout.ms decides, on the broker",
    "heartbeat_interval_ms": "the group's config consumer.heartbeat.interval.ms decides, on the broker",
}


class ConsumerOptions(SecurityOptions, total=False):
    """What a consumer is made with; ``ConsumerSettings`` has the defaults."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    client_rack: str
    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    partition_assignment_strategy: Sequence[AssignorChoice]
    enable_auto_commit: bool | None
    auto_commit_interval_ms: int
    auto_offset_reset: str
    isolation_level: str
    fetch_min_bytes: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    fetch_max_wait_ms: int
    check_crcs: bool
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    socket_connection_setup_timeout_ms: int
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    allow_auto_create_topics: bool
    exclude_internal_topics: bool
    interceptors: Sequence[object]
    internal_leave_group_on_close: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(SecuritySettings):
    """Those of security and these, with Kafka's defaults; see the table in ``docs/howto/consume.md``."""

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
    bootstrap_servers: str | Sequence[str] = "localhost:9092"
    client_id: str = ""  # "": consumer-<group>-<number>
    max_poll_records: int = 500
    partition_assignment_strategy: Sequence[AssignorChoice] = ("range", "cooperative-sticky")
    auto_offset_reset: str = "latest"
    isolation_level: str = "read_uncommitted"
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 1_048_576
    fetch_max_wait_ms: int = 500
    check_crcs: bool = True
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    socket_connection_setup_timeout_ms: int = 10_000
    default_api_timeout_ms: int = 60_000
    metadata_max_age_ms: int = 300_000
    allow_auto_create_topics: bool = True
    interceptors: Sequence[object] = ()

    def __post_init__(self) -> None:
        self.check_security()
        check_kinds(self)
        self._check_group()
        parse_bootstrap(self.bootstrap)
        _check(
            self.group_id is not None or not self.enable_auto_commit,
            "enable_auto_commit needs a group_id",
            "offsets are committed to a group",
        )
        _check(self.max_poll_records > 0, "max_poll_records must be at least 1", "the default is 500")
        check_choice("auto_offset_reset", self.auto_offset_reset, [each.name.lower() for each in ResetPolicy])
        check_choice("isolation_level", self.isolation_level, _ISOLATION)
        instance = self.group_instance_id
        _check(instance is None or _is_legal(instance), f"group_instance_id {instance!r} is not legal",
               "1 to 249 of a-z A-Z 0-9 . _ -, and not . or ..")  # fmt: skip
        for each in fields(self):
            value = getattr(self, each.name)
            is_negative = each.name.endswith(("_ms", "_bytes")) and value < 0
            _check(not is_negative, f"{each.name} cannot be {value}", "it must not be negative")

    def _check_group(self) -> None:
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

    @property
    def bootstrap(self) -> str:
        return bootstrap_text(self.bootstrap_servers)

    @property
    def reset_policy(self) -> ResetPolicy:
        return ResetPolicy[self.auto_offset_reset.upper()]

    @property
    def read_committed(self) -> bool:
        return self.isolation_level == "read_committed"

    def reading(self) -> Reading:
        return Reading(
            check_crcs=self.check_crcs,
            read_committed=self.read_committed,
            key_deserializer=self.key_deserializer,
            value_deserializer=self.value_deserializer,
        )

    def client(self) -> ClientOptions:
        name = self.client_id
        if not name:
            which = self.group_instance_id or next(_numbers)
            name = f"consumer-{self.group_id}-{which}" if self.group_id else f"consumer-{which}"
        return ClientOptions(
            client_id=name,
            connect_timeout_ms=self.socket_connection_setup_timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
            api_timeout_ms=self.default_api_timeout_ms,
            retry_backoff_ms=self.retry_backoff_ms,
            retry_backoff_max_ms=self.retry_backoff_max_ms,
            security=client_security(self),
        )


def consumer_settings(given: Mapping[str, Any]) -> ConsumerSettings:
    """Settings from keyword arguments; a name that does not exist is refused with the nearest that does."""
    names = [each.name for each in fields(ConsumerSettings)]
    security = security_arguments(
        {name: given[name] for name in given if is_security_name(name)}, is_text=False
    )
    others = {name: value for name, value in given.items() if not is_security_name(name)}
    check_names("consumer", others, names, LEFT_OUT | _ELSEWHERE)
    if given.get("group_protocol") == "consumer":
        for name, reason in NOT_WITH_CONSUMER_PROTOCOL.items():
            _check(name not in given, f"{name} does not go with group_protocol='consumer'", reason)
    return ConsumerSettings(**others, **security)


def _check(holds: bool, message: str, hint: str) -> None:
    if not holds:
        raise SettingError(message, hint=hint)


def _is_legal(instance: str) -> bool:
    is_plain = all(each.isascii() and (each.isalnum() or each in "._-") for each in instance)
    fits = 1 <= len(instance) <= _LONGEST_INSTANCE_ID and instance not in (".", "..")
    return fits and is_plain
