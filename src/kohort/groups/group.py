"""What every kind of group answers: who may commit, what is consumed, what may go."""

from typing import Protocol

from kohort.groups.commands import CommitOffsets, FetchOffsets
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, MemberId, TopicName, WallTime


class AnyGroup(Protocol):
    """A classic or a consumer group, as offsets and administration see it."""

    group_id: GroupId

    @property
    def is_empty(self) -> bool:
        """Whether it has no members and may be deleted."""
        ...

    @property
    def state_name(self) -> str:
        """Its state, as ListGroups shows it."""
        ...

    @property
    def type_name(self) -> str:
        """Its type, as ListGroups shows it."""
        ...

    @property
    def listed_protocol_type(self) -> str:
        """Its protocol type, as ListGroups shows it."""
        ...

    def check_commit(self, command: CommitOffsets) -> ErrorCode:
        """Whether this commit is taken."""
        ...

    def check_fetch(self, command: FetchOffsets) -> ErrorCode:
        """Whether this fetch of offsets is answered."""
        ...

    def check_delete_offsets(self) -> ErrorCode:
        """Whether offsets of topics that are not subscribed to may be deleted."""
        ...

    def is_subscribed_to(self, topic: TopicName) -> bool:
        """Whether a member may be consuming the topic."""
        ...

    @property
    def may_expire_offsets(self) -> bool:
        """Whether offsets of topics that are not consumed may expire now."""
        ...

    def is_consuming(self, topic: TopicName) -> bool:
        """Whether offsets of the topic are kept whatever their age."""
        ...

    @property
    def unused_since(self) -> WallTime | None:
        """From when on the retention counts; ``None``: from the commit of each offset."""
        ...

    def session_kept_by_commit(self, member_id: MemberId) -> int | None:
        """The session timeout that starts again with a commit of this member; ``None``: none does."""
        ...
