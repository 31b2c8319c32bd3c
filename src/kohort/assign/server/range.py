"""``range``: each topic is cut into consecutive ranges, one for each subscriber."""

from collections import defaultdict

from kohort.assign.members import code_units
from kohort.assign.server.group import GroupSpec, MemberSpec, Targets
from kohort.model.ids import MemberId, Partition, TopicId


class ServerRangeAssignor:
    """Not sticky. Topics with the same subscribers and as many partitions are co-partitioned."""

    name = "range"

    def assign(self, group: GroupSpec) -> Targets:
        subscribers: dict[TopicId, list[MemberId]] = defaultdict(list)
        for member_id, member in sorted(group.members.items(), key=_static_members_first):
            for topic in member.topics:
                subscribers[topic].append(member_id)
        shares: dict[MemberId, dict[TopicId, frozenset[Partition]]] = {member: {} for member in group.members}
        for topic, members in subscribers.items():
            each, extras = divmod(group.partitions[topic], len(members))
            start = 0
            for index, member_id in enumerate(members):
                end = start + each + (index < extras)
                if end > start:
                    shares[member_id][topic] = frozenset(map(Partition, range(start, end)))
                start = end
        return dict(shares)


def _static_members_first(entry: tuple[MemberId, MemberSpec]) -> tuple[bool, bytes]:
    member_id, member = entry
    return member.instance_id is None, code_units(member.instance_id or member_id)
