"""What became of an append: decisions over the errors and rows that a database shows, no I/O (cluster 3.3).

The leader numbers the records itself, so the end of a partition says whether a transaction was committed. One
rule makes this safe, also while the old transaction is still running: until an append at an offset is known
to have succeeded or failed, nothing else is proposed at that offset in that epoch.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import NamedTuple

import asyncpg

from kohort.cluster.lease import SessionId
from kohort.cluster.view import PartitionId
from kohort.model.ids import LeaderEpoch, Offset


class Claim(NamedTuple):
    """What a transaction was to store in one partition: everything from ``base_offset`` to ``end_offset``."""

    partition_id: PartitionId
    leader_epoch: LeaderEpoch
    base_offset: Offset
    end_offset: Offset


class StoredPartition(NamedTuple):
    """A partition as it is stored."""

    partition_id: PartitionId
    leader: SessionId | None
    leader_epoch: LeaderEpoch
    end_offset: Offset


class LedPartition(NamedTuple):
    """What this node knows of a partition that it leads."""

    partition_id: PartitionId
    leader_epoch: LeaderEpoch
    high_watermark: Offset


class Verdict(Enum):
    """What became of a claim."""

    STORED = auto()
    AGAIN = auto()  # not stored, so far: the same bytes may be sent again
    LOST = auto()  # not ours any more, or the end is neither before nor after the claim


def judge(session: SessionId, claim: Claim, found: StoredPartition | None) -> Verdict:
    """What became of a claim of ``session``, by what is stored now."""
    if found is None or found.leader != session or found.leader_epoch != claim.leader_epoch:
        return Verdict.LOST
    if found.end_offset == claim.end_offset:
        return Verdict.STORED
    return Verdict.AGAIN if found.end_offset == claim.base_offset else Verdict.LOST


def lost_data(led: Iterable[LedPartition], found: Mapping[PartitionId, StoredPartition]) -> list[PartitionId]:
    """The partitions of which the database has forgotten something that it had confirmed."""

    def is_behind(each: LedPartition) -> bool:
        row = found.get(each.partition_id)
        return row is not None and (
            row.leader_epoch < each.leader_epoch
            or (row.leader_epoch == each.leader_epoch and row.end_offset < each.high_watermark)
        )

    return [each.partition_id for each in led if is_behind(each)]


class TransactionFault(Enum):
    """What an error says of the transaction it ended."""

    NOT_STORED = auto()  # rolled back by a conflict: once more, now
    OVERLOADED = auto()  # rolled back for want of something: once more, later
    UNKNOWN = auto()
    REFUSED = auto()  # rolled back, and would be again


_NOT_STORED = frozenset({"40001", "40P01", "55P03", "57014"})
_OVERLOADED = frozenset({"53000", "53100", "53200", "53300", "53400", "57P03", "58030"})
_UNIQUE_VIOLATION = "23505"  # an earlier attempt of ours was stored meanwhile
_ENDED = ("08", "57P")  # the connection, or the server


def fault_of(error: BaseException) -> TransactionFault:
    """Judge an error of the driver. What is not from the server may have happened after the commit."""
    if not isinstance(error, asyncpg.PostgresError):
        return TransactionFault.UNKNOWN
    state = error.sqlstate or ""
    if state in _NOT_STORED:
        return TransactionFault.NOT_STORED
    if state in _OVERLOADED:
        return TransactionFault.OVERLOADED
    if state == _UNIQUE_VIOLATION or not state or state.startswith(_ENDED):
        return TransactionFault.UNKNOWN
    return TransactionFault.REFUSED
