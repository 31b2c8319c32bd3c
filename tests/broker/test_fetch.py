"""Fetch without sessions: every version, positions, budgets, isolation, refusals."""

import pytest
from tests.broker.asking import (
    BROKER,
    LARGE,
    alter,
    append,
    batch,
    create,
    fetch,
    fetch_request,
    part,
    produce,
    produce_request,
    records_of,
)
from tests.broker.conftest import Restart
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.records.batch import BatchFields
from kohort.records.compression import Codec
from kohort.wire.messages.fetch import FetchRequest, FetchTopic

BY_NAME, BY_ID = range(4, 13), range(13, 19)
NOTHING = (-1, -1, -1)


def offsets(result: Reply) -> tuple[int, int, int]:
    return result.high_watermark, result.last_stable_offset, result.log_start_offset


def values_in(result: Reply) -> list[str]:
    return [(record.value or b"").decode() for record in records_of(result.records)]


@pytest.mark.parametrize("version", BY_NAME)
def test_records_and_numbers_of_a_partition_by_name(raw: Raw, version: int) -> None:
    create(raw, "t", 2)
    append(raw, "t", batch("a", "b"), batch("c"))
    reply = raw.send(fetch_request({"t": [part()]}), version)
    (topic,) = reply.responses
    assert (topic.topic, reply.throttle_time_ms, reply.error_code, reply.session_id) == ("t", 0, 0, 0)
    (result,) = topic.partitions
    assert (result.partition_index, result.error_code, result.preferred_read_replica) == (0, 0, -1)
    assert offsets(result) == (3, 3, 0 if version >= 5 else -1)
    assert values_in(result) == ["a", "b", "c"]


@pytest.mark.parametrize("version", BY_ID)
def test_records_of_a_partition_by_id(raw: Raw, version: int) -> None:
    topic_id = create(raw, "t")
    append(raw, "t", batch("a"))
    (topic,) = raw.send(fetch_request({topic_id: [part()]}), version).responses
    assert topic.topic_id == topic_id
    assert values_in(topic.partitions[0]) == ["a"]


# Where to begin


def test_a_fetch_begins_with_the_batch_that_holds_its_offset(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", batch("a", "b", "c"), batch("d"))
    assert values_in(fetch(raw, "t", part(offset=1))) == ["a", "b", "c", "d"]
    assert values_in(fetch(raw, "t", part(offset=3))) == ["d"]


@pytest.mark.parametrize("version", [4, 7, 12])
def test_the_end_of_the_log_is_empty_and_never_null(raw: Raw, version: int) -> None:
    create(raw, "t")
    append(raw, "t", batch("a"))
    result = fetch(raw, "t", part(offset=1), version=version)
    assert result.error_code == 0
    assert result.records is not None
    assert bytes(result.records) == b""
    assert result.high_watermark == 1


@pytest.mark.parametrize("offset", [2, 3, 2**62, -1, -2, -(2**63)])
def test_offsets_outside_the_log_are_out_of_range(raw: Raw, offset: int) -> None:
    create(raw, "t")
    append(raw, "t", batch("a"))
    result = fetch(raw, "t", part(offset=offset))
    assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert offsets(result) == NOTHING
    assert bytes(result.records) == b""


# Complete answers


def test_the_reply_has_every_partition_that_was_asked_for_and_no_other(raw: Raw) -> None:
    create(raw, "t", 5)
    create(raw, "u", 2)
    append(raw, "t", batch("a"))
    request = fetch_request({"u": [part(1)], "t": [part(4), part(0), part(9)], "none": [part(0)]})
    reply = raw.send(request, 12)
    answered = [(topic.topic, each.partition_index) for topic in reply.responses for each in topic.partitions]
    assert answered == [("u", 1), ("t", 4), ("t", 0), ("t", 9), ("none", 0)]


def test_a_partition_asked_for_twice_is_answered_once(raw: Raw) -> None:
    create(raw, "t")
    reply = raw.send(fetch_request({"t": [part(), part()]}), 12)
    assert len(reply.responses[0].partitions) == 1


def test_topics_without_partitions_are_not_in_the_reply(raw: Raw) -> None:
    create(raw, "t")
    assert raw.send(fetch_request({"t": []}), 12).responses == []
    assert raw.send(FetchRequest(max_wait_ms=60_000, min_bytes=1), 12).responses == []


def test_a_topic_named_in_two_places_is_one_entry(raw: Raw) -> None:
    create(raw, "t", 2)
    request = fetch_request({"t": [part(0)]})
    request.topics.append(FetchTopic(topic="t", partitions=[part(1)]))
    (topic,) = raw.send(request, 12).responses
    assert [each.partition_index for each in topic.partitions] == [0, 1]


# Budgets


def test_a_hundred_partitions_with_one_byte_return_all_of_them_and_one_batch(raw: Raw) -> None:
    create(raw, "t", 100)
    raw.send(produce_request("t", *[batch(str(n)) for n in range(100)]), 12)
    request = fetch_request({"t": [part(n) for n in range(100)]}, max_bytes=1)
    (topic,) = raw.send(request, 12).responses
    assert [each.partition_index for each in topic.partitions] == list(range(100))
    filled = [each.partition_index for each in topic.partitions if len(each.records)]
    assert filled == [0]
    assert values_in(topic.partitions[0]) == ["0"]


def test_the_order_of_the_request_decides_who_gets_the_budget(raw: Raw) -> None:
    create(raw, "t", 3)
    raw.send(produce_request("t", batch("0"), batch("1"), batch("2")), 12)
    request = fetch_request({"t": [part(2), part(0), part(1)]}, max_bytes=1)
    results = raw.send(request, 12).responses[0].partitions
    assert [(each.partition_index, bool(len(each.records))) for each in results] == [
        (2, True), (0, False), (1, False),
    ]  # fmt: skip


def test_an_empty_partition_does_not_use_up_the_first_batch(raw: Raw) -> None:
    create(raw, "t", 2)
    raw.send(produce_request("t", batch("x" * 500), batch("y" * 500)), 12)
    request = fetch_request({"t": [part(0, offset=1), part(1)]}, max_bytes=1)
    empty, filled = raw.send(request, 12).responses[0].partitions
    assert len(empty.records) == 0
    assert values_in(filled) == ["y" * 500]


@pytest.mark.parametrize("limit", [0, 1, -1, -(2**31)])
def test_the_first_batch_comes_whole_whatever_the_limits(raw: Raw, limit: int) -> None:
    create(raw, "t")
    append(raw, "t", batch("x" * 500), batch("y"))
    assert values_in(fetch(raw, "t", part(limit=limit))) == ["x" * 500]
    assert values_in(fetch(raw, "t", part(), max_bytes=limit)) == ["x" * 500]


@pytest.mark.parametrize("limit", [0, -1, -(2**31)])
def test_a_log_on_disk_too_sends_the_first_batch_whatever_the_limits(restart: Restart, limit: int) -> None:
    raw = restart()
    create(raw, "t")
    append(raw, "t", batch("x" * 500), batch("y"))
    assert values_in(fetch(raw, "t", part(limit=limit))) == ["x" * 500]
    assert values_in(fetch(raw, "t", part(), max_bytes=limit)) == ["x" * 500]


def test_whole_batches_are_sent_within_the_limit_of_a_partition(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", batch("a"), batch("b"), batch("c"))
    two = 2 * len(batch("a"))
    assert values_in(fetch(raw, "t", part(limit=two))) == ["a", "b"]
    assert values_in(fetch(raw, "t", part(limit=two + 10))) == ["a", "b"]
    assert values_in(fetch(raw, "t", part(limit=two - 1))) == ["a"]


def test_the_limit_of_the_reply_is_shared_by_all_partitions(raw: Raw) -> None:
    create(raw, "t", 3)
    size = len(batch("a"))
    for _ in range(2):
        raw.send(produce_request("t", batch("a"), batch("a"), batch("a")), 12)
    request = fetch_request({"t": [part(n) for n in range(3)]}, max_bytes=3 * size)
    sizes = [len(each.records) for each in raw.send(request, 12).responses[0].partitions]
    assert sizes == [2 * size, size, 0]


def test_the_brokers_own_limit_caps_a_reply(raw: Raw) -> None:
    alter(raw, BROKER, "", fetch_max_bytes=1_024)
    create(raw, "t")
    append(raw, "t", *[batch("x" * 500) for _ in range(5)])
    assert len(values_in(fetch(raw, "t", part(limit=LARGE)))) == 1


# Isolation


def test_aborted_transactions_are_null_when_uncommitted_records_are_wanted(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", batch("a"))
    assert fetch(raw, "t").aborted_transactions is None


@pytest.mark.parametrize("version", [4, 11, 12])
def test_aborted_transactions_are_an_empty_list_when_committed_ones_are(raw: Raw, version: int) -> None:
    create(raw, "t")
    append(raw, "t", batch("a"))
    result = raw.send(fetch_request({"t": [part()]}, isolation=1), version).responses[0].partitions[0]
    assert result.aborted_transactions == []
    assert values_in(result) == ["a"]


# Refusals


@pytest.mark.parametrize("version", [4, 7, 12])
def test_an_unknown_name_is_an_unknown_topic(raw: Raw, version: int) -> None:
    result = fetch(raw, "nowhere", version=version)
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert offsets(result) == NOTHING
    assert bytes(result.records) == b""


@pytest.mark.parametrize("version", BY_ID)
@pytest.mark.parametrize("topic_id", [bytes(range(16)), bytes(16)])
def test_an_unknown_id_is_echoed_with_its_own_error(raw: Raw, version: int, topic_id: bytes) -> None:
    (topic,) = raw.send(fetch_request({topic_id: [part()]}), version).responses
    assert topic.topic_id == topic_id
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("index", [1, -1, 2**31 - 1, -(2**31)])
def test_an_unknown_partition_is_told_in_its_place(raw: Raw, index: int) -> None:
    create(raw, "t")
    append(raw, "t", batch("a"))
    wrong, right = raw.send(fetch_request({"t": [part(index), part(0)]}), 12).responses[0].partitions
    assert (wrong.partition_index, wrong.error_code) == (index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert values_in(right) == ["a"]


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH), (2**31 - 1, 75)]
)
def test_the_leader_epoch_must_fit_unless_the_client_does_not_know_one(
    raw: Raw, epoch: int, code: int
) -> None:
    create(raw, "t")
    assert fetch(raw, "t", part(epoch=epoch)).error_code == code


def test_a_last_fetched_epoch_nobody_knows_is_out_of_range(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", batch("a"))
    wanted = part(offset=1)
    wanted.last_fetched_epoch = 7
    assert fetch(raw, "t", wanted).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_position_beyond_the_end_of_its_epoch_diverges_and_gets_no_records(restart: Restart) -> None:
    raw = restart()
    create(raw, "t")
    append(raw, "t", batch("a"))
    raw = restart()
    append(raw, "t", batch("b"), batch("c"))
    wanted = part(offset=2)
    wanted.last_fetched_epoch = 0
    reply = raw.send(fetch_request({"t": [wanted]}, wait=60_000), 12)
    result = reply.responses[0].partitions[0]
    assert (result.error_code, bytes(result.records)) == (0, b"")
    assert (result.diverging_epoch.epoch, result.diverging_epoch.end_offset) == (0, 1)


# zstd before v10


def test_a_zstd_topic_is_served_to_every_version_as_kafka_serves_it(raw: Raw) -> None:
    create(raw, "t", compression_type="zstd")
    append(raw, "t", batch("a", fields=BatchFields(codec=Codec.ZSTD)))
    for version in (4, 9, 10):
        assert values_in(fetch(raw, "t", version=version)) == ["a"]


def test_what_is_produced_can_be_fetched_by_others_at_once(raw: Raw) -> None:
    topic_id = create(raw, "t")
    assert produce(raw, topic_id, batch("a")).base_offset == 0
    assert values_in(fetch(raw, topic_id)) == ["a"]
