"""Who is in a group and who leads it: followed through the events of its history."""

from collections.abc import Iterable, Mapping
from typing import Any

from kohort.story.documents import owned_partitions
from kohort.story.rebalance import StoryMember


class Roll:
    """The members of a group at one time, and all members that the journal has named."""

    def __init__(self) -> None:
        self.people: dict[str, StoryMember] = {}
        self.members: dict[str, None] = {}
        self.pending: dict[str, None] = {}  # ids handed out, not yet used to join
        self.leader: str | None = None
        self._claims: dict[str, frozenset[str]] = {}  # protocols for which a member kept partitions

    def clear(self) -> None:
        """Whether it has no members."""
        self.members = {}
        self.pending = {}
        self.leader = None

    def take(self, image: Mapping[str, Any]) -> None:
        """The members are those of a stored group."""
        self.clear()
        self.meet_all(image)
        self.members = dict.fromkeys(member["member_id"] for member in image["members"])
        self.leader = image["leader"]

    def meet_all(self, image: Mapping[str, Any]) -> None:
        """Learn who is behind the ids of a stored group."""
        for one in image["members"]:
            self._meet(one["member_id"], one["client_id"], one["client_host"], one["instance_id"])

    def reserve(self, member_id: str, client_id: str) -> None:
        self.pending[member_id] = None
        self._meet(member_id, client_id, "", None)

    def add(self, member: Mapping[str, Any]) -> None:
        """A new member; the first one leads."""
        member_id = member["member_id"]
        self._meet(member_id, member["client_id"], member["client_host"], member["instance_id"])
        self.claim(member_id, member["protocols"])
        self.pending.pop(member_id, None)
        self.members[member_id] = None
        if self.leader is None:
            self.leader = member_id

    def add_consumer(self, member_id: str, details: Mapping[str, Any]) -> None:
        """A member of a consumer group, new or with other details; no member leads there."""
        self._meet(member_id, details["client_id"], details["client_host"], details["instance_id"])
        self.members[member_id] = None

    def replace(self, old: str, new: str, instance_id: str) -> None:
        """A static member has another id."""
        known = self.people.get(old)
        self._meet(new, known.client_id if known else "", known.host if known else "", instance_id)
        self.members = {(new if one == old else one): None for one in self.members}
        if self.leader == old:
            self.leader = new

    def remove(self, member_id: str) -> None:
        self.members.pop(member_id, None)
        if self.leader == member_id:
            self.leader = None

    def claim(self, member_id: str, protocols: Iterable[Mapping[str, str]]) -> None:
        """Remember for which protocols a member says, as it joins, that it still has partitions."""
        kept = (one["name"] for one in protocols if owned_partitions(one["metadata"]))
        self._claims[member_id] = frozenset(kept)

    def kept_partitions(self, member_id: str, protocol: str | None) -> bool:
        """Whether a member joined last without giving up what it had."""
        return protocol in self._claims.get(member_id, ())

    def _meet(self, member_id: str, client_id: str, host: str, instance_id: str | None) -> None:
        self.people[member_id] = StoryMember(member_id, client_id, host.removeprefix("/"), instance_id)
