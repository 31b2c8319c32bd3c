"""ListGroups, DescribeGroups and DeleteGroups on the wire.

What Kafka answers in every version is recorded: ``tests/interop/scripts/group_admin.py``.
"""

import pytest
from tests.broker.asking import create
from tests.broker.grouping import GROUP, alone, commit_request, find
from tests.broker.raw import Raw, Reply

from kohort.testing.broker import Broker
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.list_groups import ListGroupsRequest


@pytest.fixture
def raw(raw: Raw) -> Raw:
    """With a stable group ``g`` and a simple one, ``offsets-only``."""
    create(raw, "t")
    alone(raw)
    raw.send(commit_request((0, 5), group="offsets-only"), 8)
    return raw


def describe(raw: Raw, *groups: str, version: int = 5, operations: bool = False) -> list[Reply]:
    request = DescribeGroupsRequest(groups=list(groups), include_authorized_operations=operations)
    described: list[Reply] = raw.send(request, version).groups
    return described


def test_every_group_asked_for_is_described_once(raw: Raw) -> None:
    found = describe(raw, "offsets-only", "nobody", GROUP, GROUP)
    assert [group.group_id for group in found] == ["offsets-only", "nobody", GROUP]


def test_administration_without_an_offsets_topic() -> None:
    with Broker() as broker, Raw(broker.bootstrap) as fresh:
        assert fresh.send(ListGroupsRequest(), 5).groups == []
        assert find(fresh).error_code == 0
