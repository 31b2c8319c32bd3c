"""What the versions of JoinGroup mean."""

import pytest

from kohort.groups.commands import Join
from kohort.model.ids import GroupId, InstanceId, ReplyTo


def join(version: int, instance_id: str | None = None) -> Join:
    return Join(
        reply_to=ReplyTo(1),
        group_id=GroupId("g"),
        instance_id=None if instance_id is None else InstanceId(instance_id),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        version=version,
    )


@pytest.mark.parametrize("version", range(10))
def test_versions_differ_as_in_kafka(version: int) -> None:
    assert join(version).requires_known_member_id == (version >= 4)
    assert not join(version, "i").requires_known_member_id
    assert join(version).supports_skip_assignment == (version >= 9)
    assert join(version).effective_rebalance_timeout_ms == (60_000 if version else 10_000)
