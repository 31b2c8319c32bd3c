"""Odd requests to groups that have members: of each kind, in each state, by members and by strangers.

Every field of every request about a group at its extremes, in a group that exists: the core looks at the
members then, and writes them down. Afterwards the group has an ordinary life to its end, because what was
let in may break only when its member leaves. The other group of the same shard notices nothing.
"""

import asyncio
import itertools
from functools import partial
from random import Random
from typing import NamedTuple

import pytest
from tests.broker.exemplars import exemplar, versions
from tests.fault.arena import Arena, ClosedError, is_unknown
from tests.fault.extremes import Change, changed, changes
from tests.fault.largest import ROWS
from tests.fault.populated import KINDS, SENDERS, Member, Populace, as_sender, beat_request
from tests.rounds import ROUNDS

from kohort.broker.topic_runtime import load
from kohort.codec.compiled import EncodeError, decode, encode
from kohort.codec.schema import Message
from kohort.groups.events import OffsetRow
from kohort.groups.state import State
from kohort.wire.apis import APIS, ApiKey

pytestmark = pytest.mark.slow

ABOUT_GROUPS = (
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
)
GROUPS = 1 + ROUNDS // 5  # that a change is tried in
OF_AN_OLDER_VERSION = 5 * GROUPS
NOBODY = Member("x", 0)
ENDED_BY_REQUESTS = 0.7  # of the groups; the others are left to their timers


class Case(NamedTuple):
    """What is sent to which group as whom."""

    kind: str
    sender: int  # of SENDERS
    changes: tuple[Change, ...]


def cases(key: ApiKey, version: int, topic_id: bytes) -> list[Case]:
    """Each change in groups and by senders of all sorts; a few only for the older versions."""
    random = Random(f"{key} {version}")
    groups = list(itertools.product(KINDS, range(len(SENDERS))))
    single = changes(ordinary(key, version, topic_id, "g", NOBODY), version, topic_id)
    every = [
        Case(kind, sender, wanted)
        for change in single
        for wanted in ((), (change,), (random.choice(single), change))
        for kind, sender in random.sample(groups, GROUPS)
    ]
    is_newest = version == ROWS[key].newest
    return every if is_newest else random.sample(every, min(len(every), OF_AN_OLDER_VERSION))


def ordinary(key: ApiKey, version: int, topic_id: bytes, group: str, sender: Member) -> Message:
    request = exemplar(key, topic_id)
    as_sender(request, group, sender)
    return decode(APIS[key].request_class, version, encode(request, version))


async def send_all(key: ApiKey, version: int, arena: Arena) -> list[str]:
    """Send the cases to groups of their own; what went wrong."""
    populace = Populace(arena)
    bystander = await populace.join("bystander", "bystander")
    runtime = arena.server.broker.coordinator._groups.partitions[0]
    shard, wrong = runtime.shard, []
    for number, case in enumerate(cases(key, version, arena.topic_id)):
        random = Random(number)
        of = await populace.make(case.kind)
        member = random.choice(of.members) if of.members else NOBODY
        make = partial(ordinary, key, version, arena.topic_id, of.group, SENDERS[case.sender].of(member))
        request = changed(make, version, case.changes)
        found = await send(arena, key, version, request)
        if random.random() < ENDED_BY_REQUESTS:
            found += await populace.aftermath(of, random)
        found += arena.bugs()
        if runtime.shard is not shard:
            shard = runtime.shard
            found.append("the shard was built again")
        who = SENDERS[case.sender].name
        wrong += [f"{key.name} v{version} {case.kind}, {who}: {each}: {str(request)[:400]}" for each in found]
        beat = await arena.ask(beat_request("bystander", bystander), 1)
        assert beat.error_code == 0, (beat, wrong)
    wrong += await stored_as_it_is(arena)
    arena.advance(3_600_000)  # everybody's time is up
    return wrong + arena.bugs() + await stored_as_it_is(arena)


async def send(arena: Arena, key: ApiKey, version: int, request: Message) -> list[str]:
    try:
        body = encode(request, version)
    except EncodeError:
        return []  # a place where this version allows no null
    try:
        waits = key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
        reply = await arena.throw(arena.frame_of(key, version, body), may_wait=waits)
    except ClosedError:
        return [] if len(body) > ROWS[key].max_bytes - 100 else ["the connection was closed"]
    is_known = reply is None or not is_unknown(arena.read(key, version, reply))
    return [] if is_known or names_an_instance_for_a_handed_out_id(request) else ["UNKNOWN_SERVER_ERROR"]


def names_an_instance_for_a_handed_out_id(request: Message) -> bool:
    """Kafka hands ids out to dynamic members only, and does not know what to say then."""
    of_such_a_group = getattr(request, "group_id", "").startswith("classic-handed-out")
    return of_such_a_group and getattr(request, "group_instance_id", None) is not None


async def stored_as_it_is(arena: Arena) -> list[str]:
    """What differs between the groups in memory and the groups that a restart would load."""
    coordinator = arena.server.broker.coordinator
    runtime = coordinator._groups.partitions[0]
    while runtime._flushing or coordinator._effects:  # noqa: ASYNC110 - there is no event for that
        await asyncio.sleep(0)
    twin = coordinator._make_shard(arena.server.broker.clock.now().instant, 1_048_588, 0)
    await load(twin, runtime.log)
    twin.finish_load(arena.server.broker.clock.now())
    live, loaded = runtime.shard.state, twin.state
    wrong = [] if committed(live) == committed(loaded) else ["offsets differ from the log"]
    for group_id in live.groups.keys() | loaded.groups.keys():
        ours, theirs = live.consumer(group_id), loaded.consumer(group_id)
        if (ours is None) != (theirs is None):
            wrong.append(f"{group_id} is of another kind in the log")
        if ours is None or theirs is None:
            continue
        for name in ("epoch", "target_epoch", "members", "instances", "targets", "owners", "members_bytes"):
            if getattr(ours, name) != getattr(theirs, name):
                wrong.append(
                    f"{name} of {group_id}: {getattr(ours, name)}, in the log {getattr(theirs, name)}"
                )
    return wrong


def committed(state: State) -> dict[object, OffsetRow | None]:
    table = state.offsets
    return {
        (group_id, *where): table.get(group_id, *where)
        for group_id in table.groups
        for where in table.partitions(group_id)
    }


@pytest.mark.parametrize("key", ABOUT_GROUPS, ids=[key.name.lower() for key in ABOUT_GROUPS])
def test_a_group_with_members_survives_any_request(key: ApiKey) -> None:
    for version in (version for served, version in versions() if served is key):
        with Arena(**{"offsets.topic.num.partitions": 1}) as arena:
            wrong = arena.run(partial(send_all, key, version, arena))
        assert not wrong, "\n".join(wrong)
