"""Members of consumer groups (KIP-848) for scripts: heartbeats with any fields, and what they own."""

from dataclasses import dataclass, field
from typing import Any, Final

from tests.interop.scripts.exchange import Answer, AnyMessage, Exchange, Reply
from tests.interop.scripts.setting import settle

from kohort.model.errors import ErrorCode
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

BEAT, DESCRIBE = 1, 1  # the newest versions
REBALANCE: Final = 30_000
CONSUMER: Final = 1  # the type of a member in a description; 0 is classic
Owned = dict[bytes, list[int]]


def owning(owned: Owned | None) -> list[TopicPartitions] | None:
    """What a member says it owns now; None means no change."""
    if owned is None:
        return None
    return [TopicPartitions(topic_id=topic, partitions=parts) for topic, parts in owned.items()]


@dataclass(slots=True)
class ConsumerMember:
    """One member; its name is also its member id, its connection and its client id."""

    x: Exchange
    group: str
    name: str
    epoch: int = 0
    instance: str | None = None
    owned: Owned = field(default_factory=dict)

    def request(
        self, epoch: int, owned: Owned | None, fields: dict[str, Any]
    ) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            **{
                "group_id": self.group,
                "member_id": self.name,
                "member_epoch": epoch,
                "instance_id": self.instance,
                "topic_partitions": owning(owned),
                **fields,
            }
        )

    def send(self, epoch: int, owned: Owned | None, version: int = BEAT, **fields: Any) -> Answer:  # noqa: ANN401
        """Any heartbeat; the answer's epoch and assignment are remembered if it was good."""
        answer = self.x.get(self.request(epoch, owned, fields), version, self.name, self.name)
        if isinstance(answer, Reply):
            reply: AnyMessage = answer.message
            if reply.error_code == ErrorCode.NONE:
                self.epoch = reply.member_epoch
                if reply.assignment is not None:
                    parts = reply.assignment.topic_partitions
                    self.owned = {each.topic_id: sorted(each.partitions) for each in parts}
        return answer

    def join(self, *topics: str, **fields: Any) -> Answer:  # noqa: ANN401
        wanted = {"rebalance_timeout_ms": REBALANCE, "subscribed_topic_names": list(topics), **fields}
        return self.send(0, {}, **wanted)

    def beat(self, owned: Owned | None = None, **fields: Any) -> Answer:  # noqa: ANN401
        """A heartbeat at the member's epoch."""
        return self.send(self.epoch, owned, **fields)

    def acknowledge(self) -> Answer:
        """Own what was assigned, and nothing else."""
        return self.beat(self.owned)

    def leave(self, epoch: int = -1) -> Answer:
        return self.send(epoch, None)

    def beat_until_assigned(self, partitions: int) -> Answer:
        """Heartbeat until the member has been given so many partitions; the answer that gave them."""
        last: list[Answer] = []

        def given() -> bool:
            last[:] = [self.beat()]
            return sum(map(len, self.owned.values())) == partitions

        settle(f"{self.name} owns {partitions} partitions", given)
        return last[0]


def describing(*groups: str) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=list(groups))


def name_topics(x: Exchange, *topics: str) -> Answer:
    """Metadata of the topics: names their ids for all later steps."""
    asked = [MetadataRequestTopic(name=topic) for topic in sorted(topics)]
    return x.get(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 12)
