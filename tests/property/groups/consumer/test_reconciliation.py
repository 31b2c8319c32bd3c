"""Reconciliation: the same steps as Java takes, and what holds for any history of a group."""

from collections import Counter
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.property.assign.server.groups import topic_id
from tests.property.groups.consumer.members import read, shown

from kohort.assign.server.group import GroupSpec, Targets, TopicPartitions
from kohort.assign.server.uniform import ServerUniformAssignor
from kohort.groups.consumer.assignment import CurrentAssignment, MemberState, each_partition
from kohort.groups.consumer.reconcile import ReconcileInput, reconcile
from kohort.model.ids import MemberId, Partition, TopicId

RECORDED = Path(__file__).with_name("java_results.tsv").read_text().splitlines()
TOPICS = {topic_id(2): 3, topic_id(3): 2}
NAMES = [MemberId(name) for name in "abc"]


def test_every_recorded_member_takes_the_step_that_java_takes() -> None:
    lines = [line.rsplit("\t", 1) for line in RECORDED]
    before = Counter(line.split("\t")[0].rsplit("/", 1)[1] for line, _ in lines)
    assert set(before) == {str(state.value) for state in MemberState}
    for line, answer in lines:
        assert shown(read(line).reconciled()) == answer, line


class AnyHistory(RuleBasedStateMachine):
    """Members come, go, change their topics, answer late: the group as its coordinator sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0
        self.topics: dict[MemberId, frozenset[TopicId]] = {}
        self.members: dict[MemberId, CurrentAssignment] = {}
        self.targets: Targets = {}

    def is_owned(self, topic: TopicId, number: Partition) -> bool:
        return any(
            number in partitions.get(topic, ())
            for member in self.members.values()
            for partitions in (member.assigned, member.pending_revocation)
        )

    def next_epoch(self) -> None:
        self.epoch += 1
        same = len(set(self.topics.values())) <= 1
        self.targets = ServerUniformAssignor().assign(GroupSpec(self.topics, TOPICS, same, self.targets))

    def beat(self, name: MemberId, owned: TopicPartitions | None, changed: bool = False) -> None:
        after = reconcile(
            self.members[name],
            ReconcileInput(
                self.targets.get(name, {}), self.epoch, owned, self.topics[name], changed, self.is_owned
            ),
        )
        assert isinstance(after, CurrentAssignment)
        self.members[name] = after

    @rule(name=st.sampled_from(NAMES), topics=st.sets(st.sampled_from(sorted(TOPICS))))
    def subscribe(self, name: MemberId, topics: set[TopicId]) -> None:
        is_new = name not in self.members
        self.topics[name] = frozenset(topics)
        self.members.setdefault(name, CurrentAssignment())
        self.next_epoch()
        self.beat(name, {} if is_new else None, changed=True)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def say_nothing(self, data: st.DataObject) -> None:
        self.beat(data.draw(st.sampled_from(sorted(self.members))), None)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.members)))
        self.beat(name, self.members[name].assigned)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.members)))
        del self.members[name], self.topics[name]
        self.targets.pop(name, None)
        self.next_epoch()

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owned = [
            partition
            for member in self.members.values()
            for partitions in (member.assigned, member.pending_revocation)
            for partition in each_partition(partitions)
        ]
        assert len(owned) == len(set(owned))

    @invariant()
    def a_member_that_must_revoke_stays_at_its_epoch_and_gets_nothing_new(self) -> None:
        for member in self.members.values():
            assert member.member_epoch <= self.epoch
            is_unrevoked = member.state is MemberState.UNREVOKED_PARTITIONS
            assert is_unrevoked == any(member.pending_revocation.values())

    def teardown(self) -> None:
        """Left alone, with members that do what they are asked to do, the group converges."""
        for _ in range(2 * len(NAMES)):
            for name in self.members:
                self.beat(name, self.members[name].assigned)
        for name, member in self.members.items():
            assert member.is_reconciled(self.epoch)
            assert member.assigned == self.targets[name]


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(derandomize=True, deadline=None, max_examples=60, stateful_step_count=30)
