"""``Admin``: the calls of ``AsyncAdmin`` for programs without an event loop."""

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from kohort.client.admin.async_admin import AsyncAdmin
from kohort.client.admin.results import (
    ClusterInfo,
    CommittedOffset,
    Config,
    CreatedTopic,
    GroupInfo,
    ListedGroup,
    ListedOffset,
    LogDir,
    NewTopic,
    Resource,
)
from kohort.client.errors import BrokerError, ClientClosedError
from kohort.client.loop_thread import LoopThread, OwnerProcess
from kohort.client.metadata import Node, TopicInfo
from kohort.client.partitions import AnyPartition, PartitionKey
from kohort.client.security.settings import SecurityOptions
from kohort.client.settings import DEFAULTS, ClientOptions
from kohort.model.ids import GroupId, Offset, TopicName
from kohort.model.topics import TopicPartition

T = TypeVar("T")


class Admin:
    """``with Admin("host:9092") as admin``: administration, call by call. Any number of threads may use it.

    Each call is described at the one of the same name of :class:`AsyncAdmin`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        options: ClientOptions = DEFAULTS,
        **security: Unpack[SecurityOptions],
    ) -> None:
        self._admin = AsyncAdmin(bootstrap_servers, options, **security)
        self._loop: LoopThread | None = None
        self._owner_process = OwnerProcess("admin client")

    def __repr__(self) -> str:
        return repr(self._admin).replace("AsyncAdmin", "Admin", 1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Connect. Raises NoBrokerError at once if no broker answers. ``with`` does this."""
        if self._loop is not None:
            return
        self._owner_process = OwnerProcess("admin client")
        self._loop = LoopThread("kohort admin")
        try:
            self.run(lambda admin: admin.__aenter__())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections; calls that still wait in other threads fail. Does nothing after a fork."""
        loop, self._loop = self._loop, None
        if loop is not None and not self._owner_process.is_another:
            loop.do(self._admin.cluster.close)
            loop.stop()

    def run(self, work: Callable[[AsyncAdmin], Coroutine[Any, Any, T]]) -> T:
        """The result of ``work``, which may make several calls of the ``AsyncAdmin`` inside at a time."""
        self._owner_process.check()
        if self._loop is None:
            raise ClientClosedError("the admin client is not running", hint="use it inside `with`")
        begun = self._loop.submit(work(self._admin))
        try:
            return begun.result()
        except CancelledError:
            raise ClientClosedError("the admin client was closed meanwhile") from None
        except BaseException:
            begun.cancel()  # an interrupt: no thread waits for it any more
            raise

    # The cluster

    def describe_cluster(self) -> ClusterInfo:
        return self.run(lambda admin: admin.describe_cluster())

    def describe_log_dirs(self, partitions: Collection[AnyPartition] | None = None) -> list[LogDir]:
        """The directories of all brokers with the size of these partitions, or of all."""
        return self.run(lambda admin: admin.describe_log_dirs(partitions))

    # Topics

    def list_topics(self) -> list[TopicInfo]:
        """All topics the caller may see, internal ones included, by name."""
        return self.run(lambda admin: admin.list_topics())

    def describe_topics(self, names: Collection[str]) -> dict[TopicName, TopicInfo | BrokerError]:
        return self.run(lambda admin: admin.describe_topics(names))

    def describe_topic(self, name: str) -> TopicInfo:
        """One topic; raises UnknownTopicError."""
        return self.run(lambda admin: admin.describe_topic(name))

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[TopicName, CreatedTopic | BrokerError]:
        return self.run(lambda admin: admin.create_topics(topics, validate_only=validate_only))

    def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> CreatedTopic:
        """Create one topic, or raise the broker's refusal."""
        return self.run(lambda admin: admin.create_topic(topic, validate_only=validate_only))

    def delete_topics(self, names: Collection[str]) -> dict[TopicName, BrokerError | None]:
        return self.run(lambda admin: admin.delete_topics(names))

    def create_partitions(
        self, totals: Mapping[str, int], *, validate_only: bool = False
    ) -> dict[TopicName, BrokerError | None]:
        """Let topics grow to these numbers of partitions."""
        return self.run(lambda admin: admin.create_partitions(totals, validate_only=validate_only))

    def delete_records(
        self, before: Mapping[PartitionKey, int]
    ) -> dict[TopicPartition, Offset | BrokerError]:
        """Drop what is before these offsets (-1: everything there is); the new first offsets."""
        return self.run(lambda admin: admin.delete_records(before))

    def list_offsets(
        self, wanted: Mapping[PartitionKey, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset | BrokerError]:
        """Where ``OffsetSpec.EARLIEST``, ``LATEST`` or a timestamp lies in each partition."""
        return self.run(lambda admin: admin.list_offsets(wanted, read_committed=read_committed))

    # Configs

    def describe_configs(
        self, resources: Collection[Resource]
    ) -> dict[Resource, dict[str, Config] | BrokerError]:
        return self.run(lambda admin: admin.describe_configs(resources))

    def alter_configs(
        self, changes: Mapping[Resource, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> dict[Resource, BrokerError | None]:
        """Set these configs and leave all others alone; None goes back to the default."""
        return self.run(lambda admin: admin.alter_configs(changes, validate_only=validate_only))

    # Groups

    def find_coordinator(self, group_id: str) -> Node:
        return self.run(lambda admin: admin.find_coordinator(group_id))

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
        """All groups by id, or those in these states (``Stable`` …) and of these types (``classic`` …)."""
        return self.run(lambda admin: admin.list_groups(states=states, types=types))

    def describe_groups(self, group_ids: Collection[str]) -> dict[GroupId, GroupInfo | BrokerError]:
        return self.run(lambda admin: admin.describe_groups(group_ids))

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Collection[AnyPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, CommittedOffset]:
        """What a group has committed, for these partitions or for all; nothing for one without a commit."""
        return self.run(
            lambda admin: admin.list_group_offsets(group_id, partitions, require_stable=require_stable)
        )

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[PartitionKey, CommittedOffset | int]
    ) -> dict[TopicPartition, BrokerError | None]:
        """Commit for a group that has no members; a number is the next offset to read."""
        return self.run(lambda admin: admin.alter_group_offsets(group_id, offsets))

    def delete_groups(self, group_ids: Collection[str]) -> dict[GroupId, BrokerError | None]:
        return self.run(lambda admin: admin.delete_groups(group_ids))

    def delete_group_offsets(
        self, group_id: str, partitions: Collection[AnyPartition]
    ) -> dict[TopicPartition, BrokerError | None]:
        return self.run(lambda admin: admin.delete_group_offsets(group_id, partitions))
