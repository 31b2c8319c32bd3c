"""Find the field for which a message cannot be written. Slow, and only asked after encoding has failed."""

from collections.abc import Iterator
from struct import error as struct_error
from struct import pack

from kohort.wire.schema import RECORDS, STRING, UUID, Array, Field, FieldType, Message, Primitive, Struct
from kohort.wire.source import describe, fields_in

_LONGEST_STRING = 0x7FFF


def explain(message: Message, version: int, error: Exception) -> str:
    """What is wrong with the message, by field; ``error`` in words if no field looks wrong."""
    kind = type(message)
    complaints = _struct(message, version, kind.is_flexible(version))
    found = next(complaints, str(error) or type(error).__name__)
    return f"{describe(kind, version)}: {found}"


def _struct(struct: Struct, version: int, is_flexible: bool) -> Iterator[str]:
    plain, tagged, _ = fields_in(type(struct), version)
    for field in plain + tagged:
        value = getattr(struct, field.name, None)
        for complaint in _field(field, value, version, is_flexible):
            yield f"{field.name}{complaint}"


def _field(field: Field, value: object, version: int, is_flexible: bool) -> Iterator[str]:
    if value is not None:
        yield from _value(field.type, value, version, is_flexible)
    elif not (field.nullable.includes(version) or field.type is RECORDS or field.tag is not None):
        yield " is null"


def _value(of: FieldType, value: object, version: int, is_flexible: bool) -> Iterator[str]:
    if isinstance(of, Array):
        if not isinstance(value, list | tuple):
            yield f" should be a list, not {value!r}"
            return
        for index, item in enumerate(value):
            for complaint in _value(of.of, item, version, is_flexible):
                yield f"[{index}]{complaint}"
    elif isinstance(of, Primitive):
        yield from _primitive(of, value, is_flexible)
    elif not isinstance(value, of):
        yield f" should be a {of.__name__}, not {value!r}"
    else:
        yield from (f".{complaint}" for complaint in _struct(value, version, is_flexible))


def _primitive(of: Primitive, value: object, is_flexible: bool) -> Iterator[str]:
    if of is STRING:
        yield from _string(value, is_flexible)
    elif of is UUID:
        if not isinstance(value, bytes) or len(value) != 16:
            yield f" should be 16 bytes, not {value!r}"
    elif of.is_fixed:
        try:
            pack(f">{'b' if of.value == '?' else of.value}", value)
        except struct_error as error:
            yield f" cannot be {value!r}: {error}"
    elif not isinstance(value, bytes | bytearray | memoryview | list | tuple):
        yield f" should be bytes, not {value!r}"


def _string(value: object, is_flexible: bool) -> Iterator[str]:
    if not isinstance(value, str):
        yield f" should be a string, not {value!r}"
        return
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        yield f" is not text that UTF-8 can hold: {error.reason}"
        return
    if size > _LONGEST_STRING and not is_flexible:
        yield f" has {size} bytes; this version has room for {_LONGEST_STRING}"
