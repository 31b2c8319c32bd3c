"""What requests get while there is no shard to ask."""

import pytest

from kohort.groups.availability import Absence, answer_while, heartbeat_error_while, sync_error_while
from kohort.groups.commands import (
    CommitOffsets,
    CommitRow,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroup,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    ListGroups,
    Request,
    Sync,
)
from kohort.groups.replies import CommitReply, DeleteGroupsReply, JoinReply
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, MemberId, Partition, ReplyTo, TopicName

TO, M = ReplyTo(1), MemberId("m")
LOADING, NOT_OWNED, STOPPED = Absence.LOADING, Absence.NOT_OWNED, Absence.STOPPED


def requests(group: str) -> dict[str, Request]:
    """One request of every API for a group."""
    g, generation = GroupId(group), Generation(1)
    rows = (CommitRow(TopicName("t"), Partition(0), 1),)
    return {
        "join": Join(reply_to=TO, group_id=g, member_id=M),
        "sync": Sync(reply_to=TO, group_id=g, member_id=M, generation=generation, version=4),
        "heartbeat": Heartbeat(reply_to=TO, group_id=g, member_id=M, generation=generation),
        "leave": Leave(reply_to=TO, group_id=g, leavers=()),
        "commit": CommitOffsets(reply_to=TO, group_id=g, rows=rows),
        "fetch": FetchOffsets(reply_to=TO, group_id=g),
        "delete offsets": DeleteOffsets(reply_to=TO, group_id=g, partitions=()),
        "list": ListGroups(reply_to=TO),
        "describe": DescribeGroup(reply_to=TO, group_id=g),
        "delete": DeleteGroups(reply_to=TO, group_ids=(g, g)),
    }


def error_of(absence: Absence, request: Request) -> int:
    reply = answer_while(absence, request, GroupSettings())
    if isinstance(reply, CommitReply):
        return reply.rows[0].error
    if isinstance(reply, DeleteGroupsReply):
        return reply.groups[0].error
    return reply.error


EXPECTED = {  # request: stopped, loading, not owned
    "join": (15, 14, 16),
    "sync": (15, 27, 16),
    "heartbeat": (15, 0, 16),
    "leave": (15, 14, 16),
    "commit": (15, 14, 16),
    "fetch": (15, 14, 16),
    "delete offsets": (15, 14, 16),
    "list": (15, 14, 0),
    "describe": (15, 14, 16),
    "delete": (15, 14, 16),
}


@pytest.mark.parametrize("api", EXPECTED)
def test_every_api_has_its_answer(api: str) -> None:
    request = requests("g")[api]
    assert tuple(error_of(absence, request) for absence in (STOPPED, LOADING, NOT_OWNED)) == EXPECTED[api]


@pytest.mark.parametrize("api", ["join", "sync", "heartbeat", "leave", "delete offsets"])
def test_a_bad_group_id_comes_before_everything_but_a_stopped_coordinator(api: str) -> None:
    request = requests("")[api]
    assert tuple(error_of(absence, request) for absence in (STOPPED, LOADING, NOT_OWNED)) == (15, 24, 24)


@pytest.mark.parametrize("api", ["commit", "fetch", "describe", "delete"])
def test_offsets_and_administration_allow_the_empty_group_id(api: str) -> None:
    request = requests("")[api]
    assert tuple(error_of(absence, request) for absence in (STOPPED, LOADING, NOT_OWNED)) == (15, 14, 16)


def test_a_join_keeps_its_member_id_only_when_the_request_itself_is_wrong() -> None:
    settings = GroupSettings()
    good = Join(reply_to=TO, group_id=GroupId("g"), member_id=M)
    short = Join(reply_to=TO, group_id=GroupId("g"), member_id=M, session_timeout_ms=1)
    assert answer_while(STOPPED, short, settings) == JoinReply(
        error=ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id=M
    )
    assert answer_while(LOADING, short, settings) == JoinReply(
        error=ErrorCode.INVALID_SESSION_TIMEOUT, member_id=M
    )
    assert answer_while(LOADING, good, settings) == JoinReply(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def test_deleting_several_groups_answers_each_once() -> None:
    reply = answer_while(LOADING, requests("g")["delete"], GroupSettings())
    assert isinstance(reply, DeleteGroupsReply)
    assert len(reply.groups) == 1


def test_heartbeats_and_syncs_have_answers_of_their_own() -> None:
    assert [heartbeat_error_while(absence) for absence in Absence] == [15, 0, 16]
    assert [sync_error_while(absence) for absence in Absence] == [15, 27, 16]
