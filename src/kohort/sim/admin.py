"""The administrator of a scenario: describes, lists, deletes."""

from collections.abc import Sequence
from typing import Protocol

from kohort.groups.commands import DeleteGroups, DeleteOffsets, DescribeGroup, ListGroups, Request
from kohort.model.ids import GroupId, Partition, ReplyTo, TopicName


class AdminChannel(Protocol):
    """Where an administrator sends requests: a scenario."""

    def send(self, request: Request) -> ReplyTo:
        """Send a request; returns its name."""
        ...

    def next_reply_to(self) -> ReplyTo:
        """A name for a new request."""
        ...

    def group_id_of(self, group: str | None) -> GroupId:
        """The id of a group, of the one the story is about if none is named."""
        ...


class Administrator:
    """Sends the requests of Kafka's admin tools; each returns the name of its request."""

    def __init__(self, requests: AdminChannel) -> None:
        self._requests = requests

    def describe(self, group: str | None = None, version: int = 6) -> ReplyTo:
        """DescribeGroups of one group."""
        to, group_id = self._requests.next_reply_to(), self._requests.group_id_of(group)
        return self._requests.send(DescribeGroup(reply_to=to, group_id=group_id, version=version))

    def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> ReplyTo:
        """ListGroups."""
        to = self._requests.next_reply_to()
        return self._requests.send(ListGroups(reply_to=to, states=tuple(states), types=tuple(types)))

    def delete_groups(self, *groups: str) -> ReplyTo:
        """DeleteGroups."""
        to = self._requests.next_reply_to()
        return self._requests.send(DeleteGroups(reply_to=to, group_ids=tuple(map(GroupId, groups))))

    def delete_offsets(self, *partitions: tuple[str, int], group: str | None = None) -> ReplyTo:
        """OffsetDelete."""
        to, group_id = self._requests.next_reply_to(), self._requests.group_id_of(group)
        keys = tuple((TopicName(topic), Partition(partition)) for topic, partition in partitions)
        return self._requests.send(DeleteOffsets(reply_to=to, group_id=group_id, partitions=keys))
