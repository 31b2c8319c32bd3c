"""The work for a large request is cut into slices: counted here, measured by ``make bench``."""

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest
from tests.broker.asking import metadata_request
from tests.broker.grouping import commit_request, heartbeat_request
from tests.fault.arena import GUARDED, Arena, ClosedError, Peer, is_unknown
from tests.fault.largest import ROWS, largest

from kohort.broker import dispatch, heavy_work
from kohort.broker.handlers import DEFAULT_ELEMENTS, SERVED, Served, delete_acls
from kohort.broker.handlers import fetch as fetch_handler
from kohort.broker.heavy_work import WorkSlice
from kohort.codec.compiled import encode
from kohort.groups.replies import FetchReply
from kohort.model.errors import ErrorCode
from kohort.security.acls import AclResourceType, Operation, PatternType, Permission
from kohort.wire.apis import ApiKey
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kohort.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

ELEMENTS_SENT = 60
PRICE_OF_A_SLICE = 10  # here; entries cost 2 and more
AT_ONCE = 5
# Their entries cost so much that even 10,000 are handled in slices.
COSTLY = {
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DELETE_GROUPS,
    ApiKey.DELETE_RECORDS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.FIND_COORDINATOR,
}
# Their entries cost less than a microsecond.
CHEAP = {ApiKey.SYNC_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT}
OWN_PRICES = {ApiKey.PRODUCE}  # of batches; see test_heavy_batches.py
WITH_ARRAYS = [
    api
    for api in SERVED
    if any(largest(api.key, api.newest, bytes(16), most=2)) and api.key not in OWN_PRICES
]


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    with Arena() as arena:
        yield arena


class Counted:
    """How often slices were full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = 0
        is_full = WorkSlice.is_full

        def counted(slice_: WorkSlice, price: int) -> bool:
            was_full = is_full(slice_, price)
            self.full += was_full
            return was_full

        monkeypatch.setattr(WorkSlice, "is_full", counted)
        monkeypatch.setattr(heavy_work, "IN_A_SLICE", PRICE_OF_A_SLICE)
        monkeypatch.setattr(dispatch, "AT_ONCE", AT_ONCE)
        monkeypatch.setattr(fetch_handler, "_AT_ONCE", AT_ONCE)


@pytest.mark.parametrize("api", WITH_ARRAYS, ids=[api.key.name.lower() for api in WITH_ARRAYS])
def test_a_request_with_many_entries_is_handled_in_slices_or_has_few_enough(
    arena: Arena, api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_wait = api.key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
    is_sliced = api.key in COSTLY or (api.max_elements > DEFAULT_ELEMENTS and api.key not in CHEAP)
    counted = Counted(monkeypatch)
    for version in range(api.oldest, api.newest + 1):
        counted.full = 0
        requests = [each for _, each in largest(api.key, version, arena.topic_id, most=ELEMENTS_SENT)]
        for request in requests:
            frame = arena.frame_of(api.key, version, encode(request, version))
            reply = arena.run(partial(arena.throw, frame, may_wait=may_wait))
            assert reply is None or not is_unknown(arena.read(api.key, version, reply))
        assert counted.full >= 2 * ELEMENTS_SENT // PRICE_OF_A_SLICE or not (is_sliced and requests), version
        assert arena.bugs() == []


@pytest.mark.parametrize("version", range(1, 8))
def test_a_refused_offset_fetch_is_answered_in_slices(
    arena: Arena, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = FetchReply(error=ErrorCode.NOT_COORDINATOR)
    monkeypatch.setattr(arena.server.broker.coordinator, "ask", lambda *_: lost)
    counted = Counted(monkeypatch)
    wanted = OffsetFetchRequestTopic(name="t", partition_indexes=list(range(ELEMENTS_SENT)))
    reply = arena.run(partial(arena.ask, OffsetFetchRequest(group_id="g", topics=[wanted]), version))
    codes = [part.error_code for part in reply.topics[0].partitions]
    assert codes == [ErrorCode.NOT_COORDINATOR] * ELEMENTS_SENT
    assert counted.full >= 2 * ELEMENTS_SENT // PRICE_OF_A_SLICE


def test_rules_are_made_and_looked_for_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [
        AclCreation(
            resource_type=AclResourceType.TOPIC,
            resource_name=f"t-{number}",
            resource_pattern_type=PatternType.LITERAL,
            principal="User:alice",
            host="*",
            operation=Operation.READ,
            permission_type=Permission.ALLOW,
        )
        for number in range(ELEMENTS_SENT)
    ]
    everybody, *nobody = (
        DeleteAclsFilter(
            resource_type_filter=AclResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=principal,
            host_filter=None,
            operation=Operation.ANY,
            permission_type=Permission.ANY,
        )
        for principal in (None, *(f"User:{number}" for number in range(ELEMENTS_SENT)))
    )
    with Arena(**GUARDED) as arena:
        counted = Counted(monkeypatch)
        monkeypatch.setattr(delete_acls, "_MOST_REMOVED", ELEMENTS_SENT)
        arena.run(partial(arena.ask, CreateAclsRequest(creations=rules), 3))
        assert counted.full >= 2 * ELEMENTS_SENT // PRICE_OF_A_SLICE

        counted.full = 0
        arena.run(partial(arena.ask, DeleteAclsRequest(filters=nobody), 3))
        assert counted.full >= 2 * ELEMENTS_SENT // PRICE_OF_A_SLICE

        # What two filters find is in the reply twice: a small request must not make a large one.
        twice = arena.run(partial(arena.ask, DeleteAclsRequest(filters=[everybody] * 2), 3))
        assert {one.error_code for one in twice.filter_results} == {ErrorCode.INVALID_REQUEST}
        once = arena.run(partial(arena.ask, DeleteAclsRequest(filters=[everybody]), 3))
        assert len(once.filter_results[0].matching_acls) == ELEMENTS_SENT


def test_others_are_answered_while_a_large_request_is_handled(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    Counted(monkeypatch)
    _, request = next(
        (name, request)
        for name, request in largest(ApiKey.OFFSET_FETCH, 10, arena.topic_id, most=ELEMENTS_SENT)
        if name.endswith("different")
    )

    async def both() -> None:
        attacker, member = (Peer(arena.server) for _ in range(2))
        attacker.send(arena.frame_of(ApiKey.OFFSET_FETCH, 10, encode(request, 10)))
        beat = heartbeat_request(arena.member, arena.generation)
        member.send(arena.frame_of(ApiKey.HEARTBEAT, 4, encode(beat, 4)))
        assert member.received
        assert not attacker.received
        await attacker.news.wait()
        assert attacker.received

    arena.run(both)


def test_requests_that_come_in_one_read_are_answered_in_turns_with_those_of_others(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.broker.connection.SLICE_S", 0.0)

    async def both() -> None:
        attacker, member = (Peer(arena.server) for _ in range(2))
        attacker.send(arena.frames(metadata_request(), 13, copies=100))
        first = len(attacker.received)
        beat = heartbeat_request(arena.member, arena.generation)
        member.send(arena.frame_of(ApiKey.HEARTBEAT, 4, encode(beat, 4)))
        assert member.received
        assert len(attacker.received) == first > 0  # one reply
        attacker.send(arena.frames(metadata_request(), 13))  # comes behind the others
        assert len(attacker.received) == first
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(attacker.received) == 101 * first

    arena.run(both)


def test_a_peer_that_hangs_up_is_not_answered_any_more(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.broker.connection.SLICE_S", 0.0)

    async def hang_up() -> None:
        peer = Peer(arena.server)
        peer.send(arena.frames(metadata_request(), 13, copies=100))
        first = len(peer.received)
        peer.hang_up()
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(peer.received) == first

    arena.run(hang_up)


def test_a_commit_of_more_than_fits_a_batch_is_refused_as_too_large(arena: Arena) -> None:
    request = commit_request(
        *[(0, offset) for offset in range(15_001)], member=(arena.member, arena.generation)
    )
    reply = arena.run(partial(arena.ask, request, 8))
    assert {part.error_code for part in reply.topics[0].partitions} == {ErrorCode.UNKNOWN_SERVER_ERROR}


def test_a_request_with_more_elements_than_its_api_allows_ends_its_connection(arena: Arena) -> None:
    arena.lines.clear()
    request = commit_request(*[(0, offset) for offset in range(ROWS[ApiKey.OFFSET_COMMIT].max_elements)])
    with pytest.raises(ClosedError):
        arena.run(partial(arena.ask, request, 8))
    (line,) = arena.lines
    assert "too many elements" in line.getMessage()
