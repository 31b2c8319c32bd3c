"""Consumer groups (KIP-848) with real clients: Java, franz-go and librdkafka in one group, with churn."""

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from tests.interop.conftest import need
from tests.interop.peers import BY_NAME, PeerProcess, started
from tests.interop.scripts.configs import SET, changing
from tests.interop.scripts.consumer_admin import GROUP, INTERVAL, wait_for_interval
from tests.interop.scripts.consumers import describing
from tests.interop.scripts.exchange import Exchange, Known
from tests.interop.scripts.setting import ready_group
from tests.interop.targets import Target
from tests.interop.test_groups import PARTITIONS, fill, nothing_missing, owns

from kohort.model.errors import ErrorCode

pytestmark = [pytest.mark.interop, pytest.mark.slow]
FreshName = Callable[[str], str]


def beat_often(target: Target, group: str) -> None:
    """Members of this group heartbeat five times a second, so that they learn of each other soon."""
    x = Exchange(target.address)
    try:
        ready_group(x, group)
        x.ask(changing(group, (INTERVAL, SET, "200"), kind=GROUP), 1)
        wait_for_interval(x, group, 200)
    finally:
        x.close()


def described(target: Target, group: str) -> Known:
    x = Exchange(target.address)
    try:
        return x.ask(describing(group), 1).groups[0]
    finally:
        x.close()


@pytest.mark.parametrize("name", ["java-4", "franz"])
def test_two_members_share_a_topic_and_the_one_that_stays_gets_all(
    name: str, target: Target, fresh_name: FreshName
) -> None:
    client = BY_NAME[name]
    need(client.peer)
    topic = fresh_name(f"consumer-{client}")
    fill(client, target, topic)
    beat_often(target, topic)
    options = {"topic": topic, "group": topic, "protocol": "consumer"}
    with (
        started(client, target.bootstrap, "group", **options) as first,
        started(client, target.bootstrap, "group", **options) as second,
    ):
        first.until("half of the partitions", owns(PARTITIONS // 2))
        second.until("half of the partitions", owns(PARTITIONS // 2))
        assert first.owned().isdisjoint(second.owned())
        group = described(target, topic)
        assert (group.error_code, len(group.members)) == (0, 2)
        assert {member.member_type for member in group.members} == {1}
        second.leave()
        first.until("all partitions", owns(PARTITIONS))
        first.until("every record", nothing_missing([first, second]))
        first.leave()
    assert described(target, topic).group_state == "Empty"


def test_java_and_franz_members_come_and_go_and_miss_nothing(target: Target, fresh_name: FreshName) -> None:
    java, franz = BY_NAME["java-4"], BY_NAME["franz"]
    for client in (java, franz):
        need(client.peer)
    topic = fresh_name("consumer-mixed")
    fill(franz, target, topic)
    beat_often(target, topic)
    options = {"topic": topic, "group": topic, "protocol": "consumer"}
    members: list[PeerProcess] = []
    with ExitStack() as stack:
        for client in (java, franz, franz):
            members.append(stack.enter_context(started(client, target.bootstrap, "group", **options)))
        members[0].until("its share", lambda peer: 1 <= len(peer.owned()) <= 2)
        members[1].until("its share", lambda peer: 1 <= len(peer.owned()) <= 2)
        members[2].leave()
        members[0].until("half of the partitions", owns(PARTITIONS // 2))
        members[1].until("half of the partitions", owns(PARTITIONS // 2))
        members[1].leave()
        members[0].until("all partitions", owns(PARTITIONS))
        members[0].until("every record", nothing_missing(members))
        members[0].leave()


def test_a_group_of_java_members_is_upgraded_and_downgraded_while_it_consumes(
    target: Target, fresh_name: FreshName
) -> None:
    """Classic members are replaced by consumer ones, one by one, and back."""
    java = BY_NAME["java-4"]
    need(java.peer)
    topic = fresh_name("migrated")
    fill(java, target, topic)
    beat_often(target, topic)
    classic = {"topic": topic, "group": topic}
    consumer = {**classic, "protocol": "consumer"}
    members: list[PeerProcess] = []
    half, all_of_them = owns(PARTITIONS // 2), owns(PARTITIONS)
    with ExitStack() as stack:

        def join(options: dict[str, str]) -> PeerProcess:
            members.append(stack.enter_context(started(java, target.bootstrap, "group", **options)))
            return members[-1]

        old = join(classic)
        old.until("all partitions", all_of_them)
        new = join(consumer)
        old.until("half of the partitions", half)
        new.until("half of the partitions", half)
        group = described(target, topic)
        assert sorted(member.member_type for member in group.members) == [0, 1]
        old.leave()
        new.until("all partitions", all_of_them)
        back = join(classic)
        back.until("half of the partitions", half)
        new.until("half of the partitions", half)
        new.leave()
        back.until("all partitions", all_of_them)
        assert described(target, topic).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        back.until("every record", nothing_missing(members))
        back.leave()
