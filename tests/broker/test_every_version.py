"""Every announced version of every API: a request is read, and an independent decoder reads the reply."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from kio.schema.index import schema_name_map
from kio.serial import entity_reader
from kio.static.constants import EntityType
from tests.broker.asking import append, batch, create
from tests.broker.exemplars import exemplar, versions
from tests.broker.grouping import alone, commit_request
from tests.broker.raw import Raw

from kohort.broker.handlers import SERVED
from kohort.codec.compiled import decode, encode
from kohort.codec.schema import Array, Field, Message, Primitive, Struct
from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.apis import APIS, ApiKey

EVERY = list(versions())
each_version = pytest.mark.parametrize(
    ("key", "version"), EVERY, ids=[f"{key.name.lower()}-v{version}" for key, version in EVERY]
)


@pytest.fixture(scope="module")
def topic() -> Iterator[tuple[Broker, bytes]]:
    """A broker with a topic ``t`` that has records and a group ``g`` that has a member and offsets."""
    with Broker(configs={"group.initial.rebalance.delay.ms": 0}) as broker:
        with Raw(broker.bootstrap) as raw:
            topic_id = create(raw, "t", 2)
            append(raw, "t", batch("a"), batch("b"))
            member = alone(raw)
            raw.send(commit_request((0, 1), member=member), 8)
        yield broker, topic_id


@pytest.fixture
def raw(topic: tuple[Broker, bytes]) -> Iterator[Raw]:
    with Raw(topic[0].bootstrap) as raw:
        yield raw


def read_with_kio(key: ApiKey, version: int, frame: bytes) -> Any:  # noqa: ANN401 - one of kio's classes
    """The reply as kio reads it, header and body, to the last byte."""
    module, _, name = schema_name_map[key.name.lower()][version][EntityType.response].partition(":")
    body: Any = getattr(import_module(module), name)
    head, size = entity_reader(body.__header_schema__)(frame, 0)
    assert head.correlation_id == 1
    message, body_size = entity_reader(body)(frame, size)
    assert size + body_size == len(frame), "bytes are left over"
    return message


def minimal(kind: type[Message], version: int) -> Message:
    """A request with everything empty, zero or null, and acks that are answered."""
    request = kind(
        **{
            field.name: Field(field.name, field.type).make_default()
            for field in kind.fields
            if field.tag is None and not field.nullable.includes(version)
        }
    )
    if hasattr(request, "acks"):
        request.acks = 1
    return request


def one_of_each(kind: type[Struct]) -> Any:  # noqa: ANN401 - the caller knows the class
    """A struct in which every array has an element of zeros."""

    def value_of(field: Field) -> object:
        of = field.type
        if isinstance(of, Array):
            return [of.of.zero() if isinstance(of.of, Primitive) else one_of_each(of.of)]
        return one_of_each(of) if not isinstance(of, Primitive) else of.zero()

    return kind(**{field.name: value_of(field) for field in kind.fields})


@each_version
def test_a_sensible_request_is_answered_to_the_last_byte(
    raw: Raw, topic: tuple[Broker, bytes], key: ApiKey, version: int
) -> None:
    raw.post(exemplar(key, topic[1]), version)
    assert read_with_kio(key, version, raw.take_frame())


@each_version
def test_a_minimal_request_is_answered_to_the_last_byte(raw: Raw, key: ApiKey, version: int) -> None:
    raw.post(minimal(APIS[key].request_class, version), version)
    assert read_with_kio(key, version, raw.take_frame())


@each_version
def test_a_request_of_zeros_is_answered_to_the_last_byte(raw: Raw, key: ApiKey, version: int) -> None:
    request = one_of_each(APIS[key].request_class)
    if key is ApiKey.PRODUCE:
        request.acks = 1
    raw.post(request, version)
    assert read_with_kio(key, version, raw.take_frame())


@each_version
def test_whatever_a_handler_refuses_can_be_written_in_the_version_of_the_request(
    topic: tuple[Broker, bytes], key: ApiKey, version: int
) -> None:
    handler = import_module(next(api.module for api in SERVED if api.key is key))
    kind = APIS[key].request_class
    for whole in (exemplar(key, topic[1]), minimal(kind, version)):
        request = decode(kind, version, encode(whole, version))
        assert encode(handler.refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR), version)


def test_there_is_an_exemplar_for_everything_that_is_served() -> None:
    assert {key for key, _ in EVERY} == {api.key for api in SERVED}


@pytest.mark.parametrize(
    ("key", "version"),
    [(api.key, version) for api in SERVED for version in (api.newest + 1, -1, 32767) if api.key != 18],
)
def test_a_version_nobody_serves_closes_the_connection(raw: Raw, key: ApiKey, version: int) -> None:
    raw.send_bytes(raw.frame_of(key, version, bytes(8)))
    assert raw.is_closed()


@pytest.mark.parametrize("key", [4, 5, 6, 7, 24, 26, 28, 38, 49, 55, 61, 69, 71, 76, 99, -1, 32767])
def test_an_api_nobody_serves_closes_the_connection(raw: Raw, key: int) -> None:
    raw.send_bytes(raw.frame_of(key, 0, bytes(8)))
    assert raw.is_closed()
