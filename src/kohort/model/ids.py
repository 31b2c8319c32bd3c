"""Names for the numbers and strings of the protocol, so that they cannot be mixed up."""

from typing import NamedTuple, NewType

TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", bytes)  # 16 bytes, big-endian; all zero means "none"
Partition = NewType("Partition", int)
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ProducerId = NewType("ProducerId", int)
NodeId = NewType("NodeId", int)

GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)
InstanceId = NewType("InstanceId", str)
Generation = NewType("Generation", int)

Instant = NewType("Instant", int)  # milliseconds, monotonic: for deadlines
WallTime = NewType("WallTime", int)  # milliseconds since 1970: for what is stored or shown
ReplyTo = NewType("ReplyTo", int)  # names one request that is waiting for its reply

NO_TOPIC_ID = TopicId(bytes(16))


class Now(NamedTuple):
    """One moment on both clocks: monotonic for deadlines, wall time for what is stored or shown."""

    instant: Instant
    wall: WallTime
