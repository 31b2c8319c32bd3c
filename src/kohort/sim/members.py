"""Members of simulated groups: what they send, and what they remember."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import pack
from typing import TypedDict

from kohort.groups.commands import NO_GENERATION, NO_MEMBER, Protocol
from kohort.model.ids import Generation, InstanceId, MemberId, TopicId


def subscription(*topics: str) -> bytes:
    """Consumer metadata, version 0, that names ``topics``."""
    names = b"".join(pack(">h", len(topic.encode())) + topic.encode() for topic in topics)
    return pack(">hi", 0, len(topics)) + names + pack(">i", -1)


class JoinOptions(TypedDict, total=False):
    """What a JoinGroup of a scenario may say; what is left out stays as in the member's last one."""

    group: str
    member_id: str  # "" asks for a new one; left out: the one the member has
    version: int
    session_timeout: int
    rebalance_timeout: int
    protocol_type: str
    protocols: Sequence[str | tuple[str, bytes]]  # a bare name comes with the member's subscription
    topics: Sequence[str]  # what the subscription names
    instance: str | None
    client_id: str
    client_host: str
    reason: str | None
    changed: bool  # metadata differs from the last join


class SenderFields(TypedDict, total=False):
    """How a request names its sender, where that differs from what the member knows of itself."""

    group: str
    generation: int
    member_id: str
    instance: str | None


class SyncOptions(SenderFields, total=False):
    """What a SyncGroup of a scenario may say."""

    protocol_type: str | None
    protocol_name: str | None
    version: int


class CommitOptions(SenderFields, total=False):
    """What an OffsetCommit of a scenario may say."""

    version: int
    retention: int
    metadata: str | None
    leader_epoch: int
    topic_id: TopicId


@dataclass(slots=True)
class SimulatedMember:
    """A client in a scenario, known by a short name whatever its member id is."""

    name: str
    member_id: MemberId = NO_MEMBER
    generation: Generation = NO_GENERATION
    instance_id: InstanceId | None = None
    protocol_type: str = "consumer"
    protocol_names: Sequence[str | tuple[str, bytes]] = ("range",)
    topics: Sequence[str] = ("t",)
    session_timeout: int = 10_000
    rebalance_timeout: int = 30_000
    version: int = 9
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    changes: int = 0
    protocols: tuple[Protocol, ...] = field(default=())

    def remember(self, options: JoinOptions) -> None:
        """Take over what a join says, for this one and the following."""
        self.version = options.get("version", self.version)
        self.session_timeout = options.get("session_timeout", self.session_timeout)
        self.rebalance_timeout = options.get("rebalance_timeout", self.rebalance_timeout)
        self.protocol_type = options.get("protocol_type", self.protocol_type)
        self.protocol_names = options.get("protocols", self.protocol_names)
        self.topics = options.get("topics", self.topics)
        self.client_id = options.get("client_id", self.client_id or self.name)
        self.client_host = options.get("client_host", self.client_host)
        if "member_id" in options:
            self.member_id = MemberId(options["member_id"])
        if "instance" in options:
            instance = options["instance"]
            self.instance_id = None if instance is None else InstanceId(instance)
        self.changes += bool(options.get("changed"))
        self.protocols = tuple(self._protocol(each) for each in self.protocol_names)

    def _protocol(self, given: str | tuple[str, bytes]) -> Protocol:
        if isinstance(given, tuple):
            return Protocol(*given)
        # What follows the topics and the user data belongs to newer versions and is not read.
        return Protocol(given, subscription(*self.topics) + b"\x00" * self.changes)
