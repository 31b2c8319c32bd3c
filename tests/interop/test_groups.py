"""Classic groups with real clients: sharing, leaving, resuming; static, cooperative and mixed members."""

from collections.abc import Callable
from contextlib import ExitStack
from itertools import product

import pytest
from tests.interop.conftest import need
from tests.interop.peers import BY_NAME, CLIENTS, Client, PeerProcess, run_steps, started, until_together
from tests.interop.targets import Target, also_on_nodes

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PARTITIONS = 4
RECORDS = 40
FreshName = Callable[[str], str]


def fill(client: Client, target: Target, topic: str, *, partitions: int = PARTITIONS) -> None:
    """A new topic with RECORDS records spread evenly over its partitions."""
    run_steps(client, target.bootstrap, "create,spread", topic=topic, partitions=partitions, count=RECORDS)


def owns(count: int) -> Callable[[PeerProcess], bool]:
    return lambda peer: len(peer.owned()) == count


def committed_total(count: int) -> Callable[[PeerProcess], bool]:
    """Whether the newest committed offsets add up to ``count``."""

    def enough(peer: PeerProcess) -> bool:
        newest: dict[str, int] = {}
        for event in peer.named("committed"):
            newest.update(event["offsets"])
        return sum(newest.values()) >= count

    return enough


def values(peer: PeerProcess) -> list[str]:
    return [event["value"] for event in peer.named("record")]


def nothing_missing(peers: list[PeerProcess]) -> Callable[[PeerProcess], bool]:
    """Whether these members together have seen every record."""
    everything = {f"v{i}" for i in range(RECORDS)}
    return lambda _: everything <= {value for peer in peers for value in values(peer)}


@pytest.mark.parametrize(
    ("client", "assignor"),
    [
        pytest.param(client, assignor, id=f"{client}-{assignor}")
        for client in CLIENTS
        for assignor in ("default", "roundrobin", "sticky")
        if assignor == "default" or assignor in client.assignors
    ],
)
def test_two_members_share_a_topic_and_the_one_that_stays_gets_all(
    client: Client, target: Target, fresh_name: FreshName, assignor: str
) -> None:
    need(client.peer)
    topic = fresh_name(f"shared-{client}")
    options = {"topic": topic, "group": topic} | ({} if assignor == "default" else {"assignor": assignor})
    fill(client, target, topic)
    with (
        started(client, target.bootstrap, "group", **options) as first,
        started(client, target.bootstrap, "group", **options) as second,
    ):
        first.until("half of the partitions", owns(PARTITIONS // 2))
        second.until("half of the partitions", owns(PARTITIONS // 2))
        assert first.owned().isdisjoint(second.owned())
        second.leave()
        first.until("all partitions", owns(PARTITIONS))
        first.until("every record", nothing_missing([first, second]))
        first.leave()


def test_a_group_resumes_where_it_stopped_and_can_be_inspected_and_deleted(
    client: Client, target: Target, fresh_name: FreshName
) -> None:
    topic = fresh_name(f"resumed-{client}")
    options: dict[str, object] = {"topic": topic, "group": topic}
    fill(client, target, topic)
    with started(client, target.bootstrap, "group", **options) as first:
        first.until("a commit of everything", committed_total(RECORDS))
        first.leave()
    after = run_steps(client, target.bootstrap, "committed,spread,groups", count=PARTITIONS, **options)
    assert after[0]["offsets"] == {f"{topic}-{i}": RECORDS // PARTITIONS for i in range(PARTITIONS)}
    assert topic in after[2]["ids"]
    assert (after[3]["state"], after[3]["members"]) == ("Empty", 0)
    steps = "group,forget,delete"
    with started(client, target.bootstrap, steps, records=PARTITIONS, **options) as second:
        events = second.finish()
        assert sorted(values(second)) == [f"v{i}" for i in range(PARTITIONS)]
    assert events[-3] == {"event": "group-deleted", "id": topic}


@pytest.mark.parametrize("client", [each for each in CLIENTS if each.static], ids=str)
def test_a_static_member_comes_back_to_its_partitions_and_nobody_else_notices(
    client: Client, target: Target, fresh_name: FreshName
) -> None:
    need(client.peer)
    topic = fresh_name(f"static-{client}")
    options: dict[str, object] = {"topic": topic, "group": topic, "session": 30000}
    fill(client, target, topic)
    with (
        started(client, target.bootstrap, "group", instance="one", **options) as first,
        started(client, target.bootstrap, "group", alone=True, instance="two", **options) as second,
    ):
        first.until("half of the partitions", owns(PARTITIONS // 2))
        second.until("half of the partitions", owns(PARTITIONS // 2))
        held = second.owned()
        second.die()
        with started(client, target.bootstrap, "group", instance="two", **options) as again:
            again.until("half of the partitions", owns(PARTITIONS // 2))
            assert again.owned() == held
            moves = len(first.named("assigned") + first.named("revoked"))
            run_steps(client, target.bootstrap, "spread", topic=topic, count=RECORDS)
            first.until("its share of the new records", committed_total(RECORDS))
            again.until("its share of the new records", committed_total(RECORDS))
            assert len(first.named("assigned") + first.named("revoked")) == moves
            again.leave()
        first.leave()


@pytest.mark.parametrize(
    ("target", "name"),
    [*product(["kafka", "kohort"], ["java-3.9", "java-4", "franz"]), ("nodes", "franz")],
    indirect=["target"],
)
def test_cooperative_members_keep_what_they_do_not_give_up(
    name: str, target: Target, fresh_name: FreshName
) -> None:
    client = BY_NAME[name]
    need(client.peer)
    topic = fresh_name(f"cooperative-{client}")
    options: dict[str, object] = {"topic": topic, "group": topic, "assignor": "cooperative-sticky"}
    fill(client, target, topic)
    with started(client, target.bootstrap, "group", **options) as first:
        first.until("all partitions", owns(PARTITIONS))
        with started(client, target.bootstrap, "group", **options) as second:
            first.until("half of the partitions", owns(PARTITIONS // 2))
            second.until("the other half", owns(PARTITIONS // 2))
            assert first.owned().isdisjoint(second.owned())
            revoked = [set(event["partitions"]) for event in first.named("revoked")]
            assert [each for each in revoked if each] == [second.owned()]
            second.leave()
        first.until("all partitions", owns(PARTITIONS))
        first.leave()


@also_on_nodes
def test_a_member_that_vanishes_is_replaced_after_its_session(target: Target, fresh_name: FreshName) -> None:
    client = BY_NAME["franz"]
    need(client.peer)
    topic = fresh_name("vanished")
    options: dict[str, object] = {"topic": topic, "group": topic, "session": 1500}
    fill(client, target, topic)
    with (
        started(client, target.bootstrap, "group", **options) as first,
        started(client, target.bootstrap, "group", **options) as second,
    ):
        first.until("half of the partitions", owns(PARTITIONS // 2))
        second.until("half of the partitions", owns(PARTITIONS // 2))
        second.die()
        first.until("all partitions", owns(PARTITIONS))
        first.leave()


@also_on_nodes
def test_clients_of_four_makes_share_one_group(target: Target, fresh_name: FreshName) -> None:
    makes = [BY_NAME[name] for name in ("java-3.9", "java-4", "franz", "sarama")]
    for make in makes:
        need(make.peer)
    topic = fresh_name("mixed")
    fill(makes[2], target, topic, partitions=8)
    with ExitStack() as stack:
        members = [
            stack.enter_context(
                started(make, target.bootstrap, "group", topic=topic, group=topic, assignor="range")
            )
            for make in makes
        ]

        def is_shared() -> bool:
            shares = [member.owned() for member in members]
            return [len(share) for share in shares] == [2, 2, 2, 2] and len(set().union(*shares)) == 8

        until_together("two of eight partitions for each", members, is_shared)
        for member in members[1:]:
            member.leave()
        members[0].until("all eight partitions", owns(8))
        members[0].until("every record", nothing_missing(members))
        members[0].leave()
