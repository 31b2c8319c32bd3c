"""SyncGroup, Heartbeat and LeaveGroup: what each state answers, and to whom."""

from collections.abc import Iterator

from tests.interop.scripts.exchange import Answer, Exchange
from tests.interop.scripts.members import Member, new_member, stable_one, stable_pair
from tests.interop.scripts.setting import ready_group

from kohort.model.errors import ErrorCode
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.sync_group import SyncGroupRequest

Steps = Iterator[tuple[str, Answer]]


def syncing(group: str, member: str, generation: int, **fields: str | None) -> SyncGroupRequest:
    request = SyncGroupRequest(
        group_id=group,
        member_id=member,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name="range",
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def sync_refusals(x: Exchange) -> Steps:
    """Unknown groups and members, other generations and protocols; the states in which one waits."""
    group = "script.sync"
    ready_group(x, "script.sync-none")
    for version in range(6):
        yield f"unknown group v{version}", x.get(syncing("script.sync-none", "m", 1), version)
    yield "empty group id", x.get(syncing("", "m", 1), 5)
    lead, follow = stable_pair(x, group)
    now = lead.generation
    for version in range(6):
        request = syncing(group, follow.member_id, now)
        yield f"stable v{version}", x.get(request, version, "follow")
    wrong: dict[str, SyncGroupRequest] = {
        "unknown member": syncing(group, "nobody", now),
        "empty member": syncing(group, "", now),
        "older generation": syncing(group, lead.member_id, now - 1),
        "newer generation": syncing(group, lead.member_id, now + 1),
        "negative generation": syncing(group, lead.member_id, -1),
        "unknown instance": syncing(group, lead.member_id, now, group_instance_id="nobody"),
        "other protocol type": syncing(group, lead.member_id, now, protocol_type="connect"),
        "other protocol": syncing(group, lead.member_id, now, protocol_name="sticky"),
        "no protocol type": syncing(group, lead.member_id, now, protocol_type=None),
        "no protocol": syncing(group, lead.member_id, now, protocol_name=None),
        "wrong member and generation": syncing(group, "nobody", 99),
    }
    for label, request in wrong.items():
        yield label, x.get(request, 5)
    yield "the leader syncs once more", lead.sync({lead.member_id: b"changed"})
    yield from _while_rebalancing(x, lead, follow)


def _while_rebalancing(x: Exchange, lead: Member, follow: Member) -> Steps:
    third = Member(x, lead.group, "third")
    third.get_id()
    yield "a pending id syncs", third.sync()
    third.start_join()
    lead.beat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    yield "sync while preparing", follow.sync()
    follow.start_join()
    lead.join()
    follow.joined()
    third.joined()
    follow.start_sync()
    yield "a follower waits", x.expect_silence("follow")
    lead.leave()
    yield "until the leader is gone", follow.synced()
    yield "heartbeat says the same", follow.beat()
    empty = stable_one(x, f"{lead.group}-emptied")
    empty.leave()
    yield "sync in an empty group", empty.sync()


def heartbeats(x: Exchange) -> Steps:
    """Every version and every refusal."""
    ready_group(x, "script.beat-none")

    def beat(group: str, member: str, generation: int, instance: str | None = None) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=group, member_id=member, generation_id=generation, group_instance_id=instance
        )

    for version in range(5):
        yield f"unknown group v{version}", x.get(beat("script.beat-none", "m", 1), version)
    yield "empty group id", x.get(beat("", "m", 1), 4)
    only = stable_one(x, "script.beat")
    for version in range(5):
        yield f"stable v{version}", x.get(beat(only.group, only.member_id, 1), version)
    for label, request in {
        "unknown member": beat(only.group, "nobody", 1),
        "empty member": beat(only.group, "", 1),
        "older generation": beat(only.group, only.member_id, 0),
        "newer generation": beat(only.group, only.member_id, 2),
        "negative generation": beat(only.group, only.member_id, -1),
        "unknown instance": beat(only.group, only.member_id, 1, "nobody"),
        "unknown member and generation": beat(only.group, "nobody", 7),
    }.items():
        yield label, x.get(request, 4)
    pending = Member(x, only.group, "pending")
    pending.get_id()
    yield "a pending id", pending.beat()
    yield "leaves", only.leave()
    yield "empty group", only.beat()


def leaving(x: Exchange) -> Steps:
    """Alone, several at once, twice, by instance, pending, unknown, in every version."""
    ready_group(x, "script.leave-none")
    for version in range(3):
        request = LeaveGroupRequest(group_id="script.leave-none", member_id="m")
        yield f"unknown group v{version}", x.get(request, version)
    nobody = MemberIdentity(member_id="m")
    for version in (3, 4, 5):
        request = LeaveGroupRequest(group_id="script.leave-none", members=[nobody, nobody])
        yield f"unknown group v{version}", x.get(request, version)
    yield "empty group id v2", x.get(LeaveGroupRequest(group_id="", member_id="m"), 2)
    yield "empty group id v5", x.get(LeaveGroupRequest(group_id="", members=[nobody]), 5)
    for version in range(6):
        only = stable_one(x, f"script.leave-v{version}")
        mine = [MemberIdentity(member_id=only.member_id)]
        request = LeaveGroupRequest(group_id=only.group, member_id=only.member_id, members=mine)
        yield f"v{version}", x.get(request, version)
        yield f"again v{version}", x.get(request, version)
    lead, follow = stable_pair(x, "script.leave-pair")
    yield "no members named", x.get(LeaveGroupRequest(group_id=lead.group), 5)
    several = [
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id=""),
        MemberIdentity(member_id="", group_instance_id="nobody"),
        MemberIdentity(member_id=follow.member_id, group_instance_id="nobody"),
        MemberIdentity(member_id=follow.member_id),
        MemberIdentity(member_id=follow.member_id),
    ]
    yield "several", x.get(LeaveGroupRequest(group_id=lead.group, members=several), 5)
    yield "the other is told", lead.beat()
    waiting = new_member(x, "script.leave-pending", "waiting")
    waiting.get_id()
    yield "a pending id leaves", waiting.leave()
    yield "and leaves again", waiting.leave()
    yield "and can no longer join", waiting.join()
    first = stable_one(x, "script.leave-instance", instance="one")
    by_instance = MemberIdentity(member_id="", group_instance_id="one")
    wrong = MemberIdentity(member_id="other", group_instance_id="one")
    yield "wrong id of an instance", x.get(LeaveGroupRequest(group_id=first.group, members=[wrong]), 5)
    yield "by instance", x.get(LeaveGroupRequest(group_id=first.group, members=[by_instance]), 5)
    yield "by instance again", x.get(LeaveGroupRequest(group_id=first.group, members=[by_instance]), 5)


def static_members(x: Exchange) -> Steps:
    """A static member comes back under a new id; the old one is fenced."""
    for version in (5, 7, 9):
        group = f"script.static-v{version}"
        first = stable_one(x, group, instance="one")
        second = Member(x, group, "again", instance="one")
        yield f"the leader is replaced v{version}", second.join(version=version)
        yield f"it syncs v{version}", second.sync({second.member_id: b"ignored"})
        yield f"the old id heartbeats v{version}", first.beat()
        yield f"the old id syncs v{version}", first.sync()
        yield f"the old id joins v{version}", first.join(version=version)
        without = Member(x, group, "without", member_id=first.member_id, generation=1)
        yield f"the old id without the instance v{version}", without.beat()
        yield f"the new id heartbeats v{version}", second.beat()
        yield f"the new id rejoins, as leader v{version}", second.join(version=version)
    other = stable_one(x, "script.static-change", instance="one")
    changed = Member(x, other.group, "again", instance="one")
    yield "replaced with other metadata", changed.join({"range": b"other"})
    yield "heartbeat of the changed", changed.beat()
    fresh = Member(x, other.group, "two", instance="two")
    fresh.start_join()
    changed.beat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    taking = Member(x, other.group, "three", instance="two")
    taking.start_join()
    yield "the one that waited is fenced", fresh.joined()
    yield "the first one rejoins", changed.join({"range": b"other"})
    yield "the one that took over has joined", taking.joined()
