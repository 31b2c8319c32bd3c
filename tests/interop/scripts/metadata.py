"""Metadata: all, none, unknown, invalid, by id, twice, with and without automatic creation."""

from collections.abc import Iterator

from tests.interop.scripts.exchange import Answer, Exchange, Reply

from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

NAME = "script.metadata"
UNKNOWN_ID = bytes(range(16))
VERSIONS = range(14)


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def only_ours(answer: Answer) -> Answer:
    """Without the topics that other tests left on a broker."""
    assert isinstance(answer, Reply)
    message = answer.message
    assert isinstance(message, MetadataResponse)
    message.topics = [each for each in message.topics if each.name == NAME]
    return answer


def metadata(x: Exchange) -> Iterator[tuple[str, Answer]]:
    """One topic looked at in every way."""
    created = x.ask(
        CreateTopicsRequest(topics=[CreatableTopic(name=NAME, num_partitions=2, replication_factor=1)]), 7
    )
    topic_id = created.topics[0].topic_id
    for version in VERSIONS:
        yield f"by name v{version}", x.get(MetadataRequest(topics=named(NAME)), version)
    for version in (1, 8, 12, 13):
        yield f"no topics v{version}", x.get(MetadataRequest(topics=[]), version)
    for version in (0, 1, 9, 13):
        everything: list[MetadataRequestTopic] | None = None if version else []
        yield f"all topics v{version}", only_ours(x.get(MetadataRequest(topics=everything), version))
    yield from _bad_names(x)
    yield from _by_id(x, topic_id)
    operations = MetadataRequest(
        topics=named(NAME),
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    for version in (8, 10, 11):
        yield f"with operations v{version}", x.get(operations, version)
    yield "the same topic twice", x.get(MetadataRequest(topics=named(NAME, NAME)), 9)
    yield "a good and an unknown one", x.get(MetadataRequest(topics=named(NAME, "script.none")), 9)


def _bad_names(x: Exchange) -> Iterator[tuple[str, Answer]]:
    for allow in (True, False):
        said = "creation allowed" if allow else "creation forbidden"
        for label, name in (
            ("unknown", "script.unknown"),
            ("empty", ""),
            ("dots", ".."),
            ("with a space", "no good"),
            ("of 250 characters", "x" * 250),
        ):
            request = MetadataRequest(topics=named(name), allow_auto_topic_creation=allow)
            yield f"a name {label}, {said}", x.get(request, 12)
    yield "unknown in v0", x.get(MetadataRequest(topics=named("script.unknown")), 0)
    yield "unknown in v3", x.get(MetadataRequest(topics=named("script.unknown")), 3)


def _by_id(x: Exchange, topic_id: bytes) -> Iterator[tuple[str, Answer]]:
    def by(topic: bytes, name: str | None = None) -> MetadataRequest:
        return MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic, name=name)])

    for version in (10, 11, 12, 13):
        yield f"by id v{version}", x.get(by(topic_id), version)
    yield "by unknown id", x.get(by(UNKNOWN_ID), 12)
    yield "by zero id and no name", x.get(by(bytes(16)), 12)
    yield "by id and name", x.get(by(topic_id, NAME), 12)
    yield "by id and another name", x.get(by(topic_id, "script.other"), 12)
    yield "no name and no id v10", x.get(by(bytes(16)), 10)
