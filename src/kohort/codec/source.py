"""Python source under construction: what the compilers of decoders and encoders are written with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct as Format
from typing import Any

from kohort.codec.schema import Array, Field, Message, Primitive, Struct


class FunctionSource:
    """One function as lines of text, and the objects those lines refer to by name."""

    def __init__(self, signature: str) -> None:
        self._lines = [f"def {signature}:"]
        self._depth = 1
        self._count = 0
        self._constants: dict[str, Any] = {}
        self._names: dict[tuple[str, object], str] = {}

    def add(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, line: str) -> Iterator[None]:
        """``line`` opens a block; what is added within ``with`` is its body."""
        self.add(line)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A variable no other part of the function uses."""
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, key: object, value: object) -> str:
        """A name for ``value``; the same one for an equal ``key``."""
        name = self._names.get((stem, key))
        if name is None:
            name = self._names[stem, key] = f"{stem}_{len(self._names)}"
            self._constants[name] = value
        return name

    def define(self, name: str, value: object) -> None:
        self._constants[name] = value

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def build(self, origin: str) -> Callable[..., Any]:
        """Compile it; ``origin`` stands for the file name in tracebacks."""
        namespace = dict(self._constants)
        exec(compile(self.text(), f"<{origin}>", "exec"), namespace)
        name = self._lines[0].removeprefix("def ").partition("(")[0]
        function: Callable[..., Any] = namespace[name]
        return function


class Formats(dict[int, Callable[..., Any]]):
    """By count, a method of the ``struct`` format for that many values of one type; small ones are kept."""

    def __init__(self, letter: str, method: str) -> None:
        super().__init__()
        self._letter = letter
        self._method = method

    def __missing__(self, count: int) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(Format(f">{count}{self._letter}"), self._method)
        if count < 64:
            self[count] = found
        return found


def fields_in(struct: type[Struct], version: int) -> tuple[list[Field], list[Field], list[Field]]:
    """The fields of a struct in a version: those in line, those with a tag by tag, those it lacks."""
    present = [field for field in struct.fields if field.versions.includes(version)]
    plain = [field for field in present if field.tag is None]
    tagged = sorted((field for field in present if field.tag is not None), key=lambda field: field.tag or 0)
    absent = [field for field in struct.fields if not field.versions.includes(version)]
    return plain, tagged, absent


def describe(message: type[Message], version: int) -> str:
    return f"{message.__name__} v{version}"


def struct_type(field: Field) -> type[Struct] | None:
    """The class of a field that is a struct (not an array of them)."""
    return None if isinstance(field.type, Array | Primitive) else field.type
