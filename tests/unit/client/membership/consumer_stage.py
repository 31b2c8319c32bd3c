"""A member of the consumer protocol whose coordinator, played by a test, answers heartbeats."""

from collections.abc import Mapping
from typing import Any

from tests.unit.client.membership.stage import Stage, topic_id, tp

from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

INTERVAL = 5_000
Beat = ConsumerGroupHeartbeatRequest


def by_topic(names: str) -> Mapping[str, list[int]]:
    found: dict[str, list[int]] = {}
    for each in map(tp, names.split()):
        found.setdefault(each.topic, []).append(each.partition)
    return found


class Member(Stage):
    """A stage whose coordinator answers heartbeats."""

    def __init__(self, topics: str = "t", **settings: Any) -> None:  # noqa: ANN401 - of ConsumerSettings
        super().__init__(topics, group_protocol="consumer", **settings)

    def reply(self, assigned: str | None = None, *, epoch: int = 1, code: int = 0) -> None:
        """Answer the oldest heartbeat."""
        given = None
        if assigned is not None:
            rows = [
                TopicPartitions(topic_id=topic_id(t), partitions=n) for t, n in by_topic(assigned).items()
            ]
            given = Assignment(topic_partitions=rows)
        response = ConsumerGroupHeartbeatResponse(
            error_code=code,
            error_message="the broker's words" if code else None,
            member_id=None if code else "m",
            member_epoch=0 if code else epoch,
            heartbeat_interval_ms=0 if code else INTERVAL,
            assignment=given,
        )
        self.answer(Beat, response)

    def joined(self, assigned: str = "t-0 t-1", epoch: int = 1) -> "Member":
        """In the group, with its assignment acknowledged."""
        self.poll()
        self.metadata(t=4, u=4)
        self.find()
        self.reply(assigned, epoch=epoch)
        self.poll()
        self.reply(epoch=epoch)
        assert self.membership.has_settled
        return self

    def targets(self, assigned: str, epoch: int = 1) -> None:
        """The coordinator has another target, and the member hears of it with its next heartbeat."""
        self.sleep(INTERVAL)
        self.reply(assigned, epoch=epoch)

    @property
    def last(self) -> Beat:
        return self.requests(Beat)[-1]


def owned(request: Beat) -> dict[str, list[int]] | None:
    if request.topic_partitions is None:
        return None
    return {each.topic_id.decode().rstrip("."): each.partitions for each in request.topic_partitions}
