"""The rules of a connection: one request after another, replies in order, faults that stay its own."""

import logging

import pytest
from tests.broker.asking import (
    batch,
    create,
    eventually,
    fetch_request,
    let_idle_time_pass,
    metadata,
    metadata_request,
    part,
    produce_request,
    values,
    waiting_fetches,
)
from tests.broker.conftest import Connect, Restart
from tests.broker.raw import Raw, framed

from kohort.broker.context import Context
from kohort.broker.notices import WINDOW_MS
from kohort.model.errors import ErrorCode, RefusedError
from kohort.testing.broker import Broker
from kohort.testing.intercept import Proceed, Seen, answer, cut_off_after, swallow
from kohort.wire.apis import ApiKey
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.metadata import MetadataResponse


def explode(_seen: Seen, _proceed: Proceed) -> MetadataResponse:
    raise RuntimeError("a bug")


def refuse(_seen: Seen, _proceed: Proceed) -> MetadataResponse:
    raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR)


# Order


def test_a_thousand_requests_sent_at_once_are_answered_in_their_order(raw: Raw) -> None:
    create(raw, "t")
    requests = [
        metadata_request("t"),
        ApiVersionsRequest(client_software_name="x", client_software_version="1"),
    ]
    raw.send_bytes(b"".join(raw.frame(requests[number % 2], 4) for number in range(1_000)))
    for _ in range(1_000):
        assert raw.take().throttle_time_ms == 0  # Raw compares the correlation ids


def test_replies_to_what_came_in_one_read_leave_in_one_write(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.broker.connection.SLICE_S", 60.0)  # no one else waits for a turn
    assert metadata(raw).brokers  # the connection is warm: what follows is one read, here and there
    frames = b"".join(raw.frame(metadata_request(), 13) for _ in range(20))
    raw.send_bytes(frames)
    received = raw.receive_once()
    expected = len(received)
    raw.send_bytes(raw.frame(metadata_request(), 13))
    single = len(raw.receive_once())
    assert expected == 20 * single


def test_requests_behind_one_that_waits_are_answered_after_it(raw: Raw, connect: Connect) -> None:
    create(raw, "t")
    reader = connect()
    waiting = reader.frame(fetch_request({"t": [part()]}, wait=60_000), 12)
    reader.send_bytes(waiting + b"".join(reader.frame(metadata_request(), 13) for _ in range(5)))
    raw.send(produce_request("t", batch("a")), 12)
    assert reader.take().responses
    for _ in range(5):
        assert reader.take().brokers


def test_produces_in_one_breath_keep_their_order(raw: Raw) -> None:
    create(raw, "t")
    raw.send_bytes(b"".join(raw.frame(produce_request("t", batch(str(n))), 12) for n in range(100)))
    offsets = [raw.take().responses[0].partition_responses[0].base_offset for _ in range(100)]
    assert offsets == list(range(100))
    assert values(raw, "t") == [str(n) for n in range(100)]


def test_a_created_topic_is_there_for_the_next_request_of_the_same_breath(raw: Raw) -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    creating = raw.frame(CreateTopicsRequest(topics=[topic]), 7)
    producing = raw.frame(produce_request("t", batch("a")), 12)
    deleting = raw.frame(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
    raw.send_bytes(creating + producing + deleting + raw.frame(metadata_request("t"), 13))
    assert raw.take().topics[0].error_code == 0
    assert raw.take().responses[0].partition_responses[0].error_code == 0
    assert raw.take().responses[0].error_code == 0
    assert raw.take().topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Pieces


def test_requests_may_be_cut_anywhere(raw: Raw) -> None:
    frames = b"".join(raw.frame(metadata_request("x" * n), 13) for n in range(1, 20))
    for start in range(0, len(frames), 7):
        raw.send_bytes(frames[start : start + 7])
    for n in range(1, 20):
        assert raw.take().topics[0].name == "x" * n


def test_a_null_client_id_is_an_empty_one(raw: Raw) -> None:
    raw.client_id = ""
    frame = raw.frame(metadata_request(), 4)
    raw.send_bytes(frame[:12] + b"\xff\xff" + frame[14:])
    assert raw.take().brokers


# The end


def test_what_was_answered_before_the_end_of_input_is_delivered(raw: Raw) -> None:
    raw.post(metadata_request(), 13)
    raw.end_sending()
    assert raw.take().brokers
    assert raw.is_closed()


def test_the_end_of_input_ends_a_wait(raw: Raw, connect: Connect, broker: Broker) -> None:
    create(raw, "t")
    reader = connect()
    reader.post(fetch_request({"t": [part()]}, wait=60_000), 12)
    reader.end_sending()
    assert reader.is_closed()
    eventually(lambda: waiting_fetches(broker) == 0)


@pytest.mark.parametrize("name", ["made", "gone"])
def test_what_was_begun_is_finished_when_the_client_hangs_up(restart: Restart, name: str) -> None:
    raw = restart()
    topic_id = create(raw, "gone")
    impatient = restart.connect()
    if name == "made":
        topic = CreatableTopic(name="made", num_partitions=1, replication_factor=1)
        impatient.post(CreateTopicsRequest(topics=[topic]), 7)
    else:
        impatient.post(DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)]), 6)
    impatient.close()
    expected = {"made": 0, "gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}[name]
    eventually(lambda: metadata(raw, name).topics[0].error_code == expected)
    if name == "gone":
        create(raw, "gone")
    assert raw.send(produce_request(name, batch("a")), 12).responses[0].partition_responses[0].error_code == 0


# Bugs of ours


@pytest.mark.parametrize("version", range(14))
def test_a_handler_that_raises_is_answered_in_the_version_of_the_request(
    raw: Raw, broker: Broker, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    broker.intercept(explode, api="Metadata", times=1)
    reply = raw.send(metadata_request("t"), version)
    assert reply.topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert metadata(raw).brokers
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.getMessage() == f"Metadata v{version} of client 'raw' failed"


@pytest.mark.parametrize("version", [4, 6, 7, 12])
def test_a_fetch_that_raises_says_so_for_every_partition(raw: Raw, broker: Broker, version: int) -> None:
    broker.intercept(explode, api="Fetch", times=1)
    reply = raw.send(fetch_request({"t": [part(0), part(3)]}), version)
    codes = [(each.partition_index, each.error_code) for each in reply.responses[0].partitions]
    assert codes == [(0, ErrorCode.UNKNOWN_SERVER_ERROR), (3, ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert reply.error_code == (ErrorCode.UNKNOWN_SERVER_ERROR if version >= 7 else 0)


def test_a_silent_produce_whose_handler_raises_closes_the_connection(raw: Raw, broker: Broker) -> None:
    for action in (explode, refuse):
        broker.intercept(action, api="Produce", times=1)
        with Raw(broker.bootstrap) as silent:
            silent.post(produce_request("t", batch("a"), acks=0), 12)
            assert silent.is_closed()


def test_a_reply_that_cannot_be_written_closes_the_connection_with_a_stack_trace(
    raw: Raw, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.intercept(answer(MetadataResponse(topics=None)), api="Metadata", times=1)  # type: ignore[arg-type] # wrong on purpose
    raw.post(metadata_request(), 13)
    assert raw.is_closed()
    assert any(record.exc_info for record in caplog.records)


def test_so_does_one_that_came_later(
    raw: Raw, connect: Connect, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async def later() -> MetadataResponse:
        return MetadataResponse(topics=None)  # type: ignore[arg-type] # wrong on purpose

    broker.intercept(lambda _seen, _proceed: later(), api="Metadata", times=1)
    raw.post(metadata_request(), 13)
    assert raw.is_closed()
    assert any(record.exc_info for record in caplog.records)
    assert metadata(connect()).brokers


def test_a_request_that_is_never_answered_holds_up_nobody_else(
    raw: Raw, connect: Connect, broker: Broker
) -> None:
    broker.intercept(swallow, api="Metadata", client="stuck")
    stuck = connect()
    stuck.client_id = "stuck"
    stuck.post(metadata_request(), 13)
    assert metadata(raw).brokers
    assert not stuck.has_something()


def test_a_connection_cut_off_after_the_work_leaves_the_work_done(
    raw: Raw, connect: Connect, broker: Broker
) -> None:
    broker.intercept(cut_off_after, api="CreateTopics", times=1)
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    raw.post(CreateTopicsRequest(topics=[topic]), 7)
    assert raw.is_closed()
    assert metadata(connect(), "t").topics[0].error_code == 0


# One line for each fault of a peer

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
REQUESTS_NOBODY_CAN_SERVE = {
    "a TLS handshake": (HELLO, "TLS"),
    "an HTTP request": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP request (GET)"),
    "another HTTP request": (b"POST /x HTTP/1.1\r\n\r\n", "HTTP request (POST)"),
    "a negative size": (b"\xff\xff\xff\xff\x00\x00", "-1 bytes"),
    "a frame without a header": (framed(b"\x00"), "too short"),
    "no bytes at all": (framed(b""), "too short"),
    "a huge frame": (b"\x7f\x00\x00\x00\x00\x03", "2,130,706,432 bytes"),
    "a large Heartbeat": (b"\x00\x10\x00\x00\x00\x0c", "Heartbeat; 65,536 are allowed"),
    "a large Metadata": (b"\x01\x00\x00\x00\x00\x03", "Metadata; 4,194,304 are allowed"),
    "a large unknown API": (b"\x01\x00\x00\x00\x0f\x03", "the unknown API 3843; 1,048,576 are allowed"),
    "a version nobody knows": (
        framed(b"\x00\x03\x00\x63\x00\x00\x00\x01\x00\x04some"),
        "client 'some' asked for Metadata v99",
    ),
    "an API nobody knows": (
        framed(b"\x03\xe7\x00\x01\x00\x00\x00\x01\x00\x04some"),
        "client 'some' asked for the unknown API 999 v1",
    ),
    "an API that is not served": (
        framed(b"\x00\x44\x00\x01\x00\x00\x00\x01\x00\x04some\x00"),
        "ConsumerGroupHeartbeat v1 of client 'some'",
    ),
    "a body that ends too early": (
        framed(b"\x00\x03\x00\x04\x00\x00\x00\x01\x00\x04some\x00\x00"),
        "Metadata v4 of client 'some' cannot be read",
    ),
    "a client id that is no text": (framed(b"\x00\x03\x00\x04\x00\x00\x00\x01\x00\x02\xff\xfe"), "client id"),
}


@pytest.mark.parametrize("what", REQUESTS_NOBODY_CAN_SERVE)
def test_what_cannot_be_served_closes_the_connection_with_one_line_that_says_why(
    raw: Raw, connect: Connect, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    content, reason = REQUESTS_NOBODY_CAN_SERVE[what]
    caplog.set_level(logging.INFO)
    raw.send_bytes(content)
    assert raw.is_closed()
    (record,) = [record for record in caplog.records if record.name == "kohort.connection"]
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(f"closed {raw.address}: ")
    assert reason in record.getMessage()
    assert record.exc_info is None
    assert metadata(connect()).brokers


def test_no_name_a_client_chooses_can_forge_or_flood_the_log(
    raw: Raw, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    for name, client in (("x\nERROR all is lost", "me\r\nERROR too"), ("x" * 30_000, "y" * 30_000)):
        with Raw(broker.bootstrap, client) as forger:
            forger.post(produce_request(name, batch("a"), acks=0), 12)
            assert forger.is_closed()
    messages = [record.getMessage() for record in caplog.records if record.name == "kohort.connection"]
    assert len(messages) == 2
    assert not any("\n" in message or "\r" in message or len(message) > 600 for message in messages)


def test_bad_requests_without_end_are_one_line_and_a_count(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        with Raw(broker.bootstrap) as bad:
            bad.send_bytes(HELLO)
            assert bad.is_closed()
    messages = [record.getMessage() for record in caplog.records if record.name == "kohort.connection"]
    assert len(messages) == 1
    broker.advance(WINDOW_MS)
    *_, last = [record.getMessage() for record in caplog.records if record.name == "kohort.connection"]
    assert last.startswith("connections of 127.0.0.1 that were closed: 19 more in the last minute")


def test_a_bad_request_does_not_take_back_the_replies_before_it(raw: Raw) -> None:
    good = raw.frame(metadata_request(), 13)
    raw.send_bytes(good + HELLO)
    assert raw.take().brokers
    assert raw.is_closed()


def test_an_unknown_tag_is_skipped(raw: Raw) -> None:
    body = b"\x01\x00\x00" + b"\x01\x63\x03abc"  # no topics, no creation, no operations; tag 99 of 3 bytes
    raw.send_bytes(raw.frame_of(ApiKey.METADATA, 12, body))
    assert raw.take().brokers


# Idle connections


def test_idle_connections_are_closed_after_their_time() -> None:
    with Broker(configs={"connections.max.idle.ms": 50}) as broker:
        for _ in range(2):  # it is looked after them again and again
            with Raw(broker.bootstrap) as silent:
                assert silent.is_closed()


def test_a_connection_that_waits_for_us_is_not_idle() -> None:
    with Broker() as broker, Raw(broker.bootstrap) as reader, Raw(broker.bootstrap) as idle:
        create(reader, "t")
        assert metadata(idle, "t").brokers
        reader.post(fetch_request({"t": [part()]}, wait=60_000), 12)
        eventually(lambda: waiting_fetches(broker) == 1)
        let_idle_time_pass(broker)
        assert idle.is_closed()
        with Raw(broker.bootstrap) as writer:
            writer.send(produce_request("t", batch("a")), 12)
        assert reader.take().responses


def test_the_context_names_api_version_and_client() -> None:
    class Nowhere:
        client_host = "/127.0.0.1"

    known = Context(3, 4, 1, "me", Nowhere())  # type: ignore[arg-type] # enough of a connection
    assert str(known) == "Metadata v4 of client 'me'"
    assert str(Context(999, 4, 1, "me", Nowhere())) == "API 999 v4 of client 'me'"  # type: ignore[arg-type] # same
    assert known.client_host == "/127.0.0.1"
