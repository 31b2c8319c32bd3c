"""What can be said about a request without looking at any group."""

import pytest

from kohort.groups.commands import Join, Protocol
from kohort.groups.settings import GroupSettings
from kohort.groups.validate import check_group_id, check_join
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, InstanceId, ReplyTo

LONG = "x" * 32_768


@pytest.mark.parametrize(("group_id", "is_good"), [("g", True), ("日誌", True), ("", False), (LONG, False)])
def test_a_group_needs_a_name_that_can_be_stored(group_id: str, is_good: bool) -> None:
    assert (check_group_id(group_id) is ErrorCode.NONE) == is_good


def test_a_join_with_names_no_record_can_hold_is_invalid() -> None:
    settings, g, to = GroupSettings(), GroupId("g"), ReplyTo(1)
    invalid = ErrorCode.INVALID_REQUEST
    assert check_join(Join(reply_to=to, group_id=g, client_id=LONG[:32_740]), settings) is ErrorCode.NONE
    long_client = Join(reply_to=to, group_id=g, client_id=LONG[:32_740], fresh_id="x" * 36)
    assert check_join(long_client, settings) is invalid
    assert check_join(Join(reply_to=to, group_id=g, instance_id=InstanceId(LONG)), settings) is invalid
    assert check_join(Join(reply_to=to, group_id=g, protocol_type=LONG), settings) is invalid
    assert check_join(Join(reply_to=to, group_id=g, protocols=(Protocol(LONG, b""),)), settings) is invalid


def test_the_group_id_is_looked_at_before_the_session_timeout() -> None:
    both = Join(reply_to=ReplyTo(1), group_id=GroupId(""), session_timeout_ms=1)
    assert check_join(both, GroupSettings()) is ErrorCode.INVALID_GROUP_ID
