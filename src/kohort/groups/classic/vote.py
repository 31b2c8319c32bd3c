"""The vote on a protocol: every member has one, for what it prefers among what all can do
(classic-groups 3.5)."""

from kohort.groups.classic.state import Group
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Protocol
from kohort.primitives.strings import java_hash


def select_protocol(group: Group) -> str:
    """The protocol of the next generation. Every member votes, also a static one that has not rejoined."""
    everyone = len(group.members)
    candidates = {name for name, count in group.offers.items() if count == everyone}
    assert candidates, f"group {group.group_id!r}: no protocol that all members support was let in"
    if len(candidates) == 1:
        return candidates.pop()
    votes: dict[str, int] = {}
    for member in group.members.values():
        choice = next(name for name, _ in member.protocols if name in candidates)
        votes[choice] = votes.get(choice, 0) + 1
    return max(_in_hash_map_order(votes), key=votes.__getitem__)


def supports_protocols(group: Group, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
    """Whether a member with these protocols fits into the group."""
    names = [name for name, _ in protocols]
    if len(set(names)) != len(names):
        return False  # Kafka counts a repeated name twice and can never elect it; we refuse it at once
    if group.phase is Phase.EMPTY:
        return bool(protocol_type and names)
    everyone = len(group.members)
    return protocol_type == group.protocol_type and any(
        group.offers.get(name, 0) == everyone for name in names
    )


def _in_hash_map_order(votes: dict[str, int]) -> list[str]:
    """The names in the order Java's HashMap walks them: ties go to the first, as in Kafka."""
    size = 16
    while len(votes) > size * 3 // 4:
        size *= 2

    def bucket(name: str) -> int:
        unsigned = java_hash(name) & 0xFFFFFFFF
        return (unsigned ^ unsigned >> 16) & (size - 1)

    return sorted(votes, key=bucket)
