"""Stories of whole groups: member machines and the broker's core, in memory."""

from tests.scenario.client.world import GROUP, World

from kohort.client.membership.state import ClassicMemberState

COOPERATIVE = ("cooperative-sticky",)


def test_two_members_share_the_partitions() -> None:
    world = World(t=4)
    a, b = world.consumer("a"), world.consumer("b")
    world.settle()
    assert a.owned | b.owned == world.everything()
    assert not a.owned & b.owned
    assert [len(each.owned) for each in (a, b)] == [2, 2]


def test_a_third_member_takes_from_the_others_and_gives_back_when_it_leaves() -> None:
    world = World(t=6)
    a, b = world.consumer("a"), world.consumer("b")
    world.settle()
    c = world.consumer("c")
    world.settle()
    assert [len(each.owned) for each in (a, b, c)] == [2, 2, 2]
    c.close()
    world.sleep(10)
    world.sleep(4_000)
    world.settle()
    assert c.closed is not None
    assert c.tell()[-1].startswith("revoked(")
    assert a.owned | b.owned == world.everything()


def test_cooperative_members_keep_what_does_not_move() -> None:
    world = World(t=4)
    a = world.consumer("a", assignors=COOPERATIVE)
    world.settle()
    assert a.tell() == ["assigned(t-0 t-1 t-2 t-3)"]
    b = world.consumer("b", assignors=COOPERATIVE)
    world.settle()
    world.sleep(5_000)
    world.settle()
    assert len(a.owned) == len(b.owned) == 2
    revoked = [each for each in a.told if each.kind.name == "REVOKED"]
    assert len(revoked) == 1
    gained = next(each for each in b.told if each.partitions)
    assert set(gained.partitions) == set(revoked[0].partitions)
    assert gained.at > revoked[0].at


def test_a_member_that_dies_is_replaced_when_its_session_is_over() -> None:
    world = World(t=2)
    a, b = world.consumer("a"), world.consumer("b")
    world.settle()
    b.die()
    world.sleep(9_000)
    assert len(a.owned) == 1
    world.sleep(5_000)
    world.settle()
    assert a.owned == world.everything()


def test_a_member_that_stalls_loses_and_comes_back() -> None:
    world = World(t=2)
    a, b = world.consumer("a"), world.consumer("b")
    world.settle()
    b.is_polling = False
    world.sleep(31_000)
    assert b.membership.state is ClassicMemberState.UNJOINED
    world.sleep(5_000)
    assert a.owned == world.everything()
    b.is_polling = True
    world.sleep(200)
    world.settle()
    assert b.tell()[-2].startswith("lost(")
    assert len(a.owned) == len(b.owned) == 1


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    world = World(t=2)
    a = world.consumer("a", instance="ia")
    b = world.consumer("b", instance="ib")
    world.settle()
    group = world.node.shard.group(GROUP)
    assert group is not None
    generation, told = group.generation, len(a.told)
    owned = b.owned
    b.close()
    world.sleep(1_000)
    again = world.consumer("b", instance="ib")
    world.settle()
    assert again.owned == owned
    assert group.generation == generation
    assert len(a.told) == told


def test_a_topic_that_grows_is_rebalanced_by_the_leader() -> None:
    world = World(t=2)
    a, b = world.consumer("a"), world.consumer("b")
    world.settle()
    world.grow("t", 4)
    world.sleep(5_000)
    world.settle()
    assert a.owned | b.owned == world.everything()
    assert sorted(len(each.owned) for each in (a, b)) == [2, 2]


def test_mixed_subscriptions_reach_a_leader_that_does_not_subscribe() -> None:
    world = World(t=2, u=2)
    a, b = world.consumer("a", "t"), world.consumer("b", "u")
    world.settle()
    assert {each.topic for each in a.owned} == {"t"}
    assert {each.topic for each in b.owned} == {"u"}


def test_a_changed_subscription_is_joined_with() -> None:
    world = World(t=2, u=2)
    a = world.consumer("a", "t", assignors=COOPERATIVE)
    world.settle()
    a.subscribe("u")
    world.sleep(200)
    world.settle()
    assert a.tell() == ["assigned(t-0 t-1)", "revoked(t-0 t-1)", "assigned(u-0 u-1)"]


def test_members_find_back_after_the_coordinator_restarted() -> None:
    world = World(t=4)
    a, b = world.consumer("a"), world.consumer("b")
    world.settle()
    world.node.restart()
    for each in (a, b):
        each.lose_connection()
    world.sleep(5_000)
    world.settle()
    assert a.owned | b.owned == world.everything()
    assert not a.raised
    assert not b.raised


def test_slow_callbacks_do_not_cost_the_membership() -> None:
    world = World(t=4)
    a = world.consumer("a")
    a.callback_ms = 15_000
    world.settle()
    b = world.consumer("b")
    b.callback_ms = 15_000
    world.settle()
    assert a.owned | b.owned == world.everything()
    assert "lost" not in " ".join(a.tell() + b.tell())
