"""What must be true of an assignment: the invariants of the specification, as far as tests share them."""

from collections.abc import Mapping
from itertools import permutations

from tests.property.assign.generated import Case

from kohort.assign.protocol import Assignment, Subscription
from kohort.model.ids import MemberId, Partition, TopicName
from kohort.model.topics import TopicPartition

Result = Mapping[MemberId, Assignment]


def wanted(case: Case) -> set[TopicPartition]:
    """Every partition of every known topic that somebody subscribes to."""
    return {
        TopicPartition(topic, Partition(number))
        for wish in case.members.values()
        for topic in wish.topics
        for number in range(case.cluster.partitions.get(topic, 0))
    }


def given_out(result: Result) -> list[TopicPartition]:
    return [tp for share in result.values() for tp in share.partitions]


def sizes(result: Result) -> list[int]:
    return [len(share.partitions) for share in result.values()]


def sets(result: Result) -> dict[MemberId, set[TopicPartition]]:
    return {member: set(share.partitions) for member, share in result.items()}


def check_complete(case: Case, result: Result) -> None:
    """I1: everything to exactly one member, and an entry for everybody."""
    given = given_out(result)
    assert len(given) == len(set(given))
    assert set(given) == wanted(case)
    assert set(result) == set(case.members)


def check_only_what_was_asked_for(case: Case, result: Result) -> None:
    """I2: a member only gets topics it subscribes to."""
    for member, share in result.items():
        assert {tp.topic for tp in share.partitions} <= set(case.members[member].topics)


def check_even(result: Result) -> None:
    """I4: all sizes within one."""
    assert max(sizes(result)) - min(sizes(result)) <= 1


def check_no_move_would_help(case: Case, result: Result) -> None:
    """I5, in its strong form: who has two more than another holds no topic that the other subscribes to."""
    for full, empty in permutations(result, 2):
        if len(result[full].partitions) >= len(result[empty].partitions) + 2:
            held = {tp.topic for tp in result[full].partitions}
            assert not held & set(case.members[empty].topics)


def check_no_swaps(owned: Mapping[MemberId, set[TopicPartition]], result: Result) -> None:
    """I9: no two members exchange partitions of one topic."""
    new_owner = {tp: member for member, share in result.items() for tp in share.partitions}
    moved: set[tuple[TopicName, MemberId, MemberId]] = {
        (tp.topic, member, new_owner[tp])
        for member, held in owned.items()
        for tp in held
        if tp in new_owner and new_owner[tp] != member
    }
    assert not {(topic, target, source) for topic, source, target in moved} & moved


def undisputed(members: Mapping[MemberId, Subscription]) -> dict[MemberId, set[TopicPartition]]:
    """What members own where nobody claims it with the same or a higher generation (absent is lowest)."""

    def age(member: MemberId) -> int:
        generation = members[member].generation
        return -1 if generation is None else generation

    return {
        member: {
            tp
            for tp in wish.owned
            if all(
                tp not in members[other].owned or age(other) < age(member)
                for other in members
                if other != member
            )
        }
        for member, wish in members.items()
    }
