"""Generated members of consumer groups in any state, and the text form that a Java program reads."""

from typing import NamedTuple

from hypothesis import strategies as st
from tests.property.assign.server.groups import read_shares, topic_id, written_shares

from kohort.assign.server.group import NO_PARTITIONS, TopicPartitions
from kohort.groups.consumer.assignment import CurrentAssignment, MemberState
from kohort.groups.consumer.reconcile import ReconcileInput, reconcile
from kohort.model.errors import ErrorCode
from kohort.model.ids import Partition, TopicId

TOPICS = (2, 3, 4)
PARTITIONS = 4


class Case(NamedTuple):
    """A member before a heartbeat, and what the group and the heartbeat say."""

    member: CurrentAssignment
    target_epoch: int
    target: TopicPartitions
    subscribed: frozenset[TopicId]
    subscription_changed: bool
    owned: TopicPartitions | None
    others: TopicPartitions  # what other members own

    def reconciled(self) -> CurrentAssignment | ErrorCode:
        def is_owned(topic: TopicId, number: Partition) -> bool:
            held = (self.member.assigned, self.member.pending_revocation, self.others)
            return any(number in partitions.get(topic, ()) for partitions in held)

        return reconcile(
            self.member,
            ReconcileInput(
                self.target,
                self.target_epoch,
                self.owned,
                self.subscribed,
                self.subscription_changed,
                is_owned,
            ),
        )


def shown(result: CurrentAssignment | ErrorCode) -> str:
    """A result as Java's answer."""
    if isinstance(result, ErrorCode):
        return result.name
    return (
        f"{result.member_epoch}/{result.previous_epoch}/{result.state.value} "
        f"{written_shares(result.assigned)} {written_shares(result.pending_revocation)}"
    )


def written(case: Case) -> str:
    """A case as nine columns."""
    member = case.member
    return "\t".join(
        (
            f"{member.member_epoch}/{member.previous_epoch}/{member.state.value}",
            written_shares(member.assigned),
            written_shares(member.pending_revocation),
            str(case.target_epoch),
            written_shares(case.target),
            ",".join(str(int.from_bytes(topic, "big")) for topic in sorted(case.subscribed)),
            "changed" if case.subscription_changed else "",
            "-" if case.owned is None else written_shares(case.owned),
            written_shares(case.others),
        )
    )


def read(line: str) -> Case:
    """The opposite of ``written``."""
    numbers, assigned, pending, epoch, target, subscribed, changed, owned, others = line.split("\t")
    member_epoch, previous, state = map(int, numbers.split("/"))
    return Case(
        CurrentAssignment(
            member_epoch, previous, MemberState(state), read_shares(assigned), read_shares(pending)
        ),
        int(epoch),
        read_shares(target),
        frozenset(topic_id(int(topic)) for topic in subscribed.split(",") if topic),
        bool(changed),
        None if owned == "-" else read_shares(owned),
        read_shares(others),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Each partition has one owner at most; all else is any combination."""
    held: dict[str, dict[TopicId, set[Partition]]] = {"assigned": {}, "pending": {}, "others": {}, "free": {}}
    target: dict[TopicId, set[Partition]] = {}
    for topic in map(topic_id, TOPICS):
        for number in map(Partition, range(PARTITIONS)):
            held[draw(st.sampled_from(list(held)))].setdefault(topic, set()).add(number)
            if draw(st.booleans()):
                target.setdefault(topic, set()).add(number)
    state = draw(st.sampled_from(MemberState))
    pending = held["pending"] if state is MemberState.UNREVOKED_PARTITIONS else {}
    target_epoch = draw(st.integers(1, 4))
    member_epoch = draw(st.integers(0, target_epoch))
    assigned = _frozen(held["assigned"])
    owned: TopicPartitions | None = draw(
        st.sampled_from(
            [None, NO_PARTITIONS, assigned, _joined(assigned, _frozen(pending)), _frozen(pending)]
        )
    )
    return Case(
        CurrentAssignment(member_epoch, member_epoch - 1, state, assigned, _frozen(pending)),
        target_epoch,
        _frozen(target),
        frozenset(draw(st.sets(st.sampled_from([topic_id(topic) for topic in TOPICS])))),
        draw(st.booleans()),
        owned,
        _frozen(held["others"]),
    )


def _frozen(partitions: dict[TopicId, set[Partition]]) -> TopicPartitions:
    return {topic: frozenset(numbers) for topic, numbers in partitions.items()}


def _joined(some: TopicPartitions, others: TopicPartitions) -> TopicPartitions:
    empty: frozenset[Partition] = frozenset()
    return {topic: some.get(topic, empty) | others.get(topic, empty) for topic in {**some, **others}}
