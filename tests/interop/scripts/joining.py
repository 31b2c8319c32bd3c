"""FindCoordinator and JoinGroup: versions, validation in its order, protocols, rebalances."""

from collections.abc import Iterator

from tests.interop.scripts.exchange import Answer, Exchange
from tests.interop.scripts.members import RANGE, Member, new_member, stable_one, stable_pair, subscription
from tests.interop.scripts.setting import ready_group

from kohort.model.errors import ErrorCode
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest

Steps = Iterator[tuple[str, Answer]]
OTHER = {"range": subscription("script.other")}


def find_coordinator(x: Exchange) -> Steps:
    """Every version, several keys, key types that do not exist."""
    ready_group(x, "script.find")
    for version in range(4):
        yield f"v{version}", x.get(FindCoordinatorRequest(key="script.find"), version)
    for version in (4, 5, 6):
        keys = ["script.find", "", "script.find"]
        yield f"three keys v{version}", x.get(FindCoordinatorRequest(coordinator_keys=keys), version)
    yield "no keys", x.get(FindCoordinatorRequest(), 4)
    yield "empty key v3", x.get(FindCoordinatorRequest(key=""), 3)
    for kind in (2, 3, -1, 127):
        for version in (1, 3):
            request = FindCoordinatorRequest(key="script.find", key_type=kind)
            yield f"key type {kind} v{version}", x.get(request, version)
        request = FindCoordinatorRequest(coordinator_keys=["script.find"], key_type=kind)
        yield f"key type {kind} v4", x.get(request, 4)


def join_versions(x: Exchange) -> Steps:
    """A member on its own in every version: at once, or after it was given an id."""
    for version in range(10):
        member = new_member(x, f"script.join-v{version}", f"v{version}")
        yield f"v{version}", member.join(version=version)
        if member.generation < 0:
            yield f"v{version} with its id", member.join(version=version)
        yield f"v{version} synced", member.sync({member.member_id: b"all"})
        yield f"v{version} leaves", member.leave()
    for version in (5, 7, 9):
        static = new_member(x, f"script.join-static-v{version}", "static", instance="instance")
        yield f"static v{version}", static.join(version=version)


def join_refusals(x: Exchange) -> Steps:
    """Validation, one thing wrong at a time, then several."""
    group = "script.join-refused"
    ready_group(x, group)
    for version in (0, 4, 6, 7, 9):
        nameless = Member(x, "", "nameless", member_id="someone")
        yield f"empty group id v{version}", nameless.join(version=version)
        stranger = Member(x, "script.join-none", "stranger", member_id="someone")
        yield f"unknown group, given id v{version}", stranger.join(version=version)
    for session in (999, 1000, 1_800_000, 1_800_001, 0, -1):
        timed = Member(x, f"{group}-{session}", "timed", session=session)
        ready_group(x, timed.group)
        yield f"session of {session}", timed.join()
    for rebalance in (0, -1, -5):
        timed = Member(x, f"{group}-r{rebalance}", "timed", rebalance=rebalance)
        ready_group(x, timed.group)
        yield f"rebalance timeout of {rebalance}", timed.join()
    odd = Member(x, group, "odd")
    yield "no protocols", odd.join({})
    odd.x.post(odd.join_request(kind=""), 9, "odd", "odd")
    yield "no protocol type", odd.joined()
    both = Member(x, "", "both", session=0)
    yield "empty group id and bad session", both.join()
    yield from _against_a_member(x, group)


def _against_a_member(x: Exchange, group: str) -> Steps:
    only = stable_one(x, f"{group}-stable", rebalance=1000)
    other = Member(x, only.group, "other")
    yield "other protocol", other.join({"roundrobin": b""})
    x.post(other.join_request(kind="connect"), 9, "other", "other")
    yield "other protocol type", other.joined()
    yield "no protocols, stable", other.join({})
    other.member_id = "unknown-member"
    yield "unknown member", other.join()
    other.instance = "unknown-instance"
    yield "unknown instance with an id", other.join()
    other.member_id, other.instance = "", None
    yield "an id", other.get_id()
    other.instance = "late-instance"
    yield "a pending id with an instance", other.join()
    yield "the member rejoins unchanged, as leader", only.join()
    yield "lone member, disjoint protocols", only.join({"roundrobin": b""})


def rebalance(x: Exchange) -> Steps:
    """A second member arrives, the first rejoins, metadata changes, the leader leaves."""
    lead = new_member(x, "script.rebalance", "lead")
    yield "first gets an id", lead.get_id()
    yield "first joins", lead.join()
    yield "heartbeat before sync", lead.beat()
    yield "first syncs", lead.sync({lead.member_id: b"all"})
    follow = Member(x, lead.group, "follow")
    yield "second gets an id", follow.get_id()
    yield "an id alone does not disturb", lead.beat()
    follow.start_join()
    lead.beat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    yield "second waits", x.expect_silence("follow")
    yield "first rejoins", lead.join()
    yield "second has joined", follow.joined()
    follow.start_sync()
    yield "second waits for the assignment", x.expect_silence("follow")
    yield "first syncs again", lead.sync({lead.member_id: b"one", follow.member_id: b"two", "ghost": b"boo"})
    yield "second has synced", follow.synced()
    yield "a follower rejoins unchanged", follow.join()
    yield "and syncs again", follow.sync()
    follow.start_join(OTHER)
    lead.beat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    yield "a follower with other metadata waits", x.expect_silence("follow")
    yield "the leader rejoins", lead.join()
    yield "the follower has joined", follow.joined()
    yield "rejoining while completing", follow.join(OTHER)
    yield "the leader leaves", lead.leave()
    yield "the follower is told", follow.beat()
    yield "the follower rejoins and leads", follow.join(OTHER)


def protocol_choice(x: Exchange) -> Steps:
    """The protocol all know and most prefer; ties."""
    for label, one, two in (
        ("only common", ("range", "sticky"), ("roundrobin", "sticky")),
        ("a tie", ("range", "roundrobin"), ("roundrobin", "range")),
        ("a tie with cooperative", ("cooperative-sticky", "range"), ("range", "cooperative-sticky")),
        ("both prefer the second", ("roundrobin", "range"), ("roundrobin", "range")),
    ):
        lead = new_member(x, f"script.choice {label}", "lead")
        follow = Member(x, lead.group, "follow")
        mine, theirs = dict.fromkeys(one, RANGE["range"]), dict.fromkeys(two, RANGE["range"])
        lead.join(mine)
        yield f"{label}: alone", lead.join(mine)
        follow.join(theirs)
        follow.start_join(theirs)
        lead.beat_until(ErrorCode.REBALANCE_IN_PROGRESS)
        yield f"{label}: leader", lead.join(mine)
        yield f"{label}: follower", follow.joined()


def join_timeouts(x: Exchange) -> Steps:
    """Members that do not come back in time are dropped: at the join, at the sync, by their session."""
    lead, follow = stable_pair(x, "script.late-join", rebalance=1000)
    late = Member(x, lead.group, "late", rebalance=1000)
    late.get_id()
    late.start_join()
    lead.beat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    yield "the leader rejoins, the follower does not", lead.join()
    yield "the third has joined", late.joined()
    yield "the absent one is unknown", follow.beat()
    lead, follow = stable_pair(x, "script.late-sync", rebalance=1000)
    follow.start_join(OTHER)
    lead.beat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    lead.join()
    follow.joined()
    lead.start_sync({lead.member_id: b"one"})
    yield "the leader has synced", lead.synced()
    lead.beat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    yield "the one that never synced is unknown", follow.beat()
    silent = stable_one(x, "script.silent", session=1000)
    waiting = Member(x, silent.group, "waiting")
    waiting.get_id()
    waiting.start_join()
    yield "a silent member is dropped, the next one leads", waiting.joined()
    yield "it is unknown", silent.beat()
