"""Thousands of generated groups, assigned by Kafka's own assignors and by ours."""

import subprocess
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from tests.interop.conftest import need
from tests.property.assign.generated import Case, Kind, cases, without_user_data
from tests.property.assign.server import groups as server_groups
from tests.property.assign.test_java import cluster_of, members_of, parsed, shown
from tools.peers import fetch, jvm
from tools.peers.pins import Peer

from kohort.assign.protocol import encode_subscription
from kohort.assign.registry import choose_assignors
from kohort.assign.server.group import GroupSpec

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PROGRAMS = Path(__file__).parents[1] / "property" / "assign"
PROGRAM = PROGRAMS / "JavaAssignors.java"
SERVER_PROGRAM = PROGRAMS / "server" / "JavaServerAssignors.java"
GROUPS = 500  # of each kind
GENERATE = [Phase.generate]
PLAIN = Kind(claims=False, racks=True, instances=True, unknown_topics=False)
# Left out is what the specification decides otherwise, as in the recording, and: Java fails on claims of
# partitions that do not exist, and overlooks that a first member without topics makes a group mixed.
HELD = Kind(uniform=True, disputes=False, unknown_topics=False)
MIXED = Kind(uniform=False, one_generation=True, disputes=False, unknown_topics=False)


def generated(kind: Kind) -> list[Case]:
    """As many groups of a kind, the same ones each time."""
    found: list[Case] = []

    @settings(derandomize=True, deadline=None, max_examples=GROUPS, database=None, phases=GENERATE)
    @given(case=cases(kind))
    def collect(case: Case) -> None:
        if all(wish.topics for wish in case.members.values()):
            found.append(case)

    collect()
    return found


def written(name: str, case: Case) -> str:
    """A line as the program reads it."""
    topics = ",".join(f"{topic}:{'|'.join(_racks(case, topic))}" for topic in case.cluster.partitions)
    members = without_user_data(case.members) if name == "cooperative-sticky" else case.members
    told = " ".join(
        f"{member};{wish.instance_id or ''};{encode_subscription(wish).hex()}"
        for member, wish in members.items()
    )
    return f"{name}\t{topics}\t{told}"


def _racks(case: Case, topic: str) -> Iterator[str]:
    known = dict(case.cluster.racks).get(topic, ())  # type: ignore[call-overload]  # plain text is a name here
    for number in range(case.cluster.partitions[topic]):  # type: ignore[index]  # same
        yield "".join(sorted(known[number])) or "." if number < len(known) else "."


def by_java(lines: list[str], folder: Path, program: Path = PROGRAM) -> list[str]:
    answers = folder / "answers.txt"
    command = jvm.command(fetch.class_path(Peer.KAFKA), str(program), str(answers))
    subprocess.run(command, input="\n".join(lines) + "\n", text=True, check=True, capture_output=True)
    return answers.read_text().splitlines()


KINDS = {
    "range": ("range", PLAIN),
    "roundrobin": ("roundrobin", PLAIN),
    "sticky-uniform": ("sticky", HELD),
    "sticky-mixed": ("sticky", MIXED),
    "cooperative-uniform": ("cooperative-sticky", HELD),
    "cooperative-mixed": ("cooperative-sticky", MIXED),
}


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, str]]]:
    """What Java says to the groups of each kind: one run for all, since it begins with a compiler."""
    need(Peer.KAFKA)
    lines = {of: [written(name, case) for case in generated(kind)] for of, (name, kind) in KINDS.items()}
    answers = iter(by_java(list(chain.from_iterable(lines.values())), tmp_path_factory.mktemp("java")))
    return {of: [(line, next(answers)) for line in each] for of, each in lines.items()}


@pytest.mark.parametrize("of", KINDS)
def test_groups_nobody_thought_of_are_assigned_as_java_assigns_them(
    of: str, answered: dict[str, list[tuple[str, str]]]
) -> None:
    assert len(answered[of]) > GROUPS // 3
    different = []
    for line, answer in answered[of]:
        name, topics, members = line.split("\t")
        (assignor,) = choose_assignors([name])
        ours, java = shown(dict(assignor.assign(cluster_of(topics), members_of(members)))), parsed(answer)
        if ours != java:
            different.append((ours, java))
    assert different == []


def test_any_group_gets_the_target_that_kafkas_coordinator_gives_it(tmp_path: Path) -> None:
    need(Peer.KAFKA)
    lines: list[str] = []
    for same_topics in (True, False):

        @settings(derandomize=True, deadline=None, max_examples=GROUPS, database=None, phases=GENERATE)
        @given(group=server_groups.group_specs(same_topics=same_topics))
        def collect(group: GroupSpec) -> None:
            lines.extend(server_groups.written(name, group) for name in server_groups.ASSIGNORS)

        collect()
    assert len(lines) == 4 * GROUPS
    for line, answer in zip(lines, by_java(lines, tmp_path, SERVER_PROGRAM), strict=True):
        assignor, group = server_groups.read(line)
        assert server_groups.shown(assignor.assign(group)) == answer, line
