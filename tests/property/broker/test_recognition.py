"""A heartbeat or a commit that is like one before it is answered as if it were the first."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.broker.grouping import commit_request, heartbeat_request, join_request, sync_request
from tests.fault.arena import Arena, Peer

from kohort.broker.commit_recognition import MOST_ROWS
from kohort.broker.connection import BrokerConnection
from kohort.broker.coordinator import GroupCoordinator
from kohort.broker.dispatch import Dispatch
from kohort.broker.features import GROUP_VERSION
from kohort.broker.partition_runtime import Status
from kohort.codec.compiled import decode
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.security.acls import (
    ANY_HOST,
    ANY_NAME,
    ANY_PRINCIPAL,
    Acl,
    AclResourceType,
    Operation,
    PatternType,
    Permission,
)
from kohort.testing.intercept import Interceptions, answer, rule
from kohort.wire.apis import ApiKey
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.heartbeat import HeartbeatResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.offset_commit import OffsetCommitResponse
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

CONNECTIONS = 3
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
_BODY = 9  # where it begins in a frame: after size, correlation id and tags
_TURNS = 20  # of the loop: what can be answered without further requests is answered then

MakeRequest = Callable[[str], Message]
"""A request for a group of this name."""


class Said(NamedTuple):
    """What a client sends on one of the connections: ``copies`` of a request, in two reads if it is cut."""

    connection: int
    make: MakeRequest
    version: int
    copies: int = 1
    cut: int = 0


class Passed(NamedTuple):
    """Time goes on."""

    milliseconds: int


class Intercepted(NamedTuple):
    """A rule about heartbeats is set or dropped."""

    is_on: bool


class Reloaded(NamedTuple):
    """The coordinator loses what it has in memory, and reads its log again: later, if twice in a row."""


class Made(NamedTuple):
    """The topic that is committed is created; an error if it exists."""

    partitions: int


class Dropped(NamedTuple):
    """The topic that is committed is deleted; an error if there is none."""


class Ruled(NamedTuple):
    """The rules for clients are replaced by one that denies something, or by none. (Where rules count.)"""

    denied: tuple[AclResourceType, Operation] | None


class Switched(NamedTuple):
    """Consumer groups are switched on or off."""

    is_on: bool


Step = Said | Passed | Intercepted | Reloaded | Made | Dropped | Ruled | Switched


def member_id(number: int) -> str:
    return f"arena-{UUID(int=number)}"


def heartbeat(number: int, generation: int) -> MakeRequest:
    return lambda group: heartbeat_request(member_id(number), generation, group=group)


def join(number: int) -> MakeRequest:
    return lambda group: join_request(member_id(number) if number else "", group=group)


def sync(number: int, generation: int) -> MakeRequest:
    who = member_id(number)
    return lambda group: sync_request(who, generation, {who: b"all"}, group=group)


def topic_id(group: str, incarnation: int) -> bytes:
    return UUID(int=int(group.removeprefix("group-")) * 1_000 + incarnation, version=4).bytes


def commit(
    who: tuple[int, int], offsets: dict[int, int], epoch: int, metadata: str | None, incarnation: int
) -> MakeRequest:
    """Of a member (or of none, with number 0); by the name of the topic, or by the id it got once."""
    number, generation = who
    member = (member_id(number), generation) if number else ("", -1)

    def make(group: str) -> Message:
        topic: str | bytes = topic_id(group, incarnation) if incarnation else f"{group}-topic"
        return commit_request(
            *offsets.items(), topic=topic, member=member, group=group, metadata=metadata, epoch=epoch
        )

    return make


def beat(epoch: int, member: str, says: str) -> MakeRequest:
    """A heartbeat of a member of a consumer group."""

    def make(group: str) -> Message:
        owned = [TopicPartitions(topic_id=topic_id(group, 1), partitions=[0, 1])]
        return ConsumerGroupHeartbeatRequest(
            group_id=f"{group}-new",
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=5_000 if "names" in says else -1,
            subscribed_topic_names=[f"{group}-topic"] if "names" in says else None,
            topic_partitions=[] if "none owned" in says else owned if "owned" in says else None,
        )

    return make


def fetch(group: str) -> Message:
    wanted = OffsetFetchRequestTopic(name=f"{group}-topic", partition_indexes=[0, 1, 2])
    return OffsetFetchRequest(group_id=group, topics=[wanted])


def leave(number: int) -> MakeRequest:
    gone = MemberIdentity(member_id=member_id(number))
    return lambda group: LeaveGroupRequest(group_id=group, members=[gone])


numbers = st.integers(1, 3)
generations = st.integers(1, 3)
connections = st.integers(0, CONNECTIONS - 1)


once, uncut = st.just(1), st.just(0)


def said(
    requests: st.SearchStrategy[MakeRequest],
    versions: st.SearchStrategy[int],
    copies: st.SearchStrategy[int] = once,
    cuts: st.SearchStrategy[int] = uncut,
) -> st.SearchStrategy[Said]:
    return st.builds(Said, connections, requests, versions, copies, cuts)


HEARTBEATS = said(
    st.builds(heartbeat, numbers, generations),
    st.sampled_from((0, 3, 4, 4)),
    copies=st.sampled_from((1, 1, 2, 7)),
    cuts=st.sampled_from((0, 0, 3, 11, 40, 80, 100)),
)
COMMITTED = st.one_of(
    st.fixed_dictionaries({0: st.integers(0, 3)}),
    st.fixed_dictionaries({1: st.integers(-1, 2**40), 0: st.sampled_from((0, 9))}),
    st.fixed_dictionaries({2: st.integers(0, 3)}),
)
MEMBERS = st.tuples(st.sampled_from((0, 1, 1, 2)), generations)


def commits(versions: tuple[int, ...], incarnations: st.SearchStrategy[int]) -> st.SearchStrategy[Said]:
    metadata = st.sampled_from(("", "", None, "m", "m" * 5_000))
    requests = st.builds(commit, MEMBERS, COMMITTED, st.sampled_from((-1, 3)), metadata, incarnations)
    return said(
        requests,
        st.sampled_from(versions),
        copies=st.sampled_from((1, 3, 3, 5)),
        cuts=st.sampled_from((0, 0, 11, 80)),
    )


BEATS = said(
    st.builds(
        beat,
        st.sampled_from((0, 1, 1, 2, 2, 3, 4, -1)),
        st.sampled_from(("m1", "m1", "m2")),
        st.sampled_from(("", "", "names, none owned", "owned")),
    ),
    st.sampled_from((0, 1, 1)),
    copies=st.sampled_from((1, 1, 3)),
    cuts=st.sampled_from((0, 0, 11, 40)),
)
COMMITS = commits((2, 5, 6, 8, 8, 8, 9), st.just(0)) | commits((10,), st.integers(1, 2))
STEPS: st.SearchStrategy[Step] = st.one_of(
    HEARTBEATS,
    HEARTBEATS,
    COMMITS,
    COMMITS,
    BEATS,
    BEATS,
    said(st.just(fetch), st.just(7)),
    said(st.builds(join, st.integers(0, 3)), st.just(3)),
    said(st.builds(sync, numbers, generations), st.just(3)),
    said(st.builds(leave, numbers), st.just(4)),
    st.builds(Passed, st.sampled_from((1_000, 6_000, 40_000))),
    st.builds(Intercepted, st.booleans()),
    st.builds(Reloaded),
    st.builds(Made, st.integers(1, 3)),
    st.builds(Dropped),
    st.builds(Switched, st.booleans()),
    st.builds(Ruled, st.none() | st.tuples(st.sampled_from((TOPIC, GROUP)), st.just(Operation.READ))),
)
COMMIT = commit((1, 1), {0: 5}, -1, "", 0)
STABLE: list[Step] = [
    Made(2),
    Said(0, join(0), 3),
    Said(0, sync(1, 1), 3),
    Said(0, heartbeat(1, 1), 4),
    *[Said(0, COMMIT, 8)] * 2,
    Said(0, beat(0, "m1", "names, none owned"), 1),
    *[Said(0, beat(1, "m1", ""), 1)] * 2,
]
"""Member 1 is alone in generation 1, and m1 in epoch 1 of a consumer group. What they say has been seen."""


def refuse_heartbeats() -> Interceptions:
    rules = Interceptions()
    refused = HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    rules.add(rule(answer(refused), api="Heartbeat"))
    rules.add(rule(answer(OffsetCommitResponse()), api="OffsetCommit"))
    return rules


def creation(group: str, partitions: int) -> Message:
    topic = CreatableTopic(name=f"{group}-topic", num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[topic])


def deletion(group: str) -> Message:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=f"{group}-topic")])


def set_rules(arena: Arena, denied: tuple[AclResourceType, Operation] | None) -> None:
    authorizer = arena.server.broker.authorizer
    if authorizer is None:
        return
    rules = []
    if denied is not None:
        kind, operation = denied
        who = (ANY_PRINCIPAL, ANY_HOST)
        rules.append(Acl(kind, ANY_NAME, PatternType.LITERAL, *who, operation, Permission.DENY))
    authorizer.changed(rules)


async def take(step: Step, arena: Arena, group: str, peers: list[Peer]) -> None:  # noqa: C901 # one case each
    server = arena.server
    match step:
        case Said(connection, make, version, copies, cut):
            frames = arena.frames(make(group), version, copies)
            for part in (frames[:cut], frames[cut:]) if cut else (frames,):
                peers[connection].send(part)
        case Passed(milliseconds):
            arena.advance(milliseconds)
            await server.broker.coordinator.ready()
        case Intercepted(is_on):
            server.dispatch.interceptor = refuse_heartbeats() if is_on else None
        case Reloaded():
            for runtime in server.broker.coordinator._groups.partitions.values():
                runtime._reload(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            await server.broker.coordinator.ready()  # how many turns a load takes depends on the machine
        case Made(partitions):
            await arena.ask(creation(group, partitions), 7)
        case Dropped():
            await arena.ask(deletion(group), 6)
        case Ruled(denied):
            set_rules(arena, denied)
        case Switched(is_on):
            await server.broker.features.set(GROUP_VERSION, int(is_on))


async def conversation(arena: Arena, group: str, steps: list[Step]) -> list[list[bytes]]:
    """What comes back on each connection, after each step."""
    peers = [Peer(arena.server) for _ in range(CONNECTIONS)]
    heard = []
    for step in steps:
        await take(step, arena, group, peers)
        await until_stored(arena)
        heard.append([peer.take() for peer in peers])
    for peer in peers:
        peer.hang_up()
    arena.server.dispatch.interceptor = None
    set_rules(arena, None)
    await arena.server.broker.features.set(GROUP_VERSION, 1)
    await until_loaded(arena)
    return heard


async def until_stored(arena: Arena) -> None:
    """A thread stores what is answered then; how long that takes depends on the machine."""
    runtimes = arena.server.broker.coordinator._groups.partitions.values()
    while True:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        appending = [each.appending for each in runtimes if each.appending and not each.appending.done()]
        if not appending:
            return
        await asyncio.wait(appending)


async def until_loaded(arena: Arena) -> None:
    """A shard that was dropped more than once waits for a while before it is loaded again."""
    coordinator = arena.server.broker.coordinator
    while any(each.status is not Status.ACTIVE for each in coordinator._groups.partitions.values()):
        arena.advance(1_000)
        await coordinator.ready()


@pytest.fixture(scope="module", params=["everything is allowed", "rules"])
def brokers(request: pytest.FixtureRequest) -> Iterator[tuple[Arena, Arena]]:
    """One that recognises frames, and one that reads each of them."""
    rules = (
        {"authorizer": "acl", "allow.everyone.if.no.acl.found": "true"} if request.param == "rules" else {}
    )
    with Arena(**rules) as recognising, Arena(**rules) as reading:
        reading.server.dispatch._remember = lambda *_: None
        yield recognising, reading


_groups = itertools.count()


def play(arena: Arena, group: str, steps: list[Step]) -> list[list[bytes]]:
    """The conversation, in a group whose members get the ids 1, 2, 3."""
    numbers, incarnations = itertools.count(1), itertools.count(1)
    arena.number_from(1)
    with (
        patch("kohort.broker.handlers.join_group.uuid.uuid4", lambda: UUID(int=next(numbers))),
        patch("kohort.broker.topics.new_topic_id", lambda: topic_id(group, next(incarnations))),
    ):
        return arena.run(lambda: conversation(arena, group, [*STABLE, *steps]))


@example([Intercepted(is_on=True), Said(0, heartbeat(1, 1), 4), Said(0, COMMIT, 8)])
@example([Dropped(), Said(0, COMMIT, 8), Made(1), Said(0, COMMIT, 8), Said(0, fetch, 7)])
@example([Said(0, commit((1, 1), {0: 6}, 3, "", 0), 8), Said(0, fetch, 7)])
@example([Said(0, join(0), 3), Said(0, COMMIT, 8), Said(0, heartbeat(1, 1), 4)])
@example([Reloaded(), Said(0, COMMIT, 8), Said(0, fetch, 7)])
@example([Ruled((TOPIC, Operation.READ)), Said(0, COMMIT, 8), Ruled(None), Said(0, COMMIT, 8)])
@example([Ruled((GROUP, Operation.READ)), Said(0, beat(1, "m1", ""), 1), Said(0, heartbeat(1, 1), 4)])
@example([Said(1, beat(0, "m2", "names, none owned"), 1), *[Said(0, beat(1, "m1", ""), 1)] * 2])
@example(
    [
        Switched(is_on=False),
        Said(0, beat(1, "m1", ""), 1),
        Switched(is_on=True),
        Said(0, beat(1, "m1", ""), 1),
    ]
)
@given(steps=st.lists(STEPS, max_size=25))
def test_what_was_seen_before_is_answered_as_if_it_were_new(
    brokers: tuple[Arena, Arena], steps: list[Step]
) -> None:
    group = f"group-{next(_groups)}"
    seen, unseen = (play(arena, group, [*steps, Said(0, fetch, 7)]) for arena in brokers)
    assert seen == unseen
    assert brokers[0].bugs() == brokers[1].bugs() == []


def test_the_members_of_every_history_are_in_their_groups(brokers: tuple[Arena, Arena]) -> None:
    heard = play(brokers[0], f"group-{next(_groups)}", [])
    heartbeats = [decode(HeartbeatResponse, 4, step[0], _BODY) for step in heard[3:4]]
    commits = [decode(OffsetCommitResponse, 8, step[0], _BODY) for step in heard[4:6]]
    beats = [decode(ConsumerGroupHeartbeatResponse, 1, step[0], _BODY) for step in heard[6:]]
    assert [reply.error_code for reply in heartbeats] == [0]
    assert [reply.topics[0].partitions[0].error_code for reply in commits] == [0, 0]
    assert [(reply.error_code, reply.member_epoch) for reply in beats] == [(0, 1)] * 3
    assert beats[0].assignment is not None


def test_what_was_seen_before_is_not_read_again(brokers: tuple[Arena, Arena]) -> None:
    read: list[int] = []
    arena = brokers[0]
    serve = Dispatch.serve

    def count(dispatch: Dispatch, frame: bytes, connection: BrokerConnection) -> object:
        read.append(int.from_bytes(frame[:2], "big"))
        return serve(dispatch, frame, connection)

    with patch.object(Dispatch, "serve", count):
        again: list[Step] = [Said(0, heartbeat(1, 1), 4, copies=50)]
        again += [Said(0, commit((1, 1), {0: offset}, epoch, "", 0), 8) for offset, epoch in ((6, 1), (7, 2))]
        play(arena, f"group-{next(_groups)}", again)
    assert read.count(ApiKey.HEARTBEAT) == 1
    assert read.count(ApiKey.CONSUMER_GROUP_HEARTBEAT) == 2
    assert read.count(ApiKey.OFFSET_COMMIT) == 2  # the second one shows that it comes again


def test_a_heartbeat_with_no_news_is_no_command(brokers: tuple[Arena, Arena]) -> None:
    asked: list[str] = []
    ask = GroupCoordinator.ask

    def count(coordinator: GroupCoordinator, group_id: str, *what: Any) -> object:  # noqa: ANN401
        asked.append(group_id)
        return ask(coordinator, group_id, *what)

    group = f"group-{next(_groups)}"
    with patch.object(GroupCoordinator, "ask", count):
        play(brokers[0], group, [Said(0, beat(1, "m1", ""), 1, copies=20)])
    assert asked.count(f"{group}-new") == 2  # it joins, and its first heartbeat is read


def test_a_commit_of_very_many_rows_is_not_kept(brokers: tuple[Arena, Arena]) -> None:
    def many(group: str) -> Message:
        rows = [(0, 1)] * (MOST_ROWS + 1)
        return commit_request(*rows, topic=f"{group}-topic", member=(member_id(1), 1), group=group)

    arena = brokers[0]
    read: list[bytes] = []
    serve = Dispatch.serve

    def count(dispatch: Dispatch, frame: bytes, connection: BrokerConnection) -> object:
        read.append(frame)
        return serve(dispatch, frame, connection)

    with patch.object(Dispatch, "serve", count):
        play(arena, f"group-{next(_groups)}", [Said(0, many, 8)] * 5)
    commits = [frame for frame in read if int.from_bytes(frame[:2], "big") == ApiKey.OFFSET_COMMIT]
    assert sum(len(frame) > 1_000 for frame in commits) == 5


def test_a_connection_whose_commits_differ_each_time_is_not_looked_at_for_ever(
    brokers: tuple[Arena, Arena],
) -> None:
    kept: list[int] = []
    arena = brokers[0]
    remember = Dispatch._remember

    def count(dispatch: Dispatch, *what: Any) -> object:  # noqa: ANN401
        kept.append(1)
        return remember(dispatch, *what)

    with patch.object(Dispatch, "_remember", count):
        names = [f"{number:03}" for number in range(50)]
        play(
            arena,
            f"group-{next(_groups)}",
            [Said(1, commit((1, 1), {0: 1}, 1, name, 0), 8) for name in names],
        )
    assert len(kept) < 10
