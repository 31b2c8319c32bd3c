"""CreateTopics, DeleteTopics, CreatePartitions: what is made, and every way to be refused."""

from collections.abc import Iterator

from tests.interop.scripts.exchange import Answer, Exchange
from tests.interop.scripts.setting import ADMIN, make_topic, wait_for_topic, wait_until_gone

from kohort.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kohort.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.metadata import MetadataRequest

Steps = Iterator[tuple[str, Answer]]
Placement = dict[int, list[int]]


def topic(
    name: str, partitions: int = 1, factor: int = 1, configs: dict[str, str | None] | None = None
) -> CreatableTopic:
    """A topic to create."""
    entries = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=entries)


def placed(name: str, placement: Placement, partitions: int = -1, factor: int = -1) -> CreatableTopic:
    """A topic to create with its replicas named."""
    wanted = topic(name, partitions, factor)
    wanted.assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in placement.items()
    ]
    return wanted


def creating(*topics: CreatableTopic, check_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=check_only)


def node_id(x: Exchange) -> int:
    """The id of the only broker."""
    node: int = x.ask(MetadataRequest(topics=[]), 9, on=ADMIN).brokers[0].node_id
    return node


def create_topics(x: Exchange) -> Steps:
    """Every version; defaults; check only; configs shown."""
    for version in range(2, 8):
        yield f"v{version}", x.get(creating(topic(f"script.create-v{version}", 2)), version)
        wait_for_topic(x, f"script.create-v{version}", 2)
    for version in (2, 3, 4, 5):
        wanted = topic(f"script.defaults-v{version}", -1, -1)
        yield f"defaults v{version}", x.get(creating(wanted), version)
    own = topic("script.configured", configs={"cleanup.policy": "compact,delete", "retention.ms": "1000"})
    yield "with configs", x.get(creating(own), 7)
    checked = topic("script.checked", 4, configs={"max.message.bytes": "7"})
    yield "check only", x.get(creating(checked, check_only=True), 7)
    yield "check only, again", x.get(creating(checked, check_only=True), 7)
    yield "two at once", x.get(creating(topic("script.two-a"), topic("script.two-b")), 7)
    node = node_id(x)
    assigned = placed("script.assigned", {0: [node], 1: [node]})
    yield "assigned", x.get(creating(assigned), 7)
    yield "none", x.get(creating(), 7)


def create_refusals(x: Exchange) -> Steps:
    """Names, numbers, assignments and configs that are not accepted."""
    make_topic(x, "script.exists")
    make_topic(x, "script.collision_one")
    for version in (2, 5, 7):
        yield f"exists v{version}", x.get(creating(topic("script.exists")), version)
    yield "exists, check only", x.get(creating(topic("script.exists"), check_only=True), 7)
    for label, name in {
        "empty": "", "dot": ".", "dots": "..", "space": "no good", "slash": "a/b", "long": "x" * 250,
        "umlaut": "ä", "collides": "script.collision.one",
    }.items():  # fmt: skip
        yield f"name: {label}", x.get(creating(topic(name)), 7)
    yield "the longest name", x.get(creating(topic("x" * 249), check_only=True), 7)
    for partitions, factor in ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (-1, 1), (1, -1), (0, 0)):
        wanted = topic(f"script.numbers{partitions}{factor}", partitions, factor)
        yield f"{partitions} partitions, factor {factor}", x.get(creating(wanted, check_only=True), 7)
    yield "the same twice", x.get(creating(topic("script.twice"), topic("script.twice", 2)), 7)
    mixed = creating(topic("script.exists"), topic("script.fine"), check_only=True)
    yield "one good, one bad", x.get(mixed, 7)
    yield from _bad_assignments(x)
    yield from _bad_configs(x)


def _bad_assignments(x: Exchange) -> Steps:
    node = node_id(x)
    wrong = {
        "with a count": placed("script.a", {0: [node]}, partitions=1),
        "with a factor": placed("script.a", {0: [node]}, factor=1),
        "no replicas": placed("script.a", {0: []}),
        "unknown broker": placed("script.a", {0: [node + 77]}),
        "broker twice": placed("script.a", {0: [node, node]}),
        "a hole": placed("script.a", {0: [node], 2: [node]}),
        "not from 0": placed("script.a", {1: [node]}),
        "negative": placed("script.a", {-1: [node]}),
    }
    for label, wanted in wrong.items():
        yield f"assignment: {label}", x.get(creating(wanted, check_only=True), 7)
    twice = placed("script.a", {0: [node]})
    twice.assignments = twice.assignments * 2
    yield "assignment: partition twice", x.get(creating(twice, check_only=True), 7)


def _bad_configs(x: Exchange) -> Steps:
    wrong: dict[str, dict[str, str | None]] = {
        "unknown": {"no.such.config": "1"},
        "not a number": {"retention.ms": "soon"},
        "too small": {"retention.ms": "-2"},
        "unknown policy": {"cleanup.policy": "forget"},
        "unknown codec": {"compression.type": "rar"},
        "null": {"retention.ms": None},
        "not a bool": {"unclean.leader.election.enable": "maybe"},
        "empty name": {"": "1"},
        "broker config": {"log.retention.ms": "1"},
        "small segment": {"segment.bytes": "1"},
        "ratio": {"min.cleanable.dirty.ratio": "2"},
        "empty policy": {"cleanup.policy": ""},
    }
    for label, configs in wrong.items():
        yield f"config: {label}", x.get(creating(topic("script.c", configs=configs), check_only=True), 7)


def delete_topics(x: Exchange) -> Steps:
    """By name, by id, unknown, twice, internal-looking; gone afterwards."""
    for version in range(1, 6):
        make_topic(x, f"script.delete-v{version}")
        request = DeleteTopicsRequest(topic_names=[f"script.delete-v{version}"], timeout_ms=10_000)
        yield f"v{version}", x.get(request, version)
        wait_until_gone(x, f"script.delete-v{version}")
        yield f"again v{version}", x.get(request, version)
    by_name, by_id, both = (make_topic(x, f"script.delete-{how}") for how in ("name", "id", "both"))

    def gone(*states: DeleteTopicState) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(topics=list(states), timeout_ms=10_000)

    yield "v6 by name", x.get(gone(DeleteTopicState(name="script.delete-name")), 6)
    yield "v6 by id", x.get(gone(DeleteTopicState(name=None, topic_id=by_id)), 6)
    two_ways = DeleteTopicState(name="script.delete-both", topic_id=both)
    yield "v6 by both", x.get(gone(two_ways), 6)
    yield "v6 by neither", x.get(gone(DeleteTopicState(name=None)), 6)
    yield "v6 unknown name", x.get(gone(DeleteTopicState(name="script.none")), 6)
    yield "v6 unknown id", x.get(gone(DeleteTopicState(name=None, topic_id=bytes(range(16)))), 6)
    named, identified = (
        DeleteTopicState(name="script.delete-both"),
        DeleteTopicState(name=None, topic_id=both),
    )
    yield "v6 the same by name and by id", x.get(gone(named, identified), 6)
    yield "v6 the same name twice", x.get(gone(named, named), 6)
    yield "v6 a bad name", x.get(gone(DeleteTopicState(name="no good")), 6)
    yield "none", x.get(gone(), 6)
    wait_until_gone(x, "script.delete-name")
    fresh = make_topic(x, "script.delete-name")
    assert fresh != by_name, "a topic made again must have another id"


def create_partitions(x: Exchange) -> Steps:
    """Growing, shrinking, staying, assignments, unknown topics, check only."""
    name = "script.grow"
    make_topic(x, name)
    node = node_id(x)

    def grow(
        count: int, brokers: list[list[int]] | None = None, check: bool = False
    ) -> CreatePartitionsRequest:
        wanted = CreatePartitionsTopic(name=name, count=count, assignments=None)
        if brokers is not None:
            wanted.assignments = [CreatePartitionsAssignment(broker_ids=each) for each in brokers]
        return CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000, validate_only=check)

    for version in range(4):
        yield f"v{version}", x.get(grow(version + 2), version)
        wait_for_topic(x, name, version + 2)
    for count in (5, 4, 0, -1):
        yield f"to {count}", x.get(grow(count), 3)
    yield "check only", x.get(grow(9, check=True), 3)
    yield "check only did nothing", x.get(grow(5, check=True), 3)
    yield "assigned", x.get(grow(6, [[node]]), 3)
    wait_for_topic(x, name, 6)
    for label, brokers in {
        "too few": [[node]], "too many": [[node]] * 3, "unknown broker": [[node], [node + 77]],
        "broker twice": [[node], [node, node]], "empty": [[node], []], "none": [],
    }.items():  # fmt: skip
        yield f"assignment: {label}", x.get(grow(8, brokers, check=True), 3)
    unknown = CreatePartitionsTopic(name="script.none", count=2, assignments=None)
    yield "unknown topic", x.get(CreatePartitionsRequest(topics=[unknown], timeout_ms=10_000), 3)
    twice = CreatePartitionsTopic(name=name, count=10, assignments=None)
    yield "the same twice", x.get(CreatePartitionsRequest(topics=[twice, twice], timeout_ms=10_000), 3)
