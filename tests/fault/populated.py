"""Groups that have members already: of each kind, in each state, made in an arena by ordinary requests."""

import itertools
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, NamedTuple

from tests.broker.grouping import commit_request, heartbeat_request, join_request, sync_request
from tests.fault.arena import Arena, is_unknown

from kohort.model.errors import ErrorCode
from kohort.wire.apis import ApiKey
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

_numbers = itertools.count(1)


class Member(NamedTuple):
    """One member as it knows itself."""

    member_id: str
    epoch: int  # or generation
    instance: str | None = None
    is_classic: bool = False


class Populated(NamedTuple):
    """A group and the members that it was left with."""

    group: str
    members: tuple[Member, ...]


class Sender(NamedTuple):
    """How a request names its sender, made of a member that the group has."""

    name: str
    of: Callable[[Member], Member]


SENDERS = (
    Sender("itself", lambda member: member),
    Sender("behind", lambda member: member._replace(epoch=member.epoch - 1)),
    Sender("ahead", lambda member: member._replace(epoch=member.epoch + 1)),
    Sender("joining", lambda member: member._replace(epoch=0)),
    Sender("leaving", lambda member: member._replace(epoch=-1)),
    Sender("away", lambda member: member._replace(epoch=-2, instance=member.instance or "away")),
    Sender("new instance", lambda member: member._replace(instance="other")),
    Sender("joining elsewhere", lambda member: member._replace(epoch=0, instance="other")),
    Sender("replacing", lambda member: Member("replacement", 0, member.instance, member.is_classic)),
    Sender("stranger", lambda member: Member("stranger", member.epoch, None, member.is_classic)),
    Sender("nameless", lambda member: Member("", -1, None, member.is_classic)),
)


# One request of each kind


def beat_request(group: str, member: Member, **fields: Any) -> ConsumerGroupHeartbeatRequest:  # noqa: ANN401
    """A heartbeat of a consumer group that says everything a joining member says."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def as_sender(request: Any, group: str, sender: Member) -> None:  # noqa: ANN401 - one of many classes
    """Let a request be about a group and come from one of its members: then it gets past the first checks."""
    values = {
        "group_id": group,
        "groups_names": [group],
        "group_ids": [group],
        "member_id": sender.member_id,
        "generation_id": sender.epoch,
        "member_epoch": sender.epoch,
        "generation_id_or_member_epoch": sender.epoch,
        "group_instance_id": sender.instance,
        "instance_id": sender.instance,
    }
    for name, value in values.items():
        if hasattr(request, name):
            setattr(request, name, value)
    match request:
        case DescribeGroupsRequest():
            request.groups = [group]
        case OffsetFetchRequest():
            for wanted in request.groups:
                as_sender(wanted, group, sender)
        case ConsumerGroupHeartbeatRequest():
            request.rebalance_timeout_ms, request.topic_partitions = 30_000, []
        case IncrementalAlterConfigsRequest():
            change = AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value="50000")
            request.resources = [
                AlterConfigsResource(resource_type=32, resource_name=group, configs=[change])
            ]
            request.validate_only = False
        case _:
            for entry in getattr(request, "assignments", None) or getattr(request, "members", None) or []:
                as_sender(entry, group, sender)


# Groups


class Populace:
    """Makes groups in an arena, and asks them everyday things afterwards."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena

    async def make(self, kind: str) -> Populated:
        """A new group; ``KINDS`` has the names."""
        group = f"{kind.replace(' ', '-')}-{next(_numbers)}"
        made = Populated(group, await KINDS[kind](self, group))
        await self.arena.ask(commit_request((0, 1), (1, 2), group=group, member=_committer(made)), 9)
        return made

    async def join(self, group: str, member_id: str, epoch: int = 0, **fields: Any) -> Member:  # noqa: ANN401
        """A heartbeat of a consumer group; the member with the epoch it gets."""
        instance = fields.pop("instance_id", None)
        request = beat_request(group, Member(member_id, epoch, instance), **fields)
        reply = await self.arena.ask(request, 1)
        assert reply.error_code == 0, reply
        return Member(member_id, reply.member_epoch, instance)

    async def member_id(self, group: str, **options: Any) -> str:  # noqa: ANN401
        """An id that a classic group hands out."""
        reply = await self.arena.ask(join_request(group=group, **options), 5)
        assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED, reply
        found: str = reply.member_id
        return found

    async def classic_join(self, group: str, member_id: str, **options: Any) -> Any:  # noqa: ANN401
        """A JoinGroup; ``None`` if it waits for others."""
        request = join_request(member_id, group=group, **options)
        reply = await self.arena.throw(self.arena.frames(request, 5), may_wait=True)
        return None if reply is None else self.arena.read(ApiKey.JOIN_GROUP, 5, reply)

    async def generation(self, group: str, *members: str, **options: Any) -> int:  # noqa: ANN401
        """All of these ids join, the last one completes the rebalance."""
        for member_id in members[:-1]:
            await self.classic_join(group, member_id, **options)
        last = await self.classic_join(group, members[-1], **options)
        if last is None:  # the first one was alone for a generation: it has to come again
            last = await self.classic_join(group, members[0], **options)
        assert last is not None
        assert last.error_code == 0, last
        found: int = last.generation_id
        return found

    async def sync(self, group: str, generation: int, *members: str) -> None:
        everything = dict.fromkeys(members, b"\0\0\0\0\0\0\xff\xff\xff\xff")
        for member_id in members:
            await self.arena.throw(
                self.arena.frames(sync_request(member_id, generation, everything, group=group), 3),
                may_wait=True,
            )

    # What comes afterwards

    async def aftermath(self, of: Populated, random: Random) -> list[str]:
        """Everyday requests to a group after an odd one: looked at, heartbeats, everybody leaves, deleted."""
        wrong: list[str] = []
        for request, version, may_wait in self._everyday(of, random):
            reply = await self.arena.throw(self.arena.frames(request, version), may_wait=may_wait)
            assert request.api_key is not None
            if reply is not None and is_unknown(self.arena.read(request.api_key, version, reply)):
                wrong.append(f"then {type(request).__name__} of {of} was answered UNKNOWN_SERVER_ERROR")
        return wrong

    def _everyday(self, of: Populated, random: Random) -> list[tuple[Any, int, bool]]:
        group, members = of
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
        looked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
        asked: list[tuple[Any, int, bool]] = [
            (DescribeGroupsRequest(groups=[group]), 6, False),
            (ConsumerGroupDescribeRequest(group_ids=[group]), 1, False),
            (looked, 9, False),
        ]
        for member in random.sample(members, len(members)):
            if member.is_classic:
                asked += [
                    (heartbeat_request(member.member_id, member.epoch, group=group), 4, False),
                    (join_request(member.member_id, group=group, instance=member.instance), 5, True),
                ]
            else:
                asked.append((beat_request(group, member), 1, False))
        for member in random.sample(members, len(members)):
            identity = MemberIdentity(member_id=member.member_id, group_instance_id=member.instance)
            gone = member._replace(epoch=-1)
            leave = LeaveGroupRequest(group_id=group, members=[identity])
            asked.append((leave, 5, False) if member.is_classic else (beat_request(group, gone), 1, False))
        asked.append((DeleteGroupsRequest(groups_names=[group]), 2, False))
        return asked


def _committer(of: Populated) -> tuple[str, int]:
    if not of.members:
        return "", -1
    return of.members[0].member_id, of.members[0].epoch


async def _classic(populace: Populace, group: str, *instances: str | None) -> tuple[Member, ...]:
    """A stable group with a dynamic member for each ``None``, a static one for each name."""
    ids = [await populace.member_id(group) for instance in instances if instance is None]
    generation = await populace.generation(group, *ids)
    members = [Member(each, generation, None, True) for each in ids]
    for instance in filter(None, instances):
        joined = await populace.classic_join(group, "", instance=instance)
        assert joined is None  # the others have to come again
        last = [await populace.classic_join(group, each) for each in ids][-1]
        assert last.error_code == 0, last
        described = await populace.arena.ask(DescribeGroupsRequest(groups=[group]), 6)
        (static,) = [each.member_id for each in described.groups[0].members if each.member_id not in ids]
        members = [each._replace(epoch=last.generation_id) for each in members]
        members.append(Member(static, last.generation_id, instance, True))
    await populace.sync(group, members[0].epoch, *(each.member_id for each in members))
    return tuple(members)


async def _stable(populace: Populace, group: str) -> tuple[Member, ...]:
    return await _classic(populace, group, None, None)


async def _static(populace: Populace, group: str) -> tuple[Member, ...]:
    return (await _classic(populace, group, None, "instance"))[::-1]


async def _preparing(populace: Populace, group: str) -> tuple[Member, ...]:
    members = await _classic(populace, group, None, "instance")
    joining = await populace.member_id(group)
    assert await populace.classic_join(group, joining) is None
    return *members, Member(joining, members[0].epoch, None, True)


async def _completing(populace: Populace, group: str) -> tuple[Member, ...]:
    ids = [await populace.member_id(group) for _ in range(2)]
    generation = await populace.generation(group, *ids)
    return tuple(Member(each, generation, None, True) for each in ids)


async def _handed_out(populace: Populace, group: str) -> tuple[Member, ...]:
    return (Member(await populace.member_id(group), -1, None, True),)


async def _of_another_type(populace: Populace, group: str) -> tuple[Member, ...]:
    member_id = await populace.member_id(group, kind="connect", protocols=("compatible",))
    generation = await populace.generation(group, member_id, kind="connect", protocols=("compatible",))
    return (Member(member_id, generation, None, True),)


async def _only_offsets(_: Populace, __: str) -> tuple[Member, ...]:
    return ()


async def _consumer(populace: Populace, group: str) -> tuple[Member, ...]:
    return (await populace.join(group, "one"),)


async def _reconciling(populace: Populace, group: str) -> tuple[Member, ...]:
    first = await populace.join(group, "one")
    second = await populace.join(group, "two")  # has to wait for what the first one owns
    return first, second


async def _with_instance(populace: Populace, group: str) -> tuple[Member, ...]:
    first = await populace.join(group, "static", instance_id="instance")
    return first, await populace.join(group, "two", subscribed_topic_names=["t", "nowhere"])


async def _away(populace: Populace, group: str) -> tuple[Member, ...]:
    members = await _with_instance(populace, group)
    await populace.join(group, "static", -2, instance_id="instance")
    return members


async def _expression(populace: Populace, group: str) -> tuple[Member, ...]:
    first = await populace.join(group, "one", subscribed_topic_names=None, subscribed_topic_regex="t.*")
    both = await populace.join(group, "two", subscribed_topic_regex="[a-t]")
    return first, both


async def _with_classic(populace: Populace, group: str) -> tuple[Member, ...]:
    modern = await populace.join(group, "modern")
    member_id = await populace.member_id(group)
    joined = await populace.classic_join(group, member_id)
    assert joined.error_code == 0, joined
    return modern, Member(member_id, joined.generation_id, None, True)


async def _upgraded(populace: Populace, group: str) -> tuple[Member, ...]:
    """A classic group with a static member that a consumer has joined."""
    members = await _classic(populace, group, None, "instance")
    return await populace.join(group, "modern"), *members


async def _left(populace: Populace, group: str) -> tuple[Member, ...]:
    member = await populace.join(group, "one")
    await populace.join(group, "one", -1)
    return (member,)


KINDS: dict[str, Callable[[Populace, str], Awaitable[tuple[Member, ...]]]] = {
    "classic stable": _stable,
    "classic static": _static,
    "classic preparing": _preparing,
    "classic completing": _completing,
    "classic handed out": _handed_out,
    "classic connect": _of_another_type,
    "only offsets": _only_offsets,
    "consumer stable": _consumer,
    "consumer reconciling": _reconciling,
    "consumer static": _with_instance,
    "consumer away": _away,
    "consumer regex": _expression,
    "consumer with classic": _with_classic,
    "consumer upgraded": _upgraded,
    "consumer left": _left,
}
