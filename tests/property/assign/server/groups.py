"""Generated groups for the server-side assignors, and the text form that a Java program reads.

A topic is a number ``n``; its id is 16 bytes with that value, so Java's hash order is the order of numbers.
"""

from collections.abc import Iterable

from hypothesis import strategies as st

from kohort.assign.server.group import NO_PARTITIONS, GroupSpec, ServerAssignor, Targets, TopicPartitions
from kohort.assign.server.range import ServerRangeAssignor
from kohort.assign.server.uniform import ServerUniformAssignor
from kohort.model.ids import InstanceId, MemberId, Partition, TopicId

ASSIGNORS: dict[str, ServerAssignor] = {"range": ServerRangeAssignor(), "uniform": ServerUniformAssignor()}
MOST_TOPICS, MOST_MEMBERS, MOST_PARTITIONS = 4, 14, 24
FIRST_TOPIC = 2  # Kafka reserves the ids 0 and 1


def topic_id(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


def numbers(values: Iterable[int]) -> frozenset[Partition]:
    return frozenset(map(Partition, values))


@st.composite
def group_specs(draw: st.DrawFn, *, same_topics: bool) -> GroupSpec:
    """Members that come, went and changed their topics: each partition had one owner at most."""
    counts = draw(st.lists(st.integers(1, MOST_PARTITIONS), min_size=1, max_size=MOST_TOPICS))
    partitions = {topic_id(FIRST_TOPIC + index): count for index, count in enumerate(counts)}
    everything = sorted(partitions)
    size = draw(st.integers(1, MOST_MEMBERS))
    subsets = st.sets(st.sampled_from(everything), min_size=1).map(frozenset)
    shared = draw(subsets)
    topics = [shared if same_topics else draw(subsets) for _ in range(size)]
    targets: list[dict[TopicId, set[Partition]]] = [{} for _ in range(size)]
    for topic in everything:
        for number in range(partitions[topic]):
            owner = draw(st.integers(-1, size - 1))
            if owner >= 0:
                targets[owner].setdefault(topic, set()).add(Partition(number))
    ids = [MemberId(f"m{index:02}") for index in range(size)]
    static = draw(st.sets(st.sampled_from(range(size))))
    return GroupSpec(
        topics=dict(zip(ids, topics, strict=True)),
        partitions=partitions,
        same_topics=same_topics,
        targets={
            ids[index]: {topic: frozenset(held) for topic, held in target.items()}
            for index, target in enumerate(targets)
        },
        instances={ids[index]: InstanceId(f"i{size - index:02}") for index in static},
    )


def written(name: str, group: GroupSpec) -> str:
    """A group as four columns."""
    counts = " ".join(f"{_number(topic)}:{count}" for topic, count in sorted(group.partitions.items()))
    members = " ".join(
        f"{member_id};{group.instances.get(member_id, '')};"
        f"{','.join(str(_number(topic)) for topic in sorted(topics))};"
        f"{written_shares(group.targets.get(member_id, NO_PARTITIONS))}"
        for member_id, topics in group.topics.items()
    )
    return f"{name}\t{'same' if group.same_topics else 'mixed'}\t{counts}\t{members}"


def read(line: str) -> tuple[ServerAssignor, GroupSpec]:
    """The opposite of ``written``."""
    name, kind, topics, members = line.split("\t")
    counts = [topic.split(":") for topic in topics.split(" ")]
    partitions = {topic_id(int(topic)): int(count) for topic, count in counts}
    rows = [member.split(";") for member in members.split(" ")]
    return ASSIGNORS[name], GroupSpec(
        topics={
            MemberId(member_id): frozenset(topic_id(int(topic)) for topic in wanted.split(",") if topic)
            for member_id, _, wanted, _ in rows
        },
        partitions=partitions,
        same_topics=kind == "same",
        targets={MemberId(member_id): read_shares(target) for member_id, _, _, target in rows},
        instances={
            MemberId(member_id): InstanceId(instance) for member_id, instance, _, _ in rows if instance
        },
    )


def shown(targets: Targets) -> str:
    """A result as Java's answer."""
    return " ".join(f"{member}={written_shares(targets[member])}" for member in sorted(targets))


def read_shares(text: str) -> TopicPartitions:
    shares = [share.split(":") for share in text.split(",") if share]
    return {topic_id(int(topic)): numbers(map(int, held.split("|"))) for topic, held in shares}


def written_shares(target: TopicPartitions) -> str:
    return ",".join(
        f"{_number(topic)}:{'|'.join(map(str, sorted(held)))}" for topic, held in sorted(target.items())
    )


def _number(topic: TopicId) -> int:
    return int.from_bytes(topic, "big")
