"""Every error code of every group request, as a coordinator gives it once to a whole consumer.

It recovers, and reads and commits everything; or it raises a text that says where to look, and recovers
when it is polled again. The table of reactions says which.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.client.consumer.stage import P0, TURNS, Stage, on_stage, read, spoiled

from kohort.broker.context import Response, Result
from kohort.client.cluster import ClusterClient, CoordinatorOf
from kohort.client.consumer import AsyncConsumer
from kohort.client.errors import (
    BrokerError,
    CommitFailedError,
    CoordinatorNotFoundError,
    FencedInstanceIdError,
    RebalanceInProgressError,
    TopicAuthorizationFailedError,
)
from kohort.client.membership.reactions import REACTIONS, MembershipLoss, NextStep, Reaction, reaction_to
from kohort.client.membership.state import MemberGeneration
from kohort.client.subscription import OffsetAndMetadata, Partitions
from kohort.model.errors import ErrorCode
from kohort.testing.intercept import Action, Proceed, Rule, Seen, answer, watch
from kohort.wire.apis import APIS, ApiKey
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.heartbeat import HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.wire.messages.offset_commit import OffsetCommitResponse
from kohort.wire.messages.offset_fetch import OffsetFetchResponse
from kohort.wire.messages.sync_group import SyncGroupResponse

E = ErrorCode
STRANGE = E.INVALID_REQUIRED_ACKS  # nobody expects it from a coordinator
WHERE_TO_LOOK = {
    E.GROUP_AUTHORIZATION_FAILED: r"group\.id",
    E.INVALID_GROUP_ID: r"group\.id",
    E.FENCED_INSTANCE_ID: r"group\.instance\.id",
    E.INCONSISTENT_GROUP_PROTOCOL: r"partition\.assignment\.strategy",
    E.INVALID_SESSION_TIMEOUT: r"session\.timeout\.ms",
    E.GROUP_MAX_SIZE_REACHED: r"group\.max\.size",
    E.UNSUPPORTED_VERSION: r"group\.instance\.id",
    E.OFFSET_METADATA_TOO_LARGE: r"offset\.metadata\.max\.bytes",
    E.INVALID_COMMIT_OFFSET_SIZE: "fewer partitions",
    E.UNKNOWN_TOPIC_OR_PARTITION: "kohort topics list",
    E.STALE_MEMBER_EPOCH: "joins again",
    E.UNKNOWN_MEMBER_ID: "joins again",
    STRANGE: "INVALID_REQUIRED_ACKS",
}


def rows(*asked: ApiKey, omit: tuple[ErrorCode, ...] = ()) -> list[Any]:
    """The table's rows for these requests, and a code without one."""
    found = []
    for each in asked:
        table = REACTIONS[each]
        known = {code: row for code, row in table.items() if isinstance(code, ErrorCode) and code}
        found += [
            pytest.param(each, code, row, id=f"{APIS[each].name}-{code.name}")
            for code, row in (known | {STRANGE: table["any other"]}).items()
            if code not in omit
        ]
    return found


def lookup_fails(code: ErrorCode) -> Callable[[Any], FindCoordinatorResponse]:
    def reply(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key=key, error_code=code) for key in request.coordinator_keys]
        )

    return reply


def commit_fails(code: ErrorCode) -> Action:
    def change(response: OffsetCommitResponse) -> None:
        response.topics[0].partitions[0].error_code = code

    return spoiled(change)


def offset_fetch_fails(code: ErrorCode) -> Action:
    per_partition = (E.UNSTABLE_OFFSET_COMMIT, E.TOPIC_AUTHORIZATION_FAILED, E.UNKNOWN_TOPIC_OR_PARTITION)

    def change(response: OffsetFetchResponse) -> None:
        (group,) = response.groups
        if code in per_partition:
            group.topics[0].partitions[0].error_code = code
        else:
            group.error_code = code

    return spoiled(change)


def failing(asked: ApiKey, code: ErrorCode) -> Action:
    """Answers with the code."""
    match asked:
        case ApiKey.FIND_COORDINATOR:
            return answer(lookup_fails(code))
        case ApiKey.JOIN_GROUP:
            return answer(JoinGroupResponse(error_code=code, member_id="a-given-id"))
        case ApiKey.SYNC_GROUP:
            return answer(SyncGroupResponse(error_code=code))
        case ApiKey.HEARTBEAT:
            return answer(HeartbeatResponse(error_code=code))
        case ApiKey.LEAVE_GROUP:
            return answer(LeaveGroupResponse(error_code=code))
        case ApiKey.OFFSET_COMMIT:
            return commit_fails(code)
        case ApiKey.OFFSET_FETCH:
            return offset_fetch_fails(code)
        case _:
            raise AssertionError(f"a member sends no {asked.name}")


def expelling(stage: Stage, action: Action) -> Action:
    """As ``action``, of a coordinator that means it: the member is out."""

    def act(seen: Seen, proceed: Proceed) -> Result:
        async def expel() -> Response:
            result = action(seen, proceed)
            response = await result if isinstance(result, Awaitable) else result
            async with ClusterClient(stage.broker.bootstrap) as cluster:
                gone = MemberIdentity(member_id=getattr(seen.request, "member_id", ""))
                request = LeaveGroupRequest(group_id="g", members=[gone])
                await cluster.ask(CoordinatorOf("g"), request, LeaveGroupResponse)
            return response

        return expel()

    return act


def once(stage: Stage, asked: ApiKey, code: ErrorCode) -> Rule:
    action = failing(asked, code)
    if reaction_to(asked, code).loss is MembershipLoss.MEMBERSHIP:
        action = expelling(stage, action)
    return stage.broker.intercept(action, api=APIS[asked].name, times=1)


async def reads_and_commits(consumer: AsyncConsumer) -> None:
    assert [one.value for one in await read(consumer, 3)] == [b"a", b"b", b"c"]
    await consumer.commit()
    assert list((await consumer.committed(P0)).values()) == [OffsetAndMetadata(3, 0)]


class Diary:
    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        self.heard.append(("assigned", len(partitions)))

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        self.heard.append(("revoked", len(partitions)))

    def on_partitions_lost(self, partitions: Partitions) -> None:
        self.heard.append(("lost", len(partitions)))


# A member id that was never given out is unknown to the broker, who says so: another way to recover.
@pytest.mark.parametrize(
    ("asked", "code", "reaction"), rows(ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
)
@on_stage
async def test_joining_recovers_or_says_where_to_look(
    stage: Stage, asked: ApiKey, code: ErrorCode, reaction: Reaction
) -> None:
    async with stage.reader("t", group_id="g") as consumer:
        diary = Diary()
        consumer.subscribe(["t"], listener=diary)
        rule = once(stage, asked, code)
        if reaction.then is NextStep.RAISE:
            with pytest.raises(BrokerError, match=WHERE_TO_LOOK[code]) as refused:
                await read(consumer, 3)
            assert refused.value.code == code
            assert isinstance(refused.value, CoordinatorNotFoundError) == (asked is ApiKey.FIND_COORDINATOR)
        await reads_and_commits(consumer)
        assert len(rule.seen) == 1
    assert diary.heard == [("assigned", 1), ("revoked", 1)]


async def until(consumer: AsyncConsumer, holds: Callable[[], bool]) -> None:
    for _ in range(TURNS):
        await consumer.poll(5)
        if holds():
            return
    raise AssertionError("it never came to that")


async def hears(consumer: AsyncConsumer, rule: Rule, reaction: Reaction, before: MemberGeneration) -> None:
    """Poll until the heartbeat was answered, and the member is in a generation again."""
    if reaction.then is NextStep.RAISE:
        with pytest.raises(FencedInstanceIdError, match=r"another consumer.*group\.instance\.id of its own"):
            await until(consumer, lambda: False)
    await until(consumer, lambda: bool(rule.seen))
    if reaction.loss is not MembershipLoss.NOTHING or reaction.rejoin:
        await until(consumer, lambda: consumer.group_metadata().generation_id > before.generation_id)
        await until(consumer, lambda: bool(consumer.assignment()))


@pytest.mark.parametrize(("asked", "code", "reaction"), rows(ApiKey.HEARTBEAT))
@on_stage
async def test_a_heartbeat_that_is_refused_costs_what_the_table_says(
    stage: Stage, asked: ApiKey, code: ErrorCode, reaction: Reaction
) -> None:
    async with stage.reader("t", group_id="g", heartbeat_interval_ms=10) as consumer:
        diary = Diary()
        consumer.subscribe(["t"], listener=diary)
        await reads_and_commits(consumer)
        before = consumer.group_metadata()
        await hears(consumer, once(stage, asked, code), reaction, before)
        await stage.write(b"d")
        assert [one.value for one in await read(consumer, 1)] == [b"d"]
        after = consumer.group_metadata()
        if reaction.loss is MembershipLoss.MEMBERSHIP:
            assert after.member_id != before.member_id
            assert diary.heard[1:] == [("lost", 1), ("assigned", 1)]
        elif reaction.loss is MembershipLoss.GENERATION:
            assert after.member_id == before.member_id
            assert diary.heard[1:] == [("lost", 1), ("assigned", 1)]
        elif reaction.rejoin:
            assert after.member_id == before.member_id
            assert diary.heard[1:] == [("revoked", 1), ("assigned", 1)]
        else:
            assert after == before
            assert diary.heard[1:] == []


REFUSED: dict[NextStep, tuple[type[Exception], str]] = {
    NextStep.FAIL_TOPICS: (TopicAuthorizationFailedError, "not allowed for t"),
    NextStep.FAIL_EXPELLED: (CommitFailedError, r"max\.poll\.interval\.ms.*max\.poll\.records"),
    NextStep.FAIL_FENCED: (FencedInstanceIdError, r"group\.instance\.id"),
    NextStep.FAIL_REBALANCING: (RebalanceInProgressError, r"call poll\(\)"),
}


@pytest.mark.parametrize(("asked", "code", "reaction"), rows(ApiKey.OFFSET_COMMIT))
@on_stage
async def test_a_commit_is_repeated_or_fails_with_a_text_that_helps(
    stage: Stage, asked: ApiKey, code: ErrorCode, reaction: Reaction
) -> None:
    async with stage.reader("t", group_id="g", enable_auto_commit=False) as consumer:
        await read(consumer, 3)
        before = consumer.group_metadata()
        rule = once(stage, asked, code)
        if reaction.then not in (NextStep.RETRY, NextStep.FAIL_STALE):
            kind, text = REFUSED.get(reaction.then, (BrokerError, WHERE_TO_LOOK.get(code, "unexpected")))
            with pytest.raises(kind, match=text):
                await consumer.commit()
        if reaction.loss is not MembershipLoss.NOTHING or reaction.rejoin:
            await until(consumer, lambda: consumer.group_metadata().generation_id > before.generation_id)
            await until(consumer, lambda: bool(consumer.assignment()))
        await consumer.commit({P0: 3})
        assert len(rule.seen) == 1
        (found,) = (await consumer.committed(P0)).values()
        assert found is not None
        assert found.offset == 3


@on_stage
async def test_a_commit_of_somebody_else_with_this_instance_id_ends_every_poll(stage: Stage) -> None:
    """T61: what was asynchronous then is raised by the next poll, and by each one after."""
    async with stage.reader("t", group_id="g", group_instance_id="i", enable_auto_commit=False) as consumer:
        await read(consumer, 3)
        rule = once(stage, ApiKey.OFFSET_COMMIT, E.FENCED_INSTANCE_ID)
        consumer.commit_async({P0: 3})
        for _ in range(3):
            with pytest.raises(FencedInstanceIdError, match="another consumer"):
                await until(consumer, lambda: False)
        assert len(rule.seen) == 1


@pytest.mark.parametrize(("asked", "code", "reaction"), rows(ApiKey.OFFSET_FETCH))
@on_stage
async def test_asking_where_to_begin_is_repeated_or_raised(
    stage: Stage, asked: ApiKey, code: ErrorCode, reaction: Reaction
) -> None:
    async with stage.reader("t", group_id="g") as consumer:
        rule = once(stage, asked, code)
        if reaction.then is not NextStep.RETRY:
            where = (
                "not allowed for t"
                if reaction.then is NextStep.FAIL_TOPICS
                else WHERE_TO_LOOK.get(code, "unexpected")
            )
            with pytest.raises(BrokerError, match=where):
                await read(consumer, 3)
        await reads_and_commits(consumer)
        assert len(rule.seen) == 1


@pytest.mark.parametrize("code", [E.UNKNOWN_MEMBER_ID, E.NOT_COORDINATOR, STRANGE])
@on_stage
async def test_nobody_minds_how_leaving_is_answered(stage: Stage, code: ErrorCode) -> None:
    async with stage.reader("t", group_id="g") as consumer:
        await read(consumer, 3)
        rule = once(stage, ApiKey.LEAVE_GROUP, code)
        commits = stage.broker.intercept(watch, api="OffsetCommit")
    assert len(rule.seen) == len(commits.seen) == 1
