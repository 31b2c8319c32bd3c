"""The server-side assignors for any group: the same results as Java, and what every result must be."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.assign.generated import steady
from tests.property.assign.server.groups import ASSIGNORS, group_specs, read, shown

from kohort.assign.server.group import GroupSpec
from kohort.model.ids import TopicId

RECORDED = Path(__file__).with_name("java_results.tsv").read_text().splitlines()
any_group = st.booleans().flatmap(lambda same_topics: group_specs(same_topics=same_topics))


def test_every_recorded_group_gets_the_target_that_java_gave_it() -> None:
    lines = [line.rsplit("\t", 1) for line in RECORDED]
    assert Counter(tuple(line[0].split("\t")[:2]) for line in lines) == {
        (name, kind): 60 for name in ASSIGNORS for kind in ("same", "mixed")
    }
    for line, answer in lines:
        assignor, group = read(line)
        assert shown(assignor.assign(group)) == answer, line


@pytest.mark.parametrize("name", ASSIGNORS)
@steady
@given(group=any_group)
def test_each_partition_goes_to_one_subscriber(name: str, group: GroupSpec) -> None:
    targets = ASSIGNORS[name].assign(group)
    owned = [
        (topic, number)
        for member, shares in targets.items()
        for topic, numbers in shares.items()
        for number in numbers
        if topic in group.topics[member]
    ]
    wanted = frozenset[TopicId]().union(*group.topics.values())
    assert sorted(owned) == [
        (topic, number) for topic in sorted(wanted) for number in range(group.partitions[topic])
    ]
    assert all(shares[topic] for shares in targets.values() for topic in shares)


@steady
@given(group=group_specs(same_topics=True))
def test_uniform_gives_loads_that_differ_by_one_at_most_and_a_second_run_moves_nothing(
    group: GroupSpec,
) -> None:
    targets = ASSIGNORS["uniform"].assign(group)
    loads = [sum(map(len, shares.values())) for shares in targets.values()]
    assert max(loads) - min(loads) <= 1
    assert ASSIGNORS["uniform"].assign(replace(group, targets=targets)) == targets
