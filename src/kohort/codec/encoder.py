"""Compile the encoder of one message in one version.

The compiled function appends pieces of bytes to a list, which the caller joins. Fields of fixed width that
follow each other, together with the length that comes after them, are packed by one precompiled ``Struct``.
It trusts the message: a wrong value surfaces as TypeError, AttributeError or ``struct.error``, and
``codec`` then looks for the field at fault.
"""

from collections.abc import Callable, Sequence
from struct import Struct as Format
from struct import pack

from kohort.codec.errors import TooManyElementsError
from kohort.codec.schema import (
    BOOL,
    NEVER,
    RECORDS,
    STRING,
    UUID,
    ZERO_UUID,
    Array,
    Field,
    Message,
    Primitive,
    Struct,
)
from kohort.codec.source import Formats, FunctionSource, describe, fields_in, struct_type

Encoder = Callable[[Message, list[bytes | memoryview], list[int], int], None]
"""Of the message, the list to append to, the list that gets the indexes of its large pieces, and the room:
how many elements its arrays (those of numbers left out) may have together before TooManyElementsError.
"""

LARGE = 4096
"""Record batches from this size on are handed through instead of copied."""


def compile_encoder(message: type[Message], version: int) -> Encoder:
    return _Compiler(message, version).compile().build(f"encoder of {describe(message, version)}")


def encoder_source(message: type[Message], version: int) -> str:
    """What is compiled, as text: to look at, and to find out where time goes."""
    return _Compiler(message, version).compile().text()


class _Compiler:
    def __init__(self, message: type[Message], version: int) -> None:
        self._message = message
        self._version = version
        self._is_flexible = message.is_flexible(version)
        self._source = FunctionSource("encode(m, out, large, room)")
        self._out = "out"  # the list that pieces go to; another one inside a tagged field
        self._run: list[tuple[str, str]] = []  # fixed-width values not yet packed: letter, expression
        self._pieces: list[str] = []  # expressions of bytes not yet appended
        for name, value in _RUNTIME.items():
            self._source.define(name, value)

    def compile(self) -> FunctionSource:
        self._struct(self._message, "m")
        self._flush()
        self._source.add("return")  # for the messages that are empty
        return self._source

    # Fixed width: collected in a run and packed at once; pieces: collected and appended at once.

    def _pack(self, letter: str, expression: str) -> None:
        self._run.append((letter, expression))

    def _packed(self) -> str:
        """The expression that packs the run, which is then empty."""
        letters = "".join(letter for letter, _ in self._run)
        values = ", ".join(expression for _, expression in self._run if expression)
        self._run = []
        if not values:
            return repr(bytes(len(letters)))
        return f"{self._source.constant('pack', letters, Format(f'>{letters}').pack)}({values})"

    def _piece(self, expression: str) -> None:
        if self._run:
            self._pieces.append(self._packed())
        self._pieces.append(expression)

    def _flush(self) -> None:
        if self._run:
            self._pieces.append(self._packed())
        if len(self._pieces) == 1:
            self._source.add(f"{self._out}.append({self._pieces[0]})")
        elif self._pieces:
            self._source.add(f"{self._out} += ({', '.join(self._pieces)})")
        self._pieces = []

    # Structs and their tags.

    def _struct(self, struct: type[Struct], holder: str) -> None:
        plain, tagged, _ = fields_in(struct, self._version)
        for field in plain:
            self._value(field, f"{holder}.{field.name}")
        if not self._is_flexible:
            return
        if tagged:
            self._tags(tagged, holder)
        else:
            self._pack("x", "")  # a section of no tags: one zero byte

    def _nullable(self, field: Field) -> bool:
        return field.nullable.includes(self._version)

    def _tags(self, tagged: list[Field], holder: str) -> None:
        source = self._source
        self._flush()
        tests = " or ".join(_is_set(field, f"{holder}.{field.name}") for field in tagged)
        with source.block(f"if not ({tests}):"):
            source.add(f"{self._out}.append(b'\\0')")
        with source.block("else:"):
            tags, count = source.fresh("tags"), source.fresh("t")
            source.add(f"{tags} = []")
            source.add(f"{count} = 0")
            for field in tagged:
                value = source.fresh("v")
                source.add(f"{value} = {holder}.{field.name}")
                with source.block(f"if {self._differs(field, value)}:"):
                    source.add(f"{count} += 1")
                    self._tag(field, value, tags)
            source.add(f"{self._out}.append(uvarint({count}))")
            source.add(f"{self._out} += {tags}")

    def _tag(self, field: Field, value: str, tags: str) -> None:
        source, outer = self._source, self._out
        body = source.fresh("body")
        source.add(f"{body} = []")
        self._out = body
        self._value(field, value)
        self._flush()
        self._out = outer
        blob = source.fresh("b")
        source.add(f"{blob} = b''.join({body})")
        source.add(f"{tags} += (uvarint({field.tag}), uvarint(len({blob})), {blob})")

    def _differs(self, field: Field, value: str) -> str:
        """An expression: whether a tagged field is to be written, because it is not what absence means."""
        struct = struct_type(field)
        if struct is None or self._nullable(field):
            return _is_set(field, value)
        plain, tagged, _ = fields_in(struct, self._version)
        parts = [self._differs(inner, f"{value}.{inner.name}") for inner in plain + tagged]
        return f"{value} is not None and ({' or '.join(parts)})"

    # Values.

    def _value(self, field: Field, value: str) -> None:
        if isinstance(field.type, Array):
            self._array(field.type.of, value, self._nullable(field))
        elif isinstance(field.type, Primitive):
            self._primitive(field.type, value, self._nullable(field))
        elif self._nullable(field):
            self._nullable_struct(field.type, value, "\\xff" if field.tag is None else "\\0")
        else:
            holder = self._held(value)
            self._struct(field.type, holder)

    def _held(self, value: str) -> str:
        """A variable for a value that is needed more than once."""
        if value.isidentifier():
            return value
        holder = self._source.fresh("v")
        self._source.add(f"{holder} = {value}")
        return holder

    def _nullable_struct(self, struct: type[Struct], value: str, null: str) -> None:
        self._flush()
        holder = self._held(value)
        with self._source.block(f"if {holder} is None:"):
            self._source.add(f"{self._out}.append(b'{null}')")
        with self._source.block("else:"):
            self._piece("b'\\1'")
            self._struct(struct, holder)
            self._flush()

    def _primitive(self, of: Primitive, value: str, is_nullable: bool) -> None:
        if of is RECORDS:
            self._flush()
            self._source.add(f"put_records({self._out}, large, {value}, {self._is_flexible})")
        elif not of.is_fixed:
            self._sized(of, value, is_nullable)
        elif of is UUID:
            holder = self._held(value)
            with self._source.block(f"if len({holder}) != 16:"):
                self._source.add("raise TypeError")
            self._pack("16s", holder)
        else:
            self._pack(_letter(of), value)

    def _sized(self, of: Primitive, value: str, is_nullable: bool) -> None:
        """A string or bytes: a length and that many bytes."""
        source = self._source
        encoded = value + ".encode()" if of is STRING else value
        content = source.fresh("s")
        if not is_nullable:
            source.add(f"{content} = {encoded}")
            self._length("h" if of is STRING else "i", f"len({content})")
        else:
            holder = self._held(value)
            encoded = f"{holder}.encode()" if of is STRING else holder
            source.add(f"{content} = b'' if {holder} is None else {encoded}")
            self._nullable_length("h" if of is STRING else "i", holder, f"len({content})")
        self._piece(content)

    def _length(self, letter: str, length: str) -> None:
        if self._is_flexible:
            self._piece(f"compact[{length}]")
        else:
            self._pack(letter, length)

    def _nullable_length(self, letter: str, holder: str, length: str) -> None:
        if self._is_flexible:
            self._piece(f"b'\\0' if {holder} is None else compact[{length}]")
        else:
            self._pack(letter, f"-1 if {holder} is None else {length}")

    def _array(self, of: Primitive | type[Struct], value: str, is_nullable: bool) -> None:
        items = self._held(value)
        if is_nullable:
            self._nullable_length("i", items, f"len({items})")
        else:
            self._length("i", f"len({items})")
        if isinstance(of, Primitive) and of.is_fixed and of is not UUID:
            several = self._source.constant("several", of, Formats(_letter(of), "pack"))
            self._piece(f"{several}[len({items})](*{items}) if {items} else b''")
            return
        self._flush()
        with self._source.block(f"if {items}:"):
            self._source.add(f"room -= len({items})")
            with self._source.block("if room < 0:"):
                self._source.add("raise over_limit('an answer')")
            self._elements(of, items)

    def _elements(self, of: Primitive | type[Struct], items: str) -> None:
        source = self._source
        item = source.fresh("e")
        if not isinstance(of, Primitive) and (packed := self._fixed_element(of, item)) is not None:
            source.add(f"{self._out} += [{packed} for {item} in {items}]")
            return
        with source.block(f"for {item} in {items}:"):
            if isinstance(of, Primitive):
                self._primitive(of, item, is_nullable=False)
            else:
                self._struct(of, item)
            self._flush()

    def _fixed_element(self, struct: type[Struct], item: str) -> str | None:
        """The one expression that packs an element, if all it has is numbers."""
        plain, tagged, _ = fields_in(struct, self._version)
        types = [field.type for field in plain]
        if tagged or not all(isinstance(of, Primitive) and of.is_fixed and of is not UUID for of in types):
            return None
        self._struct(struct, item)
        return self._packed()


def _letter(of: Primitive) -> str:
    # Packed as a number, a bool that is None is an error; as a bool it would be False.
    return "b" if of is BOOL else of.value


def _is_set(field: Field, value: str) -> str:
    """An expression: whether a tagged field may differ from its default. Exact for all but structs."""
    if isinstance(field.type, Array):
        return value
    if struct_type(field) is not None and field.nullable != NEVER:
        return "True"  # absent, it would be an empty struct: null is written too
    default = field.make_default()
    if default is None:
        return f"{value} is not None"
    return f"{value} != {'ZERO_UUID' if default == ZERO_UUID else repr(default)}"


# What compiled encoders call.


def _uvarint(value: int) -> bytes:
    if value < 0x4000:  # the usual sizes, without a loop
        return bytes((value,)) if value < 0x80 else bytes((value & 0x7F | 0x80, value >> 7))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class _CompactLengths(dict[int, bytes]):
    """A length as compact types have it: plus one, base 128. Short ones are kept, others computed."""

    def __missing__(self, length: int) -> bytes:
        return _uvarint(length + 1)


_COMPACT = _CompactLengths({length: _uvarint(length + 1) for length in range(256)})


def _put_records(
    out: list[bytes | memoryview],
    large: list[int],
    records: bytes | memoryview | Sequence[bytes | memoryview] | None,
    is_flexible: bool,
) -> None:
    """Append records and their length, noting where the pieces are that should not be copied."""
    if records is None:
        out.append(b"\0" if is_flexible else b"\xff\xff\xff\xff")
        return
    pieces = records if isinstance(records, list | tuple) else (records,)
    size = len(records) if pieces is not records else sum(map(len, pieces))
    out.append(_COMPACT[size] if is_flexible else pack(">i", size))
    for piece in pieces:
        if len(piece) >= LARGE:
            large.append(len(out))
        out.append(piece)


_RUNTIME: dict[str, object] = {
    "ZERO_UUID": ZERO_UUID,
    "uvarint": _uvarint,
    "compact": _COMPACT,
    "put_records": _put_records,
    "over_limit": TooManyElementsError,
}
