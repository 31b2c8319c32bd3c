"""A driver's questions, asked of a broker."""

import asyncio
import pickle
from collections.abc import Iterator

import pytest
from tests.unit.spark.conftest import Feed, OptionsOf

from kohort.broker.topics import TopicToCreate
from kohort.client.admin import AsyncAdmin
from kohort.client.errors import NoBrokerError, UnknownTopicError
from kohort.spark.lookup import Lookup, client_options, task_client_options
from kohort.spark.offsets import topic_partition
from kohort.spark.options import parse_source_options
from kohort.testing.plugin import Kohort


@pytest.fixture
def topic(kohort: Kohort, feed: Feed) -> str:
    """Five records in the first of two partitions, one a second."""
    name = kohort.topic(partitions=2)
    feed(name, 5)
    return name


@pytest.fixture
def lookup(topic: str, options_of: OptionsOf, kohort: Kohort) -> Iterator[Lookup]:
    asked = Lookup(options_of(subscribe=topic, kafka__group__id=kohort.group()))
    yield asked
    asked.close()


def test_it_knows_partitions_and_where_their_logs_start_and_end(lookup: Lookup, topic: str) -> None:
    first, second = topic_partition(topic, 0), topic_partition(topic, 1)
    assert lookup.partitions() == [first, second]
    assert lookup.log_starts([first, second]) == {first: 0, second: 0}
    assert lookup.log_ends([first, second]) == {first: 5, second: 0}
    assert lookup.log_ends([]) == {}
    assert set(lookup.topic_ids()) == {topic}
    assert lookup.ids_of([topic, "nowhere"]) == lookup.topic_ids(), "of those that exist"


def test_ids_and_ends_come_together_or_without_ends_that_are_not_told_at_once(
    lookup: Lookup, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, nowhere = topic_partition(topic, 0), topic_partition("nowhere", 0)
    ids = lookup.ids_of([topic])
    with monkeypatch.context() as patient:
        patient.setattr("kohort.spark.lookup._AT_ONCE_S", 30)
        assert lookup.ids_and_ends([first]) == (ids, {first: 5})
    assert lookup.ids_and_ends([first, nowhere]) == (ids, None)
    monkeypatch.setattr(AsyncAdmin, "list_offsets", lambda *_, **__: asyncio.Event().wait())  # no leader
    assert lookup.ids_and_ends([first]) == (ids, None)


def test_it_finds_offsets_by_time(lookup: Lookup, topic: str) -> None:
    first, second = topic_partition(topic, 0), topic_partition(topic, 1)
    found = lookup.offsets_for_times({first: 2_500, second: 0})
    assert found == {first: 2, second: None}


def test_it_commits_to_a_group_without_members_and_reads_it_back(lookup: Lookup, topic: str) -> None:
    first, second = topic_partition(topic, 0), topic_partition(topic, 1)
    assert lookup.committed([first]) == {}
    lookup.commit({first: 3})
    lookup.commit({})
    assert lookup.committed([first, second]) == {first: 3}


def test_a_copy_goes_its_own_way(lookup: Lookup, topic: str) -> None:
    lookup.partitions()
    copy = pickle.loads(pickle.dumps(lookup))
    assert copy.partitions() == lookup.partitions()
    copy.close()
    lookup.close()
    assert len(lookup.partitions()) == 2, "closing only gives up connections"


def test_assigned_partitions_must_exist(options_of: OptionsOf, topic: str) -> None:
    lookup = Lookup(options_of(assign=f'{{"{topic}":[1,7]}}'))
    with pytest.raises(UnknownTopicError, match="there is no partition 7"):
        lookup.partitions()
    assert lookup.partitions(missing_ok=True) == [topic_partition(topic, 1)]
    lookup.close()


def test_a_pattern_matches_whole_names_and_no_internal_topics(
    kohort: Kohort, options_of: OptionsOf, topic: str
) -> None:
    lookup = Lookup(options_of(subscribePattern=f"{topic[:-1]}.|__.*"))
    assert {where.topic for where in lookup.partitions()} == {topic}
    lookup.close()


def test_the_list_of_partitions_can_be_kept_for_a_while(
    kohort: Kohort, options_of: OptionsOf, topic: str
) -> None:
    pattern = f"{topic}.*"
    kept = Lookup(options_of(subscribePattern=pattern, partition__metadata__cache__ttl__ms="3600000"))
    fresh = Lookup(options_of(subscribePattern=pattern))
    for lookup in (kept, fresh):
        assert len(lookup.partitions()) == 2
    kohort.broker.run(kohort.broker.server.broker.topics.create(TopicToCreate(f"{topic}-too", 1)))
    assert len(kept.partitions()) == 2
    assert len(fresh.partitions()) == 3
    kept.close()
    fresh.close()


def test_nobody_to_ask_is_said_at_once() -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "a"}
    with pytest.raises(NoBrokerError):
        Lookup(parse_source_options(given, streaming=False)).partitions()


def test_settings_of_the_client_are_passed_on(options_of: OptionsOf) -> None:
    options = options_of(subscribe="a", kafka__request__timeout__ms="7000")
    assert client_options(options).request_timeout_ms == 7_000
    assert client_options(options).client_id == "kohort-spark"
    patient = options_of(subscribe="a", kafkaConsumer__pollTimeoutMs="5000")
    assert task_client_options(patient).api_timeout_ms == 5_000
    assert task_client_options(options) == client_options(options)
