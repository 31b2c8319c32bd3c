"""Which topics the members of a group consume, as far as their metadata tells."""

from struct import Struct, error

from kohort.groups.classic.state import CONSUMER, Group
from kohort.model.ids import TopicName

_INT16 = Struct(">h")
_INT32 = Struct(">i")


def subscribed_topics(group: Group, protocol: str | None = None) -> frozenset[TopicName] | None:
    """The union of the members' topics under ``protocol`` (default: the selected one).

    ``None`` if it is unknown: another protocol type than "consumer", or bytes that do not parse.
    """
    if group.protocol_type != CONSUMER:
        return None
    chosen = group.protocol if protocol is None else protocol
    topics: set[TopicName] = set()
    for member in group.members.values():
        found = read_topics(member.metadata_for(chosen))
        if found is None:
            return None
        topics.update(found)
    return frozenset(topics)


def read_topics(metadata: bytes) -> list[TopicName] | None:
    """The topics of a subscription: the fields every version starts with. ``None`` if they are not there."""
    try:
        (version,) = _INT16.unpack_from(metadata, 0)
        (count,) = _INT32.unpack_from(metadata, 2)
        if version < 0 or not 0 <= count <= len(metadata):
            return None
        position, topics = 6, []
        for _ in range(count):
            (length,) = _INT16.unpack_from(metadata, position)
            position += 2
            if length < 0 or position + length > len(metadata):
                return None
            topics.append(TopicName(metadata[position : position + length].decode()))
            position += length
        return topics if _has_user_data(metadata, position) else None
    except (error, UnicodeDecodeError):
        return None


def _has_user_data(metadata: bytes, position: int) -> bool:
    (length,) = _INT32.unpack_from(metadata, position)
    return bool(length == -1 or 0 <= length <= len(metadata) - position - 4)
