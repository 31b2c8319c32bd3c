"""Groups as the commands need them: found by name or missed with a suggestion, with offsets and lag."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import CommittedOffset, GroupInfo, ListedGroup, MemberInfo
from kohort.client.admin.topics import OffsetSpec
from kohort.client.errors import BrokerError
from kohort.client.metadata import NO_NODE
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import GroupId, TopicName
from kohort.model.topics import TopicPartition

_AT_ONCE = 50  # descriptions in flight: a listing of thousands should neither crawl nor flood
_MOST_NAMED = 3
_SEE_LIST = "`kohort groups list` shows the groups"
DEAD = "Dead"


class UnknownGroupError(KohortError):
    """There is no such group; the hint names those that are called alike."""

    def __init__(self, group_id: str, known: Iterable[str]) -> None:
        alike = _called_alike(group_id, sorted(known))
        hint = f"did you mean {' or '.join(map(repr, alike))}?" if alike else _SEE_LIST
        super().__init__(f"there is no group {group_id!r}", hint=hint)


def _called_alike(group_id: str, known: Sequence[str]) -> list[str]:
    """Names that contain what was typed, then those that are spelt nearly the same."""
    from difflib import get_close_matches

    longer = [one for one in known if group_id.lower() in one.lower()]
    return list(dict.fromkeys(longer + get_close_matches(group_id, known, n=_MOST_NAMED)))[:_MOST_NAMED]


class GroupHasMembersError(KohortError):
    """The group has members, and what was asked for needs a group without."""

    def __init__(self, group: GroupInfo, what: str) -> None:
        how = f"has {show_members(group.members)}" if group.members else f"is in state {group.state}"
        super().__init__(
            f"cannot {what}: group {group.group_id!r} {how}",
            hint="stop its members first, or wait until their sessions expire",
        )


def show_members(members: Sequence[MemberInfo]) -> str:
    """``2 members: a-…1f2e at 10.0.0.1, b-…9c4d at 10.0.0.2``."""
    names = short_member_ids(members)
    named = [
        f"{names[one.member_id]} at {one.client_host.removeprefix('/')}" for one in members[:_MOST_NAMED]
    ]
    more = len(members) - len(named)
    count = f"{len(members)} member" + ("" if len(members) == 1 else "s")
    return f"{count}: {', '.join(named)}" + (f" and {more} more" if more else "")


def short_member_ids(members: Iterable[MemberInfo]) -> dict[str, str]:
    """For each member id a name that is short and still tells the members apart."""
    from kohort.story.names import short_names
    from kohort.story.rebalance import StoryMember

    return short_names(
        {
            one.member_id: StoryMember(one.member_id, one.client_id, one.client_host, one.instance_id)
            for one in members
        }
    )


async def find_group(admin: AsyncAdmin, group_id: str) -> GroupInfo:
    """One group; raises UnknownGroupError. Older brokers say of a missing one that it is dead."""
    found = (await admin.describe_groups([group_id]))[GroupId(group_id)]
    if isinstance(found, BrokerError):
        if found.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise found
    elif found.state != DEAD:
        return found
    raise UnknownGroupError(group_id, [one.group_id for one in await admin.list_groups()])


class Listed(NamedTuple):
    """A group of a listing. ``members``: None if it was gone before it could be described; ``lag``: None
    without committed offsets."""

    group: ListedGroup
    members: int | None
    lag: int | None


async def list_with_lag(admin: AsyncAdmin, states: Collection[str]) -> list[Listed]:
    """All groups, or those in these states, each with the number of its members and its lag."""
    groups = await admin.list_groups(states=states)
    turn = asyncio.Semaphore(_AT_ONCE)

    async def look(group_id: GroupId) -> tuple[int | None, dict[TopicPartition, CommittedOffset]]:
        async with turn:
            try:
                committed = await admin.list_group_offsets(group_id)
            except BrokerError:
                committed = {}  # deleted since it was listed, or its coordinator is moving
            found = (await admin.describe_groups([group_id]))[group_id]
        return None if isinstance(found, BrokerError) else len(found.members), committed

    looks = await asyncio.gather(*(look(group.group_id) for group in groups))
    led = await _led(admin, {one for _, committed in looks for one in committed})
    ends = await _offsets(admin, led, OffsetSpec.LATEST)
    return [
        Listed(group, members, _total_lag(committed, ends))
        for group, (members, committed) in zip(groups, looks, strict=True)
    ]


def _total_lag(
    committed: Mapping[TopicPartition, CommittedOffset], ends: Mapping[TopicPartition, int]
) -> int | None:
    lags = [ends[one] - offset.offset for one, offset in committed.items() if one in ends]
    return sum(lags) if lags else None


class PartitionLag(NamedTuple):
    """How far a group has come in one partition; None where it is unknown or not committed."""

    partition: TopicPartition
    committed: CommittedOffset | None
    start: int | None
    end: int | None
    member: MemberInfo | None

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed.offset


async def lag_of(admin: AsyncAdmin, group: GroupInfo) -> list[PartitionLag]:
    """Every partition the group has committed for, or a member has."""
    committed = await admin.list_group_offsets(group.group_id)
    owners = {partition: member for member in group.members for partition in member.assignment}
    ranges = await log_ranges(admin, {*committed, *owners})
    lags = []
    for one in sorted({*committed, *owners}):
        start, end = ranges.get(one, (None, None))
        lags.append(PartitionLag(one, committed.get(one), start, end, owners.get(one)))
    return lags


async def log_ranges(
    admin: AsyncAdmin, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """First and next offset of these partitions, as far as they exist and have a leader."""
    led = await _led(admin, partitions)
    starts = await _offsets(admin, led, OffsetSpec.EARLIEST)
    ends = await _offsets(admin, led, OffsetSpec.LATEST)
    return {one: (starts[one], ends[one]) for one in led if one in starts and one in ends}


async def _led(admin: AsyncAdmin, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
    if not partitions:
        return []
    topics = await admin.describe_topics({one.topic for one in partitions})
    there = {
        TopicPartition(TopicName(name), one.partition)
        for name, found in topics.items()
        if not isinstance(found, BrokerError)
        for one in found.partitions
        if one.leader != NO_NODE
    }
    return [one for one in partitions if one in there]


async def _offsets(
    admin: AsyncAdmin, partitions: Collection[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    listed = await admin.list_offsets(dict.fromkeys(partitions, int(spec))) if partitions else {}
    return {one: found.offset for one, found in listed.items() if not isinstance(found, BrokerError)}
