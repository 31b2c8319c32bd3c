"""What exists: topics and their ids, configs, leader epochs, producer ids, users, ACLs.

A Protocol, so that several nodes can share a catalog one day. Reads come from memory and never wait; a change
is awaited and is durable when it returns. The catalog is deterministic: random ids come from the caller, who
makes them here.
"""

import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kohort.model.ids import LeaderEpoch, NodeId, ProducerId, TopicId, TopicName
from kohort.model.topics import TopicPartition, show_topic_id
from kohort.security.acls import Acl
from kohort.security.scram import ScramCredential, ScramMechanism

CLUSTER_DEFAULT = ""
"""The name under which ``broker_configs`` keeps what holds for every broker; others go by node id."""


UserKey = tuple[str, ScramMechanism]
"""A user has one credential for each mechanism."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. A change makes a new value, so that a stale one is recognisable after any ``await``."""

    name: TopicName
    topic_id: TopicId
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)  # only what was set for this topic


class Catalog(Protocol):
    """The catalog of a cluster. Changes raise ``RefusedError``; KAFKA_STORAGE_ERROR changes nothing."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def node_id(self) -> NodeId: ...

    @property
    def topics(self) -> Mapping[TopicName, Topic]: ...

    @property
    def broker_configs(self) -> Mapping[str, Mapping[str, str]]:
        """Dynamic configs by resource name: a node id as text, or ``CLUSTER_DEFAULT``."""
        ...

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """Dynamic configs by group id; a group need not exist to have some."""
        ...

    @property
    def deleted(self) -> Mapping[TopicId, TopicName]:
        """Topics that are gone but whose files may not be; see ``forget_deleted``."""
        ...

    @property
    def credentials(self) -> Mapping[UserKey, ScramCredential]:
        """What is kept of the passwords of users: not for any output."""
        ...

    @property
    def secret(self) -> bytes:
        """Random bytes that only this cluster knows; empty until they are set."""
        ...

    @property
    def acls(self) -> Collection[Acl]:
        """All ACLs, in the order of their creation."""
        ...

    def topic_by_id(self, topic_id: TopicId) -> Topic | None: ...

    def leader_epoch(self, partition: TopicPartition) -> LeaderEpoch:
        """The epoch in which this node leads ``partition``; it grows with every start and never shrinks.

        A start that follows a crash may have lost records that consumers have seen. Only a new epoch lets
        them find out (OffsetForLeaderEpoch), and a clean start cannot be told apart by them, so every start
        counts. Raises UNKNOWN_TOPIC_OR_PARTITION.
        """
        ...

    async def recover(self) -> None:
        """Make the catalog take changes again after a failure; raises KAFKA_STORAGE_ERROR."""
        ...

    async def create_topic(self, topic: Topic) -> None:
        """Raises TOPIC_ALREADY_EXISTS, or INVALID_TOPIC_EXCEPTION for a name that collides with another."""
        ...

    async def delete_topic(self, name: TopicName) -> Topic:
        """Remove a topic and return what it was; raises UNKNOWN_TOPIC_OR_PARTITION."""
        ...

    async def forget_deleted(self, topic_ids: Iterable[TopicId]) -> None:
        """Tell the catalog that no files of these deleted topics are left."""
        ...

    async def add_partitions(self, name: TopicName, total: int) -> Topic:
        """Raise the number of partitions to ``total``; INVALID_PARTITIONS unless that is more than now."""
        ...

    async def set_topic_configs(self, name: TopicName, configs: Mapping[str, str]) -> Topic:
        """Replace all configs of a topic."""
        ...

    async def set_broker_configs(self, resource: str, configs: Mapping[str, str]) -> None:
        """Replace all dynamic configs of one broker, or of ``CLUSTER_DEFAULT``."""
        ...

    async def set_group_configs(self, group: str, configs: Mapping[str, str]) -> None:
        """Replace all configs of one group."""
        ...

    async def change_credentials(
        self, removed: Iterable[UserKey], stored: Mapping[UserKey, ScramCredential]
    ) -> None:
        """Remove and store credentials in one step."""
        ...

    async def set_secret(self, secret: bytes) -> None: ...

    async def change_acls(self, removed: Iterable[Acl], added: Iterable[Acl]) -> None:
        """Remove and add ACLs in one step."""
        ...

    async def next_producer_id(self) -> ProducerId:
        """A producer id that was never handed out before, whatever happened to the process since."""
        ...


def new_topic_id() -> TopicId:
    """A random (version 4) id; Kafka avoids the ones whose text begins with a dash."""
    while True:
        raw = bytearray(secrets.token_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = TopicId(bytes(raw))
        if not show_topic_id(topic_id).startswith("-"):
            return topic_id


def new_cluster_id() -> str:
    """Random, too, in the text form that ids have in Kafka."""
    return show_topic_id(new_topic_id())
