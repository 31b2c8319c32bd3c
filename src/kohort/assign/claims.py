"""Who holds what, by the members' own account: the sticky assignors start from here."""

from collections.abc import Mapping
from typing import NamedTuple

from kohort.assign.members import by_member_id
from kohort.assign.protocol import NO_GENERATION, StickyUserData
from kohort.model.ids import Generation, MemberId, TopicName
from kohort.model.topics import TopicPartition

Claims = Mapping[MemberId, StickyUserData]


class Holdings(NamedTuple):
    """The claims, judged."""

    owned: dict[MemberId, list[TopicPartition]]
    """What each member holds beyond doubt: no other member claims it with the same or a higher generation."""
    claimed: set[TopicPartition]
    """Every partition that a member claims, rightly or not."""
    previous: dict[TopicPartition, MemberId]
    """Who held a partition in an older generation, by the newest of the outdated claims."""


def judge(claims: Claims, counts: Mapping[TopicName, int]) -> Holdings:
    """A higher generation wins; between equal ones no claim counts.

    ``counts``: how many partitions each topic has that is to be assigned. Claims to others are ignored: a
    topic may have been deleted, made again with fewer partitions, or no member may want it any more.
    """
    order = by_member_id(claims)
    newest = max((_generation(claims[member]) for member in order), default=NO_GENERATION)
    best: dict[TopicPartition, tuple[Generation, MemberId | None]] = {}
    outdated: dict[TopicPartition, tuple[Generation, MemberId]] = {}
    for member in order:
        generation = _generation(claims[member])
        for partition in dict.fromkeys(claims[member].partitions):
            if not 0 <= partition.partition < counts.get(partition.topic, 0):
                continue
            rival = best.get(partition)
            if rival is None or generation > rival[0]:
                best[partition] = (generation, member)
            elif generation == rival[0]:
                best[partition] = (generation, None)
            if generation < newest and (partition not in outdated or generation > outdated[partition][0]):
                outdated[partition] = (generation, member)
    owned: dict[MemberId, list[TopicPartition]] = {member: [] for member in order}
    for partition, (_, owner) in best.items():
        if owner is not None:
            owned[owner].append(partition)
    return Holdings(owned, set(best), {partition: member for partition, (_, member) in outdated.items()})


def _generation(claim: StickyUserData) -> Generation:
    return NO_GENERATION if claim.generation is None else claim.generation
