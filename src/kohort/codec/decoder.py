"""Compile the decoder of one message in one version.

The compiled function walks the bytes once. Fields of fixed width that follow each other, together with the
length that comes after them, are read by one precompiled ``Struct``. Every length and count is compared
with the bytes that are left before anything is made of it, so no frame can ask for more than its own size.
Reading past the end surfaces as ``struct.error`` or ``IndexError``; ``codec.decode`` turns those, and bad
UTF-8, into DecodeError.
"""

from collections.abc import Callable
from struct import Struct as Format
from struct import calcsize

from kohort.codec.errors import DecodeError, TooManyElementsError, TrailingBytesError
from kohort.codec.schema import (
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
from kohort.codec.source import Formats, FunctionSource, describe, fields_in

Decoder = Callable[[bytes, int, int], Message]


def compile_decoder(message: type[Message], version: int) -> Decoder:
    """A function of ``(data, position, room)`` that reads a message up to the end of ``data``.

    If its arrays have more than ``room`` elements together, it raises TooManyElementsError.
    """
    return _Compiler(message, version).compile().build(f"decoder of {describe(message, version)}")


def decoder_source(message: type[Message], version: int) -> str:
    """What is compiled, as text: to look at, and to find out where time goes."""
    return _Compiler(message, version).compile().text()


class _Compiler:
    def __init__(self, message: type[Message], version: int) -> None:
        self._message = message
        self._version = version
        self._is_flexible = message.is_flexible(version)
        self._source = FunctionSource("decode(data, p, room)")
        self._run: list[tuple[str, str]] = []  # fixed-width reads not yet written: letter, target
        for name, value in _RUNTIME.items():
            self._source.define(name, value)

    def compile(self) -> FunctionSource:
        source = self._source
        source.add("end = len(data)")
        message = self._struct(self._message, "")
        self._flush()
        with source.block("if p != end:"):
            source.add(f"raise trailing({self._where('')!r}, end - p, {message})")
        source.add(f"return {message}")
        return source

    def _where(self, path: str) -> str:
        name = describe(self._message, self._version)
        return f"{name}: {path}" if path else name

    # Fixed width: collected in a run, read at once.

    def _read(self, letter: str, target: str) -> None:
        self._run.append((letter, target))

    def _flush(self) -> None:
        if not self._run:
            return
        letters = "".join(letter for letter, _ in self._run)
        targets = "".join(f"{target}, " for _, target in self._run)
        self._run = []
        if letters == "B":
            self._source.add(f"{targets[:-2]} = data[p]")
        else:
            unpack = self._source.constant("unpack", letters, Format(f">{letters}").unpack_from)
            self._source.add(f"{targets}= {unpack}(data, p)")
        self._source.add(f"p += {calcsize('>' + letters)}")

    # Structs and their tags.

    def _struct(self, struct: type[Struct], path: str) -> str:
        """Read a struct; the name of the variable that holds it."""
        source = self._source
        plain, tagged, absent = fields_in(struct, self._version)
        holder = source.fresh("m")
        # The constructor would set every default first; the slots are filled below anyway.
        source.add(f"{holder} = new({source.constant('C', struct, struct)})")
        for field in absent + tagged:
            source.add(f"{holder}.{field.name} = {self._default(field)}")
        for field in plain:
            self._value(field.type, f"{holder}.{field.name}", _join(path, field.name), self._nullable(field))
        if self._is_flexible:
            self._tags(holder, tagged, path)
        return holder

    def _nullable(self, field: Field) -> bool:
        return field.nullable.includes(self._version)

    def _default(self, field: Field) -> str:
        default = field.make_default()
        if isinstance(default, Struct):
            return f"{self._source.constant('C', type(default), type(default))}()"
        return "ZERO_UUID" if default == ZERO_UUID else repr(default)

    def _tags(self, holder: str, tagged: list[Field], path: str) -> None:
        source = self._source
        count = source.fresh("t")
        self._read("B", count)
        self._flush()
        with source.block(f"if {count}:"):
            if not tagged:
                source.add(f"p = skip_tags(data, p, {count}, {self._where(_join(path, 'tags'))!r})")
            else:
                self._known_tags(holder, count, tagged, path)

    def _known_tags(self, holder: str, count: str, tagged: list[Field], path: str) -> None:
        source = self._source
        tag, stop = source.fresh("tag"), source.fresh("stop")
        where = self._where(_join(path, "tags"))
        with source.block(f"if {count} > 127:"):
            source.add(f"{count}, p = long_uvarint(data, p, {count}, {where!r})")
        with source.block(f"for _ in range({count}):"):
            source.add(f"{tag}, {stop}, p = next_tag(data, p, {where!r})")
            for number, field in enumerate(tagged):
                with source.block(f"{'el' if number else ''}if {tag} == {field.tag}:"):
                    target, within = f"{holder}.{field.name}", _join(path, field.name)
                    self._value(field.type, target, within, self._nullable(field), null_below=1)
                    self._flush()
                    with source.block(f"if p != {stop}:"):
                        source.add(f"raise wrong_tag_size({self._where(within)!r})")
            with source.block("else:"):
                source.add(f"p = {stop}")

    # Values.

    def _value(self, of: FieldType, target: str, path: str, is_nullable: bool, null_below: int = 0) -> None:
        if isinstance(of, Array):
            self._array(of.of, target, path, is_nullable)
        elif isinstance(of, Primitive):
            if of.is_fixed:
                self._read(of.value, target)
            else:
                self._sized(of, target, path, is_nullable)
        elif is_nullable:
            self._nullable_struct(of, target, path, null_below)
        else:
            self._source.add(f"{target} = {self._struct(of, path)}")

    def _nullable_struct(self, of: type[Struct], target: str, path: str, null_below: int) -> None:
        """The marker before a struct is 1; that of null is -1, and 0 in a tag."""
        marker = self._source.fresh("n")
        self._read("b", marker)
        self._flush()
        with self._source.block(f"if {marker} < {null_below}:"):
            self._source.add(f"{target} = None")
        with self._source.block("else:"):
            holder = self._struct(of, path)
            self._flush()
            self._source.add(f"{target} = {holder}")

    def _length(self, letter: str, path: str, is_nullable: bool) -> str:
        """Read a length or count, as its variable: -1 and below is null, if null is allowed at all."""
        source = self._source
        length = source.fresh("n")
        self._read("B" if self._is_flexible else letter, length)
        self._flush()
        where = repr(self._where(path))
        if not self._is_flexible:
            if not is_nullable:
                with source.block(f"if {length} < 0:"):
                    source.add(f"raise unexpected_null({where}, {length})")
        elif is_nullable:
            with source.block(f"if {length} > 127:"):
                source.add(f"{length}, p = long_uvarint(data, p, {length}, {where})")
            source.add(f"{length} -= 1")
        else:
            with source.block(f"if not 0 < {length} < 128:"):
                source.add(f"{length}, p = present(data, p, {length}, {where})")
            source.add(f"{length} -= 1")
        return length

    def _sized(self, of: Primitive, target: str, path: str, is_nullable: bool) -> None:
        """A string, bytes or records: a length and that many bytes."""
        source = self._source
        length = self._length("h" if of is STRING else "i", path, is_nullable)
        if is_nullable:
            with source.block(f"if {length} < 0:"):
                source.add(f"{target} = None")
            with source.block("else:"):
                self._slice(of, target, path, length)
        else:
            self._slice(of, target, path, length)

    def _slice(self, of: Primitive, target: str, path: str, length: str) -> None:
        source = self._source
        source.add(f"q = p + {length}")
        with source.block("if q > end:"):
            source.add(f"raise too_long({self._where(path)!r}, {length}, end - p)")
        source.add(f"{target} = {_SLICES[of]}")
        source.add("p = q")

    def _array(self, of: Primitive | type[Struct], target: str, path: str, is_nullable: bool) -> None:
        source = self._source
        count = self._length("i", path, is_nullable)
        if is_nullable:
            with source.block(f"if {count} < 0:"):
                source.add(f"{target} = None")
            with source.block("else:"):
                self._elements(of, target, path, count)
        else:
            self._elements(of, target, path, count)

    def _elements(self, of: Primitive | type[Struct], target: str, path: str, count: str) -> None:
        source = self._source
        # An element of no bytes would make any count affordable; none exists, but a declaration may change.
        size = max(1, self._least_size(of))
        with source.block(f"if {count} * {size} > end - p:"):
            source.add(f"raise too_many({self._where(path)!r}, {count}, end - p)")
        source.add(f"room -= {count}")
        with source.block("if room < 0:"):
            source.add(f"raise over_limit({self._where(path)!r})")
        if isinstance(of, Primitive) and of.is_fixed:
            if of is UUID:
                source.add(f"{target} = [data[q : q + 16] for q in range(p, p + 16 * {count}, 16)]")
            else:
                several = source.constant("several", of, Formats(of.value, "unpack_from"))
                source.add(f"{target} = list({several}[{count}](data, p))")
            source.add(f"p += {count} * {size}")
            return
        items, item = source.fresh("items"), source.fresh("item")
        source.add(f"{items} = {target} = []")
        with source.block(f"for _ in range({count}):"):
            if isinstance(of, Primitive):
                self._sized(of, item, path, is_nullable=False)
            else:
                item = self._struct(of, path)
            self._flush()
            source.add(f"{items}.append({item})")

    def _least_size(self, of: FieldType, is_nullable: bool = False) -> int:
        """The fewest bytes a value takes."""
        if isinstance(of, Primitive) and of.is_fixed:
            return calcsize(f">{of.value}")
        if isinstance(of, Array | Primitive):
            return 1 if self._is_flexible else (2 if of is STRING else 4)
        if is_nullable:
            return 1
        plain, _, _ = fields_in(of, self._version)
        size = sum(self._least_size(field.type, self._nullable(field)) for field in plain)
        return size + 1 if self._is_flexible else size


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


_SLICES = {
    STRING: "data[p:q].decode()",
    BYTES: "data[p:q]",
    RECORDS: "memoryview(data)[p:q]",
}


# What compiled decoders call, mostly where something is unusual or wrong.


def _long_uvarint(data: bytes, position: int, first: int, where: str) -> tuple[int, int]:
    """The value of a number of several bytes, and where it ends; ``first`` has been read already."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise DecodeError(f"{where}: a number of more than 32 bits")


def _uvarint(data: bytes, position: int, where: str) -> tuple[int, int]:
    first = data[position]
    if first < 0x80:
        return first, position + 1
    return _long_uvarint(data, position + 1, first, where)


def _present(data: bytes, position: int, first: int, where: str) -> tuple[int, int]:
    """A length that may not be null: encoded plus one, so that zero is null."""
    if first:
        length, position = _long_uvarint(data, position, first, where)
        if length:
            return length, position
    raise _unexpected_null(where, -1)


def _next_tag(data: bytes, position: int, where: str) -> tuple[int, int, int]:
    """Number of a tagged field, where its value ends, and where it starts."""
    tag, position = _uvarint(data, position, where)
    size, position = _uvarint(data, position, where)
    if size > len(data) - position:
        raise _too_long(where, size, len(data) - position)
    return tag, position + size, position


def skip_tags(data: bytes, position: int, first: int, where: str) -> int:
    """Where a section of tags that mean nothing to us ends; ``first`` is the first byte of their number."""
    count = first
    if first > 0x7F:
        count, position = _long_uvarint(data, position, first, where)
    # No bound is needed on the count: each turn takes two bytes, or finds there are none.
    for _ in range(count):
        _, position, _ = _next_tag(data, position, where)
    return position


def _unexpected_null(where: str, length: int) -> DecodeError:
    return DecodeError(f"{where}: null is not allowed" if length == -1 else f"{where}: length {length}")


def _too_long(where: str, length: int, left: int) -> DecodeError:
    return DecodeError(f"{where}: {length} bytes announced, {left} left")


def _too_many(where: str, count: int, left: int) -> DecodeError:
    return DecodeError(f"{where}: {count} elements announced, {left} bytes left")


def _wrong_tag_size(where: str) -> DecodeError:
    return DecodeError(f"{where}: the tagged field is not as long as announced")


_RUNTIME: dict[str, object] = {
    "new": object.__new__,
    "ZERO_UUID": ZERO_UUID,
    "long_uvarint": _long_uvarint,
    "present": _present,
    "next_tag": _next_tag,
    "skip_tags": skip_tags,
    "trailing": TrailingBytesError,
    "unexpected_null": _unexpected_null,
    "too_long": _too_long,
    "too_many": _too_many,
    "over_limit": TooManyElementsError,
    "wrong_tag_size": _wrong_tag_size,
}
