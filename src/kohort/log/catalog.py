"""What exists: topics and their ids, configs, producer ids, users, ACLs; and which node leads what.

Protocols: one node keeps all this in a file, several share it in a database. Reads come from memory and never
wait; a change is awaited, and is durable and in the view when it returns. A catalog is deterministic: random
ids come from the caller, who makes them here.
"""

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from kohort.cluster.lease import SessionId
from kohort.cluster.view import ClusterSnapshot
from kohort.model.ids import LeaderEpoch, NodeId, ProducerId, TopicId, TopicName
from kohort.model.topics import Topic, TopicPartition, show_topic_id
from kohort.security.acls import Acl
from kohort.security.scram import ScramCredential, ScramMechanism

CLUSTER_DEFAULT = ""
"""The name under which ``broker_configs`` keeps what holds for every broker; others go by node id."""

FEATURES = "features"
"""The name under which ``broker_configs`` keeps the levels of features; no config is altered there."""


UserKey = tuple[str, ScramMechanism]
"""A user has one credential for each mechanism."""


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

    async def create_topic(self, topic: Topic, *, assigned: Sequence[NodeId] = ()) -> None:
        """Raises TOPIC_ALREADY_EXISTS, or INVALID_TOPIC_EXCEPTION for a name that collides with another.

        ``assigned``: the node that is to lead each partition, if a client has chosen them.
        """
        ...

    async def delete_topic(self, name: TopicName) -> Topic:
        """Remove a topic and return what it was; raises UNKNOWN_TOPIC_OR_PARTITION."""
        ...

    async def add_partitions(self, name: TopicName, total: int, *, assigned: Sequence[NodeId] = ()) -> Topic:
        """Raise the number of partitions to ``total``; INVALID_PARTITIONS unless that is more than now.

        ``assigned``: the node that is to lead each new partition, if a client has chosen them.
        """
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


ViewListener = Callable[[ClusterSnapshot, ClusterSnapshot], None]
"""Called on the loop with the view as it was and as it is."""


class ClusterCatalog(Catalog, Protocol):
    """The catalog, the nodes that share it, and who leads what. A node on files is a cluster of one."""

    @property
    def view(self) -> ClusterSnapshot:
        """Topics, nodes and placement as this node knows them; replaced by every change, never edited."""
        ...

    @property
    def session(self) -> SessionId:
        """This life of this node: the leader of what it leads."""
        ...

    def epoch_of_new(self, topic: TopicName) -> LeaderEpoch | None:
        """The epoch at which this node will lead new partitions of a topic; ``None`` if others may lead them.

        Where it is known, logs are opened before their topic is stored: a failure leaves nothing behind.
        """
        ...

    def watch(self, listener: ViewListener) -> None:
        """Have ``listener`` called after each change of the view."""
        ...

    def watch_acls(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called after another node has changed the ACLs."""
        ...

    def may_answer(self) -> bool:
        """Whether what this node has in memory of the partitions it leads may be sent to clients now."""
        ...

    def on_resume(self, listener: Callable[[int], None]) -> None:
        """Have ``listener`` called when answers are allowed again; for how many ms they were not."""
        ...

    def served(self, partitions: Iterable[TopicPartition]) -> None:
        """These are open here, loaded, and answered from now on."""
        ...

    async def leave(self) -> None:
        """Give away what this node leads, and take no more."""
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
