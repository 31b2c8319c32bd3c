"""Consumer groups (KIP-848) with real clients: Java, franz-go and librdkafka in one group, with churn."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.clients.node import Node
from tests.interop.conftest import need
from tests.interop.peers import BY_NAME, Client, Librdkafka, PeerProcess, run_steps, started
from tests.interop.scripts.configs import SET, changing
from tests.interop.scripts.consumer_admin import GROUP, INTERVAL, wait_for_interval
from tests.interop.scripts.consumers import describing
from tests.interop.scripts.exchange import AnyMessage, Exchange
from tests.interop.scripts.setting import ready_group
from tests.interop.targets import SETTINGS, Target, also_on_nodes
from tests.interop.test_groups import PARTITIONS, RECORDS, fill, nothing_missing, owns

from kohort.client.admin import Admin
from kohort.model.errors import ErrorCode
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

pytestmark = [pytest.mark.interop, pytest.mark.slow]
FreshName = Callable[[str], str]


def coordinator(target: Target, group: str) -> Exchange:
    """A connection to the node that coordinates the group."""
    with Admin(target.bootstrap) as admin:
        node = admin.find_coordinator(group)
    return Exchange((node.host, node.port))


def beat_often(target: Target, group: str) -> None:
    """Members of this group heartbeat five times a second, so that they learn of each other soon."""
    x = coordinator(target, group)
    try:
        ready_group(x, group)
        x.ask(changing(group, (INTERVAL, SET, "200"), kind=GROUP), 1)
        wait_for_interval(x, group, 200)
    finally:
        x.close()


def described(target: Target, group: str) -> AnyMessage:
    x = coordinator(target, group)
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


def committed(target: Target, group: str) -> int:
    """The sum of the offsets of a group."""
    x = coordinator(target, group)
    try:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        topics = x.ask(request, 8).groups[0].topics
        return sum(part.committed_offset for topic in topics for part in topic.partitions)
    finally:
        x.close()


def places(peer: PeerProcess) -> set[tuple[int, int]]:
    """Partition and offset of each record that a member has had."""
    return {(event["partition"], event["offset"]) for event in peer.named("record")}


@also_on_nodes
def test_java_librdkafka_and_franz_members_come_and_go_and_miss_nothing(
    target: Target, fresh_name: FreshName
) -> None:
    """Each library joins, works beside the others and leaves, while records come in."""
    java, franz = BY_NAME["java-4"], BY_NAME["franz"]
    for client in (java, franz):
        need(client.peer)
    topic = fresh_name("consumer-mixed")
    fill(franz, target, topic)
    beat_often(target, topic)
    options = {"topic": topic, "group": topic, "protocol": "consumer"}
    half, share = owns(PARTITIONS // 2), lambda peer: 1 <= len(peer.owned()) <= 2
    rounds = 1
    with ExitStack() as stack:

        def join(client: Client | Librdkafka) -> PeerProcess:
            return stack.enter_context(started(client, target.bootstrap, "group", **options))

        def more() -> None:
            nonlocal rounds
            run_steps(franz, target.bootstrap, "spread", topic=topic, count=RECORDS)
            rounds += 1

        first, second, third = members = [join(java), join(franz), join(Librdkafka())]
        for member in members:
            member.until("its share", share)
        more()
        second.leave()
        for member in (first, third):
            member.until("half of the partitions", half)
        members.append(join(franz))
        for member in (first, third, members[3]):
            member.until("its share", share)
        more()
        first.leave()
        for member in (third, members[3]):
            member.until("half of the partitions", half)
        third.leave()
        last = members[3]
        last.until("all partitions", owns(PARTITIONS))
        more()
        size = rounds * RECORDS // PARTITIONS
        everything = {(partition, offset) for partition in range(PARTITIONS) for offset in range(size)}
        last.until("every record", lambda _: everything <= set().union(*map(places, members)))
        last.until_outside("a commit of everything", lambda: committed(target, topic) == rounds * RECORDS)
        last.leave()
    assert everything == set().union(*map(places, members))


def gave_up_more_than(before: int) -> Callable[[PeerProcess], bool]:
    return lambda peer: len(peer.named("revoked")) > before


def test_a_broker_that_is_killed_while_java_members_hand_over_partitions_loses_none(
    tmp_path: Path, fresh_name: FreshName
) -> None:
    """It dies at the first partition that is given up for a member that joins, and again for the next two.

    Each time the first member must give something up: of four partitions two members own two each, four
    members one each. With three members their random ids decide which of the first two gives one up.
    """
    java = BY_NAME["java-4"]
    need(java.peer)
    topic = fresh_name("consumer-killed")
    options = {"topic": topic, "group": topic, "protocol": "consumer"}
    with Node(tmp_path, SETTINGS) as node, ExitStack() as stack:
        target = Target("kohort", node.bootstrap, tmp_path)
        fill(java, target, topic)
        beat_often(target, topic)
        members = [stack.enter_context(started(java, node.bootstrap, "group", **options))]
        members[0].until("all partitions", owns(PARTITIONS))
        for joining in (1, 2):
            given_up = len(members[0].named("revoked"))
            for _ in range(joining):
                members.append(stack.enter_context(started(java, node.bootstrap, "group", **options)))
            members[0].until("a revocation", gave_up_more_than(given_up))
            node.kill()
            node.start()
            run_steps(java, node.bootstrap, "spread", topic=topic, count=RECORDS)
            for member in members:
                member.until("its share", owns(PARTITIONS // len(members)))
            assert len(set().union(*(member.owned() for member in members))) == PARTITIONS
        size = 3 * RECORDS // PARTITIONS
        everything = {(partition, offset) for partition in range(PARTITIONS) for offset in range(size)}
        members[0].until_outside("every record committed", lambda: committed(target, topic) == 3 * RECORDS)
        for member in members:
            member.leave()
    assert everything == set().union(*map(places, members))
    assert not [event for member in members for event in member.named("lost")]


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
