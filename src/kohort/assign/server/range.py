"""``range``: each topic is cut into consecutive ranges, one for each subscriber."""

from collections import defaultdict

from kohort.assign.members import by_member_id, code_units
from kohort.assign.server.group import GroupSpec, Targets
from kohort.model.ids import MemberId, Partition, TopicId


class ServerRangeAssignor:
    """Not sticky. Topics with the same subscribers and as many partitions are co-partitioned."""

    name = "range"

    def assign(self, group: GroupSpec) -> Targets:
        subscribers: dict[TopicId, list[MemberId]] = defaultdict(list)
        for member_id in _static_members_first(group):
            for topic in group.topics[member_id]:
                subscribers[topic].append(member_id)
        shares: dict[MemberId, dict[TopicId, frozenset[Partition]]] = {member: {} for member in group.topics}
        for topic, members in subscribers.items():
            each, extras = divmod(group.partitions[topic], len(members))
            start = 0
            for index, member_id in enumerate(members):
                end = start + each + (index < extras)
                if end > start:
                    shares[member_id][topic] = frozenset(map(Partition, range(start, end)))
                start = end
        return dict(shares)


def _static_members_first(group: GroupSpec) -> list[MemberId]:
    static = sorted(group.instances, key=lambda member_id: code_units(group.instances[member_id]))
    return [*static, *by_member_id(group.topics.keys() - group.instances.keys())]
