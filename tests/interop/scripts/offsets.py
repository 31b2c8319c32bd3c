"""OffsetCommit, OffsetFetch, OffsetDelete: versions, who may commit when, what comes back."""

from collections.abc import Iterator

from tests.interop.scripts.exchange import Answer, Exchange
from tests.interop.scripts.members import Member, stable_one, stable_pair, subscription
from tests.interop.scripts.setting import make_topic, ready_group

from kohort.model.errors import ErrorCode
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

Steps = Iterator[tuple[str, Answer]]


def at(index: int, offset: int, metadata: str | None = "", epoch: int = -1) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset,
        committed_metadata=metadata,
        committed_leader_epoch=epoch,
    )


def committing(
    group: str, topic: str | bytes, *parts: OffsetCommitRequestPartition, by: Member | None = None
) -> OffsetCommitRequest:
    """A commit by a member, or by nobody."""
    where = OffsetCommitRequestTopic(partitions=list(parts))
    if isinstance(topic, bytes):
        where.topic_id = topic
    else:
        where.name = topic
    request = OffsetCommitRequest(group_id=group, topics=[where], group_instance_id=None)
    if by is not None:
        request.member_id, request.group_instance_id = by.member_id, by.instance
        request.generation_id_or_member_epoch = by.generation
    return request


def fetching(group: str, topic: str | None, *parts: int, stable: bool = False) -> OffsetFetchRequest:
    """Offsets of one group in the shape of every version; no topic means all."""
    old = None if topic is None else [OffsetFetchRequestTopic(name=topic, partition_indexes=list(parts))]
    new = None if topic is None else [OffsetFetchRequestTopics(name=topic, partition_indexes=list(parts))]
    asked = OffsetFetchRequestGroup(group_id=group, topics=new, member_id=None)
    return OffsetFetchRequest(group_id=group, topics=old, groups=[asked], require_stable=stable)


def fetching_by_id(group: str, topic_id: bytes, *parts: int) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=list(parts))]
    asked = OffsetFetchRequestGroup(group_id=group, topics=topics, member_id=None)
    return OffsetFetchRequest(groups=[asked])


def commits(x: Exchange) -> Steps:
    """Commits without a member, in every version, and what is fetched in every version."""
    topic, group = "script.commits", "script.commits"
    topic_id = make_topic(x, topic, 3)
    ready_group(x, group)
    for version in range(2, 10):
        request = committing(group, topic, at(0, version, f"v{version}", epoch=0))
        yield f"commit v{version}", x.get(request, version)
    yield "commit v10", x.get(committing(group, topic_id, at(1, 10, "ten", epoch=0)), 10)
    for version in range(1, 10):
        yield f"fetch v{version}", x.get(fetching(group, topic, 0, 1, 2), version)
    yield "fetch v10", x.get(fetching_by_id(group, topic_id, 0, 1, 2), 10)
    for version in (2, 5, 7, 8, 9, 10):
        yield f"fetch all v{version}", x.get(fetching(group, None), version)
    yield "fetch stable", x.get(fetching(group, topic, 0, stable=True), 9)
    yield "fetch an unknown topic", x.get(fetching(group, "script.none", 0), 9)
    yield "fetch a bad name", x.get(fetching(group, "no good", 0), 9)
    yield "fetch by unknown id", x.get(fetching_by_id(group, bytes(range(16)), 0), 10)
    yield "fetch by zero id", x.get(fetching_by_id(group, bytes(16), 0), 10)
    for version in (1, 2, 7, 8, 9):
        yield f"fetch of no group v{version}", x.get(fetching("script.commits-none", topic, 0), version)
    yield "fetch all of no group", x.get(fetching("script.commits-none", None), 9)
    yield "fetch with an empty group id", x.get(fetching("", topic, 0), 9)
    two = fetching(group, topic, 0)
    two.groups = [*two.groups, *fetching("script.commits-none", topic, 0).groups]
    yield "fetch two groups", x.get(two, 9)
    member = fetching(group, topic, 0)
    member.groups[0].member_id, member.groups[0].member_epoch = "someone", 5
    yield "fetch as a member of a classic group", x.get(member, 9)
    yield from _odd_commits(x, topic)


def _odd_commits(x: Exchange, topic: str) -> Steps:
    group = ready_group(x, "script.commits-odd")
    for label, parts in {
        "unknown partition": (at(7, 1), at(0, 1)),
        "negative partition": (at(-1, 1),),
        "negative offset": (at(0, -1),),
        "huge offset": (at(1, 1 << 60),),
        "null metadata": (at(2, 5, None),),
        "metadata of 4096": (at(0, 6, "x" * 4096),),
        "metadata of 4097 beside a good one": (at(1, 7, "x" * 4097), at(2, 8, "fine")),
        "4096 wide characters": (at(0, 9, "\u20ac" * 4096),),
        "2048 pairs": (at(0, 10, "\U0001f600" * 2048),),
        "2049 pairs": (at(0, 11, "\U0001f600" * 2049),),
        "the same partition twice": (at(1, 12, "first"), at(1, 13, "second")),
    }.items():
        yield label, x.get(committing(group, topic, *parts), 9)
    yield "no partitions", x.get(committing(group, topic), 9)
    yield "no topics", x.get(OffsetCommitRequest(group_id=group, group_instance_id=None), 9)
    for version in (2, 9):
        yield f"unknown topic v{version}", x.get(committing(group, "script.none", at(0, 1)), version)
    yield "unknown id", x.get(committing(group, bytes(range(16)), at(0, 1)), 10)
    yield "zero id", x.get(committing(group, bytes(16), at(0, 1)), 10)
    kept = committing(group, topic, at(0, 77))
    kept.retention_time_ms = 60_000
    yield "with a retention time v3", x.get(kept, 3)
    ready_group(x, "")
    yield "an empty group id", x.get(committing("", topic, at(0, 1)), 9)
    yield "the group without a name is deleted", x.get(DeleteGroupsRequest(groups_names=[""]), 2)
    yield "what is there now", x.get(fetching(group, None), 9)


def commit_rights(x: Exchange) -> Steps:
    """Who may commit to a group in which state."""
    topic = "script.rights"
    make_topic(x, topic)
    one = at(0, 1)
    for version in (2, 8, 9):
        ghost = Member(x, ready_group(x, f"script.rights-none-{version}"), "ghost", "ghost", 5)
        yield f"unknown group v{version}", x.get(committing(ghost.group, topic, one, by=ghost), version)
    yield (
        "unknown topic in an unknown group",
        x.get(committing("script.rights-none-9", "script.none", one, by=ghost), 9),
    )
    lead, follow = stable_pair(x, "script.rights")

    def commit(label: str, by: Member | None, version: int = 9) -> tuple[str, Answer]:
        return label, x.get(committing(lead.group, topic, one, by=by), version)

    yield commit("stable, the leader", lead)
    yield commit("stable, nobody", None)
    nobody = Member(x, lead.group, "nobody", "nobody", lead.generation)
    yield commit("stable, unknown member", nobody)
    nobody.generation = -1
    yield commit("stable, unknown member without a generation", nobody)
    for generation in (lead.generation - 1, lead.generation + 1, -1):
        old = Member(x, lead.group, "old", lead.member_id, generation)
        yield commit(f"stable, generation {generation}", old)
    posing = Member(x, lead.group, "posing", lead.member_id, lead.generation, "instance")
    yield commit("stable, unknown instance", posing)
    only_instance = Member(x, lead.group, "posing", "", -1, "instance")
    yield commit("stable, only an instance", only_instance)
    follow.start_join({"range": subscription("script.other")})
    lead.beat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    yield commit("preparing, the leader", lead)
    yield commit("preparing, nobody", None)
    before = lead.generation
    lead.join()
    follow.joined()
    yield commit("completing, the leader", lead)
    yield commit("completing, the last generation", Member(x, lead.group, "l", lead.member_id, before))
    yield commit("completing, nobody", None)
    lead.leave()
    follow.leave()
    yield commit("empty, the leader that was", lead)
    yield commit("empty, nobody", None)
    negative = Member(x, lead.group, "n", "whoever", -1, "any")
    yield commit("empty, anyone without a generation", negative)
    static = stable_one(x, "script.rights-static", instance="one")
    again = Member(x, static.group, "again", instance="one")
    again.join()
    yield "static, the old id", x.get(committing(static.group, topic, one, by=static), 9)
    again.generation = 1
    yield "static, the new id", x.get(committing(static.group, topic, one, by=again), 9)


def forget(group: str, *names: str, parts: tuple[int, ...] = (0,)) -> OffsetDeleteRequest:
    listed = [OffsetDeleteRequestPartition(partition_index=index) for index in parts]
    topics = [OffsetDeleteRequestTopic(name=name, partitions=listed) for name in names]
    return OffsetDeleteRequest(group_id=group, topics=topics)


def offset_deletion(x: Exchange) -> Steps:
    """OffsetDelete: unknown, subscribed, not subscribed, other protocol types."""
    topic, other = "script.forget", "script.forget-other"
    make_topic(x, topic, 2)
    make_topic(x, other)
    group = ready_group(x, "script.forget")
    yield "unknown group", x.get(forget("script.forget-none", topic), 0)
    yield "empty group id", x.get(forget("", topic), 0)
    x.ask(committing(group, topic, at(0, 5), at(1, 6)), 9)
    yield "one of two", x.get(forget(group, topic), 0)
    yield "what is left", x.get(fetching(group, None), 9)
    yield "what is not there", x.get(forget(group, topic), 0)
    yield "unknown topic and partition", x.get(forget(group, "script.none", topic, parts=(0, 9)), 0)
    yield "no topics", x.get(forget(group), 0)
    member = stable_one(x, "script.forget-member")
    x.ask(committing(member.group, topic, at(0, 5), by=member), 9)
    yield "not subscribed", x.get(forget(member.group, topic), 0)
    subscribed = Member(x, ready_group(x, "script.forget-subscribed"), "subscribed")
    wants = {"range": subscription(topic)}
    subscribed.join(wants)
    subscribed.join(wants)
    subscribed.sync({subscribed.member_id: b"x"})
    yield "subscribed to one of two", x.get(forget(subscribed.group, topic, other), 0)
    connect = Member(x, ready_group(x, "script.forget-connect"), "connect")
    for _ in range(2):
        x.post(connect.join_request(kind="connect"), 9, "connect", "connect")
        connect.joined()
    yield "another protocol type with members", x.get(forget(connect.group, topic), 0)
    odd = Member(x, ready_group(x, "script.forget-odd"), "odd")
    for _ in range(2):
        odd.join({"range": b"\1"})
    yield "a subscription nobody can read", x.get(forget(odd.group, topic), 0)
