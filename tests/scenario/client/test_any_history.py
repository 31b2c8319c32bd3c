"""Whatever members, network and coordinator do, in whatever order: the promises of a group hold."""

from itertools import cycle

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.rounds import ROUNDS
from tests.scenario.client.world import GROUP, CallbackRun, Consumer, World

from kohort.assign.assignor import RebalanceProtocol
from kohort.client.membership.commands import CallbackKind
from kohort.client.membership.state import ClassicMemberState
from kohort.codec.schema import Message
from kohort.model.ids import MemberId
from kohort.model.topics import TopicPartition

MOST_CONSUMERS = 4
DELAYS = st.lists(st.one_of(st.none(), st.integers(0, 4_000)), min_size=1, max_size=6)
TROUBLES = (
    "close",
    "die",
    "lose connection",
    "slow",
    "resubscribe",
    "leave and return",
)
pytestmark = pytest.mark.slow


class AnyHistory(RuleBasedStateMachine):
    """Members of one kind (all eager, or all cooperative) in a group of its own."""

    assignors: tuple[str, ...] = ("range",)

    def __init__(self) -> None:
        super().__init__()
        self.world = World(t=3, u=2)
        self.world.on_told = self.check_told
        self.has: dict[str, set[TopicPartition]] = {}
        self.names = 0

    # --- what happens -------------------------------------------------------------------------

    @initialize()
    def begin_with_two_members(self) -> None:
        self.arrive(("t", "u"))
        self.arrive(("t",))
        self.world.settle()

    @precondition(lambda self: len(self.world.alive) < MOST_CONSUMERS)
    @rule(topics=st.sampled_from([("t",), ("u",), ("t", "u")]))
    def arrive(self, topics: tuple[str, ...]) -> None:
        self.names += 1
        self.has[f"c{self.names}"] = set()
        self.world.consumer(f"c{self.names}", *topics, assignors=self.assignors)

    @precondition(lambda self: self.world.alive)
    @rule(which=st.integers(0, 3), what=st.sampled_from(TROUBLES))
    def trouble(self, which: int, what: str) -> None:
        consumer = self.world.alive[which % len(self.world.alive)]
        if consumer.is_in_call or not consumer.subscriptions.is_group_managed:
            return
        match what:
            case "close":
                consumer.close()
            case "die":
                consumer.die()
            case "lose connection":
                consumer.lose_connection()
            case "slow":
                consumer.callback_ms = 2_000 - consumer.callback_ms
            case "resubscribe":
                consumer.subscribe("t")
            case _:
                consumer.unsubscribe()
                self.world.sleep(consumer.callback_ms + 1)
                consumer.subscribe("u")

    @precondition(lambda self: self.world.alive)
    @rule(which=st.integers(0, 3), millis=st.sampled_from([1_000, 12_000, 32_000]))
    def stall(self, which: int, millis: int) -> None:
        """The application does something else; after max.poll.interval.ms it is out of the group."""
        consumer = self.world.alive[which % len(self.world.alive)]
        consumer.is_polling = False
        self.world.sleep(millis)
        consumer.is_polling = consumer.closed is None

    @precondition(lambda self: self.world.alive)
    @rule(which=st.integers(0, 3), millis=st.sampled_from([1_000, 12_000, 32_000]))
    def cut_off(self, which: int, millis: int) -> None:
        """One member hears nothing for a while; after session.timeout.ms it is out of the group."""
        consumer = self.world.alive[which % len(self.world.alive)]
        self.world.cut_off.add(consumer.name)
        consumer.lose_connection()
        self.world.sleep(millis)
        self.world.cut_off.clear()

    @rule(delays=DELAYS)
    def spoil_the_network(self, delays: list[int | None]) -> None:
        fates = cycle([*delays, 1])

        def fate(request: Message) -> int | None:
            return next(fates)

        self.world.fate = fate

    @rule()
    def restart_the_coordinator(self) -> None:
        self.world.node.restart()
        for each in self.world.alive:
            each.lose_connection()

    @rule(topic=st.sampled_from(["t", "u"]))
    def grow(self, topic: str) -> None:
        if self.world.partitions[topic] < 5:
            self.world.grow(topic, self.world.partitions[topic] + 1)

    @rule(millis=st.sampled_from([1, 50, 500, 3_000, 11_000, 35_000]))
    def sleep(self, millis: int) -> None:
        self.world.sleep(millis)

    def teardown(self) -> None:
        self.faults_stop()

    def faults_stop(self) -> None:
        """Every member finds back to a stable group, and every partition has one owner."""
        self.world.fate = lambda _: 1
        self.world.cut_off.clear()
        for each in self.world.alive:
            each.is_polling = True
        self.world.sleep(45_000)  # sessions of those who are gone expire; heartbeats tell of rebalances
        self.world.settle()
        owners = self.world.owners()
        wanted = {topic for each in self.world.alive for topic in each.subscriptions.subscription.topics}
        assert {each: 1 for each in self.world.everything() if each.topic in wanted} == {
            each: len(names) for each, names in owners.items()
        }

    # --- what must hold -----------------------------------------------------------------------

    def check_told(self, consumer: Consumer, told: CallbackRun) -> None:
        """Callbacks fit together: nothing comes twice, nothing goes that was not there."""
        has, moved = self.has[consumer.name], set(told.partitions)
        is_eager = consumer.membership.protocol is RebalanceProtocol.EAGER
        assert list(told.partitions) == sorted(told.partitions)
        if told.kind is CallbackKind.ASSIGNED:
            assert not has & moved
            assert not (is_eager and has), "an eager member gives everything back first"
            self.check_nobody_else_has(consumer, moved)
            has |= moved
        else:
            assert moved <= has
            assert moved == has or not (is_eager or told.kind is CallbackKind.LOST), "all or nothing"
            assert consumer.owned >= moved, "they are still there while the callback runs"
            has -= moved

    def check_nobody_else_has(self, consumer: Consumer, moved: set[TopicPartition]) -> None:
        """Whoever the coordinator counts as a member of this generation has let go before."""
        for other in self.world.alive:
            if other is not consumer and self.is_member(other):
                assert not other.owned & moved, f"{other.name} still has {other.owned & moved}"

    def is_member(self, consumer: Consumer) -> bool:
        group = self.world.node.shard.group(GROUP)
        member_id, generation = consumer.membership.generation.member_id, consumer.membership.generation
        is_known = group is not None and MemberId(member_id) in group.members
        return is_known and not generation.was_reset

    @invariant()
    def nobody_shares_a_partition_in_one_generation(self) -> None:
        seen: dict[tuple[int, TopicPartition], str] = {}
        for each in self.world.alive:
            is_done = each.membership._context.member.attempt is None
            if each.membership.state is ClassicMemberState.STABLE and is_done and self.is_member(each):
                for partition in each.owned:
                    key = (each.membership.generation.generation_id, partition)
                    assert key not in seen, f"{seen[key]} and {each.name} have {partition}"
                    seen[key] = each.name

    @invariant()
    def what_was_told_is_what_is_there(self) -> None:
        for each in self.world.alive:
            if not each.is_in_call:
                assert self.has[each.name] == each.owned

    @invariant()
    def nothing_is_raised_that_passes_by_itself(self) -> None:
        assert [error for each in self.world.consumers for error in each.raised] == []


class AnyCooperativeHistory(AnyHistory):
    """The same, where members keep what does not move."""

    assignors = ("cooperative-sticky",)


_EFFORT = settings(
    derandomize=True,
    max_examples=20 * ROUNDS,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

TestAnyEagerHistory = AnyHistory.TestCase
TestAnyEagerHistory.settings = _EFFORT
TestAnyCooperativeHistory = AnyCooperativeHistory.TestCase
TestAnyCooperativeHistory.settings = _EFFORT
