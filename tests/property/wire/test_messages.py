"""Every message in every version: the same bytes as kio, nothing lost, and no bytes that do harm."""

import io
import struct
import tracemalloc
import uuid
from contextlib import suppress
from dataclasses import Field as KioField
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from importlib import import_module
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from tests.rounds import ROUNDS

from kohort.codec.compiled import DecodeError, decode, encode, encode_parts
from kohort.codec.schema import (
    BOOL,
    BYTES,
    RECORDS,
    STRING,
    UUID,
    ZERO_UUID,
    Array,
    Field,
    FieldType,
    Message,
    Primitive,
    Struct,
)
from kohort.wire.apis import APIS
from kohort.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

pytestmark = pytest.mark.slow

MESSAGES: list[type[Message]] = [
    *(kind for api in APIS.values() for kind in (api.request_class, api.response_class)),
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
]
each_message = pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)


def rounds(examples: int) -> settings:
    return settings(
        max_examples=examples * ROUNDS,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


# Any value of a message, with the fields of all its versions.

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.sampled_from(["x" * 126, "x" * 127, "é" * 64, "x" * 300, "😀"]),
)
BLOBS = st.one_of(st.binary(max_size=5), st.sampled_from([bytes(127), bytes(20_000)]))
# kio knows instants as whole seconds since 1970 and error codes as an enum; it need not agree on others.
INSTANTS = st.integers(0, 2**31).map(lambda seconds: seconds * 1000)
ERRORS = st.sampled_from([code.value for code in KioErrorCode])


def primitives(of: Primitive, kio_type: str) -> st.SearchStrategy[Any]:
    if kio_type == "error_code":
        return ERRORS
    if kio_type == "datetime_i64":
        return INSTANTS
    if kio_type == "datetime_i64?":
        return INSTANTS | st.just(-1)
    if kio_type == "timedelta_i64":
        return st.integers(-(2**45), 2**45)  # beyond, kio rounds
    special = {BOOL: st.booleans(), STRING: TEXTS, BYTES: BLOBS, RECORDS: BLOBS}
    if of is UUID:
        return st.binary(min_size=16, max_size=16) | st.just(ZERO_UUID)
    if of in special:
        return special[of]
    bits = 8 * struct.calcsize(of.value)
    signed = of.value.islower()
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.integers(low, high) | st.sampled_from([low, high, 0])


def values(of: FieldType, kio_type: str) -> st.SearchStrategy[Any]:
    if isinstance(of, Array):
        items = values(of.of, kio_type)
        # Of sizes drawn first: left alone, most arrays would be empty, and what is below them unseen.
        few = st.sampled_from([1, 1, 2, 0]).flatmap(
            lambda size: st.lists(items, min_size=size, max_size=size)
        )
        return few | st.just([1] * 130) if of.of is Primitive.INT32 else few
    return primitives(of, kio_type) if isinstance(of, Primitive) else structs(of)


def structs(kind: type[Struct]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{field.name: field_values(kind, field) for field in kind.fields})


def field_values(kind: type[Struct], field: Field) -> st.SearchStrategy[Any]:
    found = values(field.type, kio_types(kind).get(field.name, ""))
    optional = isinstance(field.type, type) and field.tag is not None
    return found | st.none() if optional or field.nullable.first <= field.nullable.last else found


S = TypeVar("S", bound=Struct)


def adapted(struct: S, version: int) -> S:
    """What is left of a struct in a version: defaults for what it lacks, no null where none is allowed."""

    def value_of(field: Field) -> object:
        value = getattr(struct, field.name)
        if not field.versions.includes(version):
            return field.make_default()
        if value is None and field.tag is None and not field.nullable.includes(version):
            return Field(field.name, field.type).make_default()
        if isinstance(value, list) and value and isinstance(value[0], Struct):
            return [adapted(item, version) for item in value]
        if isinstance(value, Struct):
            inner = adapted(value, version)
            return None if field.tag is not None and inner == type(inner)() else inner
        return value

    return type(struct)(**{field.name: value_of(field) for field in struct.fields})


# The same value in kio's terms.

KIO_KINDS = {"Request": EntityType.request, "Response": EntityType.response}


def kio_class(message: type[Message], version: int) -> type[Any]:
    if message.api_key is not None:
        source = message.__module__.rpartition(".")[2]
        kind = KIO_KINDS["Request" if message.__name__.endswith("Request") else "Response"]
    else:
        source = "".join(f"_{c.lower()}" if c.isupper() else c for c in message.__name__)[1:]
        kind = EntityType.data
    module, _, name = schema_name_map[source][version][kind].partition(":")  # type: ignore[index]  # checked above
    found: type[Any] = getattr(import_module(module), name)
    return found


_kio_types: dict[tuple[str, str], dict[str, str]] = {}


def kio_types(kind: type[Struct]) -> dict[str, str]:
    """kio's name for the type of each field, by our name."""
    if not _kio_types:
        for message in MESSAGES:
            for version in range(message.versions.first, message.versions.last + 1):
                module = import_module(kio_class(message, version).__module__)
                for entity in vars(module).values():
                    if hasattr(entity, "__flexible__"):
                        found = _kio_types.setdefault((message.__module__, entity.__name__), {})
                        found.update({our_name(field): kio_type(field) for field in fields(entity)})
    return _kio_types[kind.__module__, kind.__name__]


def kio_type(field: KioField[Any]) -> str:
    kind = str(field.metadata.get("kafka_type", ""))
    return f"{kind}?" if kind == "datetime_i64" and "None" in str(field.type) else kind


def our_name(field: KioField[Any]) -> str:
    is_time = kio_type(field).startswith(("timedelta", "datetime"))
    return f"{field.name}_ms" if is_time else str(field.name)


def to_kio(entity: type[Any], struct: Struct) -> Any:  # noqa: ANN401  # one of kio's four hundred classes
    return entity(
        **{field.name: kio_value(field, getattr(struct, our_name(field))) for field in fields(entity)}
    )


def kio_value(field: KioField[Any], value: Any) -> object:  # noqa: ANN401  # whatever a field can hold
    kind = kio_type(field)
    if isinstance(value, list):
        inner = innermost(field.type)
        return tuple(to_kio(inner, item) if isinstance(item, Struct) else item for item in value)
    if kind.startswith("timedelta"):
        return timedelta(milliseconds=value)
    if kind.startswith("datetime"):
        return None if value == -1 else datetime.fromtimestamp(value / 1000, UTC)
    if kind == "error_code":
        return KioErrorCode(value)
    if kind == "uuid":
        return None if value == ZERO_UUID else uuid.UUID(bytes=value)
    if value is None and "tag" in field.metadata:
        return field.default
    if isinstance(value, Struct):
        return to_kio(innermost(field.type), value)
    return value


def innermost(of: Any) -> type[Any]:  # noqa: ANN401  # a class, or what typing makes of several
    """The class in ``Class | None`` or ``tuple[Class, ...] | None``."""
    while hasattr(of, "__args__"):
        of = of.__args__[0]
    found: type[Any] = of
    return found


def kio_bytes(entity: Any) -> bytes:  # noqa: ANN401  # as above
    with io.BytesIO() as buffer:
        write: Any = entity_writer(type(entity))
        write(buffer, entity)
        return buffer.getvalue()


# The properties.


@each_message
def test_both_write_the_same_bytes_and_each_reads_the_other(message: type[Message]) -> None:
    @given(structs(message))
    @rounds(10)
    def check(anything: Message) -> None:
        for version in range(message.versions.first, message.versions.last + 1):
            value = adapted(anything, version)
            entity = to_kio(kio_class(message, version), value)
            written = encode(value, version)
            assert written == kio_bytes(entity)
            assert b"".join(encode_parts(value, version)) == written
            assert decode(message, version, written) == value
            assert entity_reader(type(entity))(written, 0) == (entity, len(written))

    check()


def mutations(data: bytes, random: Random) -> bytes:
    """Bytes that were a message once."""
    for _ in range(random.randint(1, 3)):
        at = random.randint(0, len(data))
        match random.randrange(5):
            case 0:
                data = data[:at]
            case 1 if data:
                at %= len(data)
                data = data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
            case 2:
                data = data[:at] + random.randbytes(random.randint(1, 4)) + data[at:]
            case 3:
                data = data[:at] + data[at + random.randint(1, 4) :]
            case _:
                length = random.choice(HUGE)
                data = data[:at] + length + data[at + len(length) :]
    return data


HUGE = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x7f\xff",
    b"\xff\xff\xff\x7f",
)


@each_message
def test_damaged_bytes_are_refused_or_read_as_something_that_can_be_written(message: type[Message]) -> None:
    @given(structs(message), st.integers(0, 2**32))
    @rounds(5)
    def check(anything: Message, seed: int) -> None:
        random = Random(seed)
        for version in range(message.versions.first, message.versions.last + 1):
            written = encode(adapted(anything, version), version)
            for _ in range(10):
                damaged = mutations(written, random)
                try:
                    value = decode(message, version, damaged)
                except DecodeError:
                    continue
                assert decode(message, version, encode(value, version)) == value

    check()


def one_of_each(kind: type[S]) -> S:
    """A struct in which every array has an element, so that every count is on the wire."""

    def value_of(field: Field) -> object:
        of = field.type
        if isinstance(of, Array):
            return [of.of.zero() if isinstance(of.of, Primitive) else one_of_each(of.of)]
        if of is RECORDS:
            return b""  # in one message they may not be null
        return one_of_each(of) if not isinstance(of, Primitive) else of.zero()

    return kind(**{field.name: value_of(field) for field in kind.fields})


@each_message
def test_a_count_of_billions_costs_nothing_wherever_it_stands(message: type[Message]) -> None:
    whole = one_of_each(message)
    tracemalloc.start()
    try:
        for version in range(message.versions.first, message.versions.last + 1):
            written = encode(whole, version)
            decode(message, version, written)
            for at in range(len(written)):
                for length in HUGE:
                    read_cheaply(message, version, written[:at] + length + written[at:])
    finally:
        tracemalloc.stop()


def read_cheaply(message: type[Message], version: int, data: bytes) -> None:
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    with suppress(DecodeError):
        decode(message, version, data)
    _, peak = tracemalloc.get_traced_memory()
    assert peak - before < 100_000
