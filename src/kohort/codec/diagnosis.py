"""Find the field for which a message cannot be written. Slow, and only asked after encoding has failed."""

from struct import error as struct_error
from struct import pack

from kohort.codec.schema import RECORDS, STRING, UUID, Array, Field, FieldType, Message, Primitive, Struct
from kohort.codec.source import describe, fields_in

_LONGEST_STRING = 0x7FFF


def explain(message: Message, version: int, error: Exception) -> str:
    """What is wrong with the message, by field; ``error`` in words if no field looks wrong."""
    kind = type(message)
    found = _Examiner(version, kind.is_flexible(version)).struct(message)
    return f"{describe(kind, version)}: {found or str(error) or type(error).__name__}"


class _Examiner:
    """Each method returns the first complaint about a value, or "" if there is none."""

    def __init__(self, version: int, is_flexible: bool) -> None:
        self._version = version
        self._is_flexible = is_flexible

    def struct(self, struct: Struct) -> str:
        plain, tagged, _ = fields_in(type(struct), self._version)
        for field in plain + tagged:
            complaint = self._field(field, getattr(struct, field.name, None))
            if complaint:
                return f"{field.name}{complaint}"
        return ""

    def _field(self, field: Field, value: object) -> str:
        if value is not None:
            return self._value(field.type, value)
        may_be_null = field.nullable.includes(self._version) or field.type is RECORDS or field.tag is not None
        return "" if may_be_null else " is null"

    def _value(self, of: FieldType, value: object) -> str:
        if isinstance(of, Array):
            return self._items(of, value)
        if isinstance(of, Primitive):
            return self._string(value) if of is STRING else _primitive(of, value)
        if not isinstance(value, of):
            return f" should be a {of.__name__}, not {value!r}"
        complaint = self.struct(value)
        return f".{complaint}" if complaint else ""

    def _items(self, of: Array, value: object) -> str:
        if not isinstance(value, list | tuple):
            return f" should be a list, not {value!r}"
        for index, item in enumerate(value):
            complaint = self._value(of.of, item)
            if complaint:
                return f"[{index}]{complaint}"
        return ""

    def _string(self, value: object) -> str:
        if not isinstance(value, str):
            return f" should be a string, not {value!r}"
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            return f" is not text that UTF-8 can hold: {error.reason}"
        if size > _LONGEST_STRING and not self._is_flexible:
            return f" has {size} bytes; this version has room for {_LONGEST_STRING}"
        return ""


def _primitive(of: Primitive, value: object) -> str:
    if of is UUID:
        fits = isinstance(value, bytes) and len(value) == 16
        return "" if fits else f" should be 16 bytes, not {value!r}"
    if not of.is_fixed:
        fits = isinstance(value, bytes | bytearray | memoryview | list | tuple)
        return "" if fits else f" should be bytes, not {value!r}"
    try:
        pack(f">{'b' if of.value == '?' else of.value}", value)
    except struct_error as error:
        return f" cannot be {value!r}: {error}"
    return ""
