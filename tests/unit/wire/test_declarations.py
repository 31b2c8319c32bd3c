"""The generated declarations: up to date, and what the protocol's field lists say.

``field_lists.txt`` holds the lists, written by hand, as ``Name:type=default [versions] <tag>`` with ``?`` for
nullable, ``[]`` for arrays and ``{…}`` for structs. kio, the source of the declarations, is checked against
them; the property tests check the codec against kio.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kohort.codec.schema import Array, Field, Message, Primitive, Struct
from kohort.wire.apis import APIS
from kohort.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

ROOT = Path(__file__).parents[3]
LISTS = dict(
    line.split(": ", 1)
    for line in Path(__file__).with_name("field_lists.txt").read_text().splitlines()
    if line
)
MESSAGES: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (
        *(kind for api in APIS.values() for kind in (api.request_class, api.response_class)),
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
    )
}
TYPES = {
    "bool": Primitive.BOOL,
    "i8": Primitive.INT8,
    "i16": Primitive.INT16,
    "i32": Primitive.INT32,
    "i64": Primitive.INT64,
    "u16": Primitive.UINT16,
    "f64": Primitive.FLOAT64,
    "uuid": Primitive.UUID,
    "str": Primitive.STRING,
    "bytes": Primitive.BYTES,
    "records": Primitive.RECORDS,
}


class Listed(NamedTuple):
    """One field of a list."""

    name: str
    is_array: bool
    type: Primitive | list["Listed"]
    nullable: set[int]
    default: str
    versions: set[int]
    tag: int | None


class Parser:
    """Reads the notation of the lists, within the versions of a message."""

    def __init__(self, text: str, versions: set[int]) -> None:
        self._text = text
        self._whole = versions

    def take(self, pattern: str) -> re.Match[str] | None:
        found = re.match(pattern, self._text)
        if found is not None:
            self._text = self._text[found.end() :]
        return found

    def need(self, pattern: str) -> re.Match[str]:
        found = self.take(pattern)
        assert found is not None, (pattern, self._text)
        return found

    def versions(self, text: str) -> set[int]:
        first, _, last = text.partition("-")
        if first.endswith("+"):
            return {version for version in self._whole if version >= int(first[:-1])}
        return {version for version in self._whole if int(first) <= version <= int(last or first)}

    def null(self) -> set[int] | None:
        found = self.take(r"\?(?:\((\d+\+)\))?")
        if found is None:
            return None
        return self.versions(found[1]) if found[1] else self._whole

    def fields(self) -> list[Listed]:
        found = [self.field()]
        while self.take(", "):
            found.append(self.field())
        return found

    def field(self) -> Listed:
        name = self.need(r"(\w+):")[1]
        is_array = self.take(r"\[\]") is not None
        nullable = self.null() if is_array else None
        of: Primitive | list[Listed]
        if self.take("{"):
            of = self.fields()
            self.need("}")
        else:
            of = TYPES[self.need(r"\w+")[0]]
        if not is_array:
            nullable = self.null()
        default = self.take(r"=(-?\w+)")
        versions = self.take(r" \[([\d+-]+)\]")
        tag = self.take(r" <tag(\d+)>")
        return Listed(
            name=re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(),
            is_array=is_array,
            type=of,
            nullable=nullable or set(),
            default=default[1] if default else "",
            versions=self.versions(versions[1]) if versions else self._whole,
            tag=int(tag[1]) if tag else None,
        )


def check_struct(struct: type[Struct], listed: list[Listed], versions: set[int]) -> None:
    by_name = {field.name: field for field in struct.fields}
    assert by_name.keys() == {one.name for one in listed}
    for one in listed:
        check_field(by_name[one.name], one, versions)
    for version in versions:
        ours = [f.name for f in struct.fields if f.tag is None and f.versions.includes(version)]
        assert ours == [one.name for one in listed if one.tag is None and version in one.versions]


def check_field(field: Field, one: Listed, versions: set[int]) -> None:
    present = {version for version in versions if field.versions.includes(version)}
    where = field.name
    assert present == one.versions & versions, where
    nullable = {version for version in present if field.nullable.includes(version)}
    assert nullable == one.nullable & present, where
    assert field.tag == one.tag, where
    if one.default:
        assert field.make_default() == default_value(one), where
    assert isinstance(field.type, Array) is one.is_array, where
    of = field.type.of if isinstance(field.type, Array) else field.type
    if isinstance(one.type, Primitive):
        assert of is one.type, where
    else:
        assert not isinstance(of, Primitive), where
        check_struct(of, one.type, present)


def default_value(one: Listed) -> object:
    words: dict[str, object] = {"true": True, "MIN": -(2**31)}
    if one.default == "MAX":
        return 2**63 - 1 if one.type is Primitive.INT64 else 2**31 - 1
    return words[one.default] if one.default in words else int(one.default)


@pytest.mark.parametrize("name", LISTS)
def test_a_message_has_the_fields_of_the_protocol(name: str) -> None:
    message = MESSAGES[name]
    versions = set(range(message.versions.first, message.versions.last + 1))
    check_struct(message, Parser(LISTS[name], versions).fields() if LISTS[name] else [], versions)


def structs_of(kind: type[Struct]) -> Iterator[type[Struct]]:
    yield kind
    for field in kind.fields:
        of = field.type.of if isinstance(field.type, Array) else field.type
        if not isinstance(of, Primitive):
            yield from structs_of(of)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_constructor_has_the_defaults_of_the_declaration(name: str) -> None:
    for kind in structs_of(MESSAGES[name]):
        made = kind()
        assert {field.name: getattr(made, field.name) for field in kind.fields} == {
            field.name: field.make_default() for field in kind.fields
        }
        assert sorted(kind.__slots__) == sorted(field.name for field in kind.fields)


def test_all_messages_but_those_of_elect_leaders_are_listed() -> None:
    assert MESSAGES.keys() - LISTS.keys() == {"ElectLeadersRequest", "ElectLeadersResponse"}


@pytest.mark.slow
def test_the_committed_declarations_are_what_the_generator_writes() -> None:
    done = subprocess.run(
        [sys.executable, "tools/generate_messages.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
