"""Scenarios of consumer groups: members with short names that send ConsumerGroupHeartbeat.

::

    group = ConsumerScenario(t=4)                       # a topic of four partitions
    assert group.join("a").assignment == {"t": [0, 1, 2, 3]}
    group.join("b")
    group.beat("a")                                      # a has to give up two partitions
"""

import re
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from kohort.assign.server.group import TopicPartitions
from kohort.groups.commands import (
    ConsumerHeartbeat,
    ExpressionsResolved,
    OwnedTopic,
    Request,
    ResolveExpressions,
)
from kohort.groups.consumer.state import ConsumerGroup, ConsumerMember
from kohort.groups.replies import ConsumerHeartbeatReply
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, InstanceId, MemberId, Partition, ReplyTo, TopicId, TopicName
from kohort.records.offsets_topic import decode_key
from kohort.sim.node import SimulatedNode


class BeatOptions(TypedDict, total=False):
    """What a heartbeat may say; what is left out is unchanged."""

    member_id: str
    epoch: int
    instance: str | None
    rack: str | None
    timeout: int
    names: list[str] | None
    expression: str | None
    assignor: str | None
    owned: dict[str, list[int]] | None
    version: int
    host: str
    expression_error: str | None


@dataclass(frozen=True, slots=True)
class Beat:
    """A reply, with topic names in the place of ids."""

    error: ErrorCode
    member_id: str | None
    epoch: int
    interval: int
    assignment: dict[str, list[int]] | None


class ConsumerScenario:
    """One consumer group on virtual time."""

    def __init__(self, settings: GroupSettings | None = None, **topics: int) -> None:
        self.node = SimulatedNode(settings or GroupSettings())
        self.group_id = GroupId("g")
        self.epochs: dict[str, int] = {}  # the last one each member received
        self._requests = 0
        for name, partitions in topics.items():
            self.node.put_topic(name, partitions)

    # --- what one sees --------------------------------------------------------------------------

    @property
    def group(self) -> ConsumerGroup:
        """The group; it must be a consumer group."""
        found = self.node.shard.consumer_group(self.group_id)
        assert found is not None, f"there is no consumer group {self.group_id!r}"
        return found

    def member(self, name: str) -> ConsumerMember:
        return self.group.members[MemberId(name)]

    def assigned(self, name: str) -> dict[str, list[int]]:
        return self.named(self.member(name).current.assigned)

    def pending(self, name: str) -> dict[str, list[int]]:
        return self.named(self.member(name).current.pending_revocation)

    def named(self, partitions: TopicPartitions) -> dict[str, list[int]]:
        names = {topic.topic_id: str(topic.name) for topic in self.node.topics.values()}
        return {
            names.get(topic, topic.hex()): sorted(numbers) for topic, numbers in sorted(partitions.items())
        }

    def written(self, since: int = 0) -> list[str]:
        """The types of the records in the log from that one on; ``8t`` is a tombstone."""
        types = [(decode_key(record.key).record_type, record.value) for record in self.node.log[since:]]
        return [f"{kind}{'t' if value is None else ''}" for kind, value in types]

    # --- what one does --------------------------------------------------------------------------

    def join(self, name: str, **options: Unpack[BeatOptions]) -> Beat:
        """Join with epoch 0, by default to topic ``t``."""
        given: BeatOptions = {"epoch": 0, "timeout": 60_000, "owned": {}}
        if "names" not in options and "expression" not in options:
            given["names"] = ["t"]
        given.update(options)
        return self.beat(name, **given)

    def beat(self, name: str, **options: Unpack[BeatOptions]) -> Beat:
        """Send a heartbeat with the epoch that the member received last."""
        instance = options.get("instance")
        names = options.get("names")
        command = ConsumerHeartbeat(
            reply_to=self.next_request(),
            group_id=self.group_id,
            member_id=MemberId(options.get("member_id", name)),
            member_epoch=options.get("epoch", self.epochs.get(name, 0)),
            instance_id=None if instance is None else InstanceId(instance),
            rack_id=options.get("rack"),
            rebalance_timeout_ms=options.get("timeout", -1),
            names=None if names is None else tuple(map(TopicName, names)),
            expression=options.get("expression"),
            server_assignor=options.get("assignor"),
            owned=self._owned(options.get("owned")),
            client_id=name,
            client_host=options.get("host", "/127.0.0.1"),
            version=options.get("version", 1),
            fresh_id=f"fresh-{name}",
            expression_error=options.get("expression_error"),
        )
        reply = self.ask(command)
        assert isinstance(reply, ConsumerHeartbeatReply)
        if not reply.error and reply.member_id is not None:
            self.epochs[reply.member_id] = reply.member_epoch
        assignment = reply.assignment
        return Beat(
            reply.error,
            reply.member_id,
            reply.member_epoch,
            reply.heartbeat_interval_ms,
            None
            if assignment is None
            else self.named({topic: frozenset(numbers) for topic, numbers in assignment}),
        )

    def acknowledge(self, name: str) -> Beat:
        """Report exactly what the member is to have."""
        return self.beat(name, owned=self.assigned(name))

    def settle(self) -> None:
        """Let all members send heartbeats until none of them has to do anything."""
        for _ in range(20):
            for name in tuple(self.group.members):
                self.acknowledge(name)
            if self.group.state_name == "Stable":
                return
        raise AssertionError(f"the group does not settle: {self.group}")

    def resolve(self) -> None:
        """Answer what the shard has asked about regular expressions."""
        effects, self.node.effects = self.node.effects, []
        for effect in effects:
            assert isinstance(effect, ResolveExpressions)
            found = tuple(
                (each, tuple(name for name in self.node.topics if re.fullmatch(each, name)))
                for each in effect.expressions
            )
            version = self.node.shard.state.topics.version
            self.node.handle(ExpressionsResolved(effect.group_id, found, version, effect.started_at))

    def ask(self, request: Request) -> Any:  # noqa: ANN401 - the reply of that request
        """Send any request; the log is not slow here, so the reply is there."""
        self.node.handle(request)
        return self.node.replies[request.reply_to]

    def next_request(self) -> ReplyTo:
        self._requests += 1
        return ReplyTo(self._requests)

    def sleep(self, millis: int) -> None:
        self.node.sleep(millis)

    def _owned(self, owned: dict[str, list[int]] | None) -> tuple[OwnedTopic, ...] | None:
        if owned is None:
            return None
        return tuple(
            OwnedTopic(self.topic_id(name), tuple(map(Partition, numbers))) for name, numbers in owned.items()
        )

    def topic_id(self, name: str) -> TopicId:
        return self.node.topics[TopicName(name)].topic_id
