"""The vocabulary messages are declared in: types, fields with their versions, structs and messages.

One class describes a message in all its versions; each field says in which of them it exists.
The codec compiles a decoder and an encoder per version from these declarations.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

Buffer: TypeAlias = bytes | memoryview
Records: TypeAlias = Buffer | Sequence[Buffer]
"""Record batches to be written: in one piece, or in several that follow each other."""

ZERO_UUID: Final = bytes(16)
"""The uuid that stands for "none"."""

EMPTY: Final[list[Any]] = []
"""The declared default of array parameters; every message that is given it gets a new list of its own."""


class Versions(NamedTuple):
    """A range of API versions, both ends included."""

    first: int
    last: int

    def includes(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


_HIGHEST_VERSION: Final = 0x7FFF


def since(first: int) -> Versions:
    """From ``first`` to whatever is the newest version of the message."""
    return Versions(first, _HIGHEST_VERSION)


ALWAYS: Final = since(0)
NEVER: Final = Versions(1, 0)


class Primitive(Enum):
    """A type without parts; its value is the letter ``struct`` has for it, or its name if the size varies."""

    BOOL = "?"
    INT8 = "b"
    INT16 = "h"
    INT32 = "i"
    INT64 = "q"
    UINT16 = "H"
    UINT32 = "I"
    FLOAT64 = "d"
    UUID = "16s"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"

    @property
    def is_fixed(self) -> bool:
        """Whether every value takes the same number of bytes."""
        return self not in _SIZED_BY_PREFIX

    def zero(self) -> object:
        """What a field holds for which the schema names no default."""
        return _ZEROS.get(self, 0)


BOOL: Final = Primitive.BOOL
INT8: Final = Primitive.INT8
INT16: Final = Primitive.INT16
INT32: Final = Primitive.INT32
INT64: Final = Primitive.INT64
UINT16: Final = Primitive.UINT16
UINT32: Final = Primitive.UINT32
FLOAT64: Final = Primitive.FLOAT64
UUID: Final = Primitive.UUID
STRING: Final = Primitive.STRING
BYTES: Final = Primitive.BYTES
RECORDS: Final = Primitive.RECORDS

_SIZED_BY_PREFIX: Final = frozenset({STRING, BYTES, RECORDS})
_ZEROS: Final[dict[Primitive, object]] = {
    BOOL: False,
    FLOAT64: 0.0,
    UUID: ZERO_UUID,
    STRING: "",
    BYTES: b"",
    RECORDS: None,
}


class Struct:
    """Plain fields without a header of their own; a part of a message.

    Subclasses are slotted, take every field as a keyword with the schema's default, and are mutable,
    hence not hashable. Two are equal if they are of one class and all their fields are.
    """

    __slots__: Sequence[str] = ()
    fields: ClassVar[tuple["Field", ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.fields)

    def __repr__(self) -> str:
        """As one would write it: only the fields that differ from their defaults."""
        changed = (
            f"{field.name}={value!r}"
            for field in self.fields
            if (value := getattr(self, field.name)) != field.make_default()
        )
        return f"{type(self).__name__}({', '.join(changed)})"


class Message(Struct):
    """A response, a blob with a version of its own (then ``api_key`` is None) or, see there, a request."""

    __slots__: Sequence[str] = ()
    api_key: ClassVar[int | None] = None
    versions: ClassVar[Versions] = NEVER
    first_flexible: ClassVar[int | None] = None

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether that version uses compact lengths and tag sections (KIP-482)."""
        return cls.first_flexible is not None and version >= cls.first_flexible


class Request(Message):
    """A request: what any stranger may send. ``wire.framing`` says how large it may be."""

    __slots__: Sequence[str] = ()


class Array(NamedTuple):
    """A list of values of one type."""

    of: Primitive | type[Struct]


FieldType: TypeAlias = Primitive | Array | type[Struct]


class _Unset(Enum):
    UNSET = "the zero of its type"


UNSET: Final = _Unset.UNSET


class Field(NamedTuple):
    """One field of a struct: its name, its type, and the versions in which it exists and may be null.

    A field with a ``tag`` is a tagged field in every version that has it. A tagged struct is None when
    absent, though the wire knows no null there: most are absent, and an object for each would be waste.
    One that is nullable is always written, as null too, because Kafka reads an absent one as an empty one.
    """

    name: str
    type: FieldType
    versions: Versions = ALWAYS
    nullable: Versions = NEVER
    default: object = UNSET
    tag: int | None = None

    def make_default(self) -> object:
        """What the field holds when nothing else is said; a new object where it could be altered."""
        if self.default is not UNSET:
            return self.default
        if isinstance(self.type, Array):
            return []
        if isinstance(self.type, Primitive):
            return self.type.zero()
        return None if self.tag is not None else self.type()
