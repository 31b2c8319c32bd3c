"""Write ``src/kohort/wire/messages``: one class per message, from kio's one class per message and version.

    python tools/generate_messages.py            write the files
    python tools/generate_messages.py --check    say which differ from what would be written; 1 if any does

kio's dataclasses are the source: their fields, types, defaults, tags and order, version by version.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from dataclasses import Field as DataclassField
from datetime import datetime, timedelta
from enum import Enum
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, Literal, TypeAlias

from kio.schema.index import schema_name_map
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    PrimitiveField,
    PrimitiveTupleField,
    classify_field,
)
from kio.static.constants import EntityType

from kohort.codec import schema
from kohort.wire.apis import ApiKey

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src" / "kohort" / "wire" / "messages"

APIS = tuple(key.name.lower() for key in ApiKey)

# Module → kio's names of what goes into it.
MODULES: Mapping[str, tuple[str, ...]] = {name: (name,) for name in APIS} | {
    "consumer_protocol": ("consumer_protocol_subscription", "consumer_protocol_assignment")
}

Kind: TypeAlias = Literal[EntityType.request, EntityType.response, EntityType.data]
KINDS: Final[tuple[Kind, ...]] = (EntityType.request, EntityType.response, EntityType.data)

BASES = {EntityType.nested: "Struct", EntityType.request: "Request"}

# kio's name for a type → ours, and how Python annotates it. Durations, instants and error codes are
# integers here: the wire layer passes on what was sent, and the broker gives it meaning.
TYPES = {
    "bool": ("BOOL", "bool"),
    "int8": ("INT8", "int"),
    "int16": ("INT16", "int"),
    "int32": ("INT32", "int"),
    "int64": ("INT64", "int"),
    "uint16": ("UINT16", "int"),
    "uint32": ("UINT32", "int"),
    "float64": ("FLOAT64", "float"),
    "uuid": ("UUID", "bytes"),
    "string": ("STRING", "str"),
    "bytes": ("BYTES", "bytes"),
    "records": ("RECORDS", "Buffer"),
    "error_code": ("INT16", "int"),
    "timedelta_i32": ("INT32", "int"),
    "timedelta_i64": ("INT64", "int"),
    "datetime_i64": ("INT64", "int"),
}
ZEROS = {"bool": "False", "int": "0", "float": "0.0", "str": '""', "bytes": 'b""'}
MILLISECONDS = frozenset({"timedelta_i32", "timedelta_i64", "datetime_i64"})


@dataclass(kw_only=True)
class FieldInfo:
    """A field of one struct, over all versions."""

    name: str
    type: str  # one of ours, or the name of a struct
    annotation: str
    is_array: bool
    is_struct: bool
    tag: int | None
    default: str | None  # as source; None: the zero of its type
    versions: set[int] = field(default_factory=set)
    nullable: set[int] = field(default_factory=set)

    def shape(self) -> tuple[object, ...]:
        """What must not differ between versions."""
        return (self.type, self.is_array, self.tag, self.default)


@dataclass(kw_only=True)
class StructInfo:
    """A struct or message of one module, over all versions."""

    name: str
    api_key: int | None
    kind: str  # what it is derived from: Request, Message or Struct
    in_response: bool
    versions: set[int] = field(default_factory=set)
    flexible: set[int] = field(default_factory=set)
    fields: dict[str, FieldInfo] = field(default_factory=dict)
    orders: list[list[str]] = field(default_factory=list)

    @property
    def is_message(self) -> bool:
        return self.kind != "Struct"

    def ordered(self) -> list[FieldInfo]:
        """The fields in one order that every version agrees with; an error if there is none."""
        before: dict[str, set[str]] = {name: set() for name in self.fields}
        for order in self.orders:
            for earlier, later in pairwise(order):
                before[later].add(earlier)
        sorter = TopologicalSorter(before)
        sorter.prepare()
        result: list[FieldInfo] = []
        ready: list[str] = []
        position = {name: index for index, name in enumerate(self.fields)}
        while sorter.is_active():
            ready += sorter.get_ready()
            # Among those that may come next, the one introduced first: a stable and readable choice.
            ready.sort(key=lambda name: (min(self.fields[name].versions), position[name]), reverse=True)
            name = ready.pop()
            sorter.done(name)
            result.append(self.fields[name])
        return result


def read_module(sources: Iterable[str]) -> dict[str, StructInfo]:
    """All structs of a module, innermost first, merged over the versions kio knows."""
    structs: dict[str, StructInfo] = {}
    for source in sources:
        for kind in KINDS:
            for version, paths in sorted(schema_name_map[source].items()):
                if kind in paths:
                    read_struct(resolve_name(paths[kind]), version, structs)
    return innermost_first(structs)


def read_struct(entity: type[Any], version: int, structs: dict[str, StructInfo]) -> None:
    """Merge one class of kio, and those it is made of, into ``structs``."""
    struct = structs.setdefault(
        entity.__name__,
        StructInfo(
            name=entity.__name__,
            api_key=getattr(entity, "__api_key__", None),
            kind=BASES.get(entity.__type__, "Message"),
            in_response="response" in entity.__module__,
        ),
    )
    struct.versions.add(version)
    if entity.__flexible__:
        struct.flexible.add(version)
    order = []
    for source in fields(entity):
        info = read_field(source, version, structs)
        known = struct.fields.setdefault(info.name, info)
        if known.shape() != info.shape():
            raise ValueError(f"{struct.name}.{info.name} changes in version {version}: {known} and {info}")
        known.versions |= info.versions
        known.nullable |= info.nullable
        if info.tag is None:
            order.append(info.name)
    struct.orders.append(order)


def read_field(source: DataclassField[Any], version: int, structs: dict[str, StructInfo]) -> FieldInfo:
    found = classify_field(source)
    kio_type = source.metadata.get("kafka_type", "")
    is_struct = isinstance(found, EntityField | EntityTupleField)
    if is_struct:
        read_struct(found.type_, version, structs)
        our_type = annotation = found.type_.__name__
    else:
        our_type, annotation = TYPES[kio_type]
    # kio has None for a uuid of zeros and an instant of -1; on the wire nothing of fixed width is null.
    has_null = not isinstance(found, PrimitiveField) or kio_type in ("string", "bytes", "records")
    is_nullable = has_null and "None" in str(source.type)
    tag = source.metadata.get("tag")
    return FieldInfo(
        # kio drops the unit from the names of times; Kafka's names have it.
        name=source.name + "_ms" if kio_type in MILLISECONDS else source.name,
        type=our_type,
        annotation=annotation,
        is_array=isinstance(found, EntityTupleField | PrimitiveTupleField),
        is_struct=is_struct,
        tag=tag,
        default=default_of(source, found),
        versions={version},
        nullable={version} if is_nullable else set(),
    )


def default_of(source: DataclassField[Any], found: object) -> str | None:
    """The schema's default as source, or None where it is the zero of the field's type."""
    value = source.default
    if value is MISSING or value == ():
        return None
    if value is None:
        # What kio calls None is -1 for an instant and all zeros for a uuid.
        return {"datetime_i64": "-1", "uuid": None}.get(source.metadata.get("kafka_type", ""), "None")
    if isinstance(found, EntityField):
        return None
    literal = literal_of(value)
    return None if isinstance(found, PrimitiveField) and literal in ZEROS.values() else literal


def literal_of(value: object) -> str:
    if isinstance(value, timedelta):
        return str(value // timedelta(milliseconds=1))
    if isinstance(value, datetime):
        return str(int(value.timestamp() * 1000))
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool):
        return str(bool(value))
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, str):
        return f'"{value}"'
    raise TypeError(f"a default this generator does not know: {value!r}")


def innermost_first(structs: dict[str, StructInfo]) -> dict[str, StructInfo]:
    """So that each class is defined before it is named."""
    result: dict[str, StructInfo] = {}

    def add(struct: StructInfo) -> None:
        for found in struct.ordered():
            if found.is_struct:
                add(structs[found.type])
        result[struct.name] = struct

    for struct in structs.values():
        if struct.is_message:
            add(struct)
    return result


def span(versions: set[int], of: str) -> tuple[int, int]:
    """First and last of a set of versions, which must have no gap."""
    first, last = min(versions), max(versions)
    if versions != set(range(first, last + 1)):
        raise ValueError(f"{of} has a gap in its versions {sorted(versions)}")
    return first, last


def range_source(versions: set[int], whole: set[int], of: str) -> str | None:
    """How to write a range within the versions ``whole``; None if it is all of them."""
    first, last = span(versions, of)
    if versions == whole:
        return None
    return f"since({first})" if last == max(whole) else f"Versions({first}, {last})"


def write_field(found: FieldInfo, struct: StructInfo) -> str:
    of = f"{struct.name}.{found.name}"
    parts = [f'"{found.name}"', f"Array({found.type})" if found.is_array else found.type]
    versions = range_source(found.versions, struct.versions, of)
    if versions is not None:
        parts.append(f"versions={versions}")
    if found.nullable:
        nullable = range_source(found.nullable, struct.versions, of)
        parts.append(f"nullable={nullable or 'ALWAYS'}")
    if found.default is not None:
        parts.append(f"default={found.default}")
    if found.tag is not None:
        parts.append(f"tag={found.tag}")
    return f"Field({', '.join(parts)})"


def write_parameter(found: FieldInfo, struct: StructInfo) -> tuple[str, str]:
    """A keyword of ``__init__`` and the assignment it leads to."""
    name, annotation = found.name, found.annotation
    if found.is_array:
        null = " | None" if found.nullable else ""
        if found.default == "None":
            return f"{name}: list[{annotation}] | None = None", f"self.{name} = {name}"
        return (
            f"{name}: list[{annotation}]{null} = EMPTY",
            f"self.{name} = [] if {name} is EMPTY else {name}",
        )
    if found.is_struct:
        if found.nullable or found.tag is not None:
            return f"{name}: {annotation} | None = None", f"self.{name} = {name}"
        return (
            f"{name}: {annotation} | None = None",
            f"self.{name} = {annotation}() if {name} is None else {name}",
        )
    if found.type == "RECORDS":
        # Read from several places, a reply's records can be sent without being put together first.
        annotation = "Records" if struct.in_response else "Buffer"
        return f"{name}: {annotation} | None = None", f"self.{name} = {name}"
    default = found.default or ("ZERO_UUID" if found.type == "UUID" else ZEROS[annotation])
    null = " | None" if found.nullable else ""
    return f"{name}: {annotation}{null} = {default}", f"self.{name} = {name}"


def write_class(struct: StructInfo) -> Iterator[str]:
    ordered = struct.ordered()
    yield f"class {struct.name}({struct.kind}):"
    slots = ", ".join(f'"{name}"' for name in sorted(struct.fields))
    yield f"    __slots__ = ({slots}{',' if len(ordered) == 1 else ''})"
    if struct.is_message:
        if struct.api_key is not None:
            yield f"    api_key = {struct.api_key}"
        first, last = span(struct.versions, struct.name)
        yield f"    versions = Versions({first}, {last})"
        yield f"    first_flexible = {min(struct.flexible, default=None)}"
    yield "    fields = ("
    yield from (f"        {write_field(found, struct)}," for found in ordered)
    yield "    )"
    if not ordered:
        return
    parameters = [write_parameter(found, struct) for found in ordered]
    yield ""
    yield f"    def __init__(self, *, {', '.join(parameter for parameter, _ in parameters)},) -> None:"
    yield from (f"        {assignment}" for _, assignment in parameters)


VOCABULARY = tuple(vars(schema))


def write_module(module: str, sources: tuple[str, ...]) -> str:
    structs = read_module(sources)
    for struct in structs.values():
        if struct.flexible and struct.flexible != {v for v in struct.versions if v >= min(struct.flexible)}:
            raise ValueError(f"{struct.name} is flexible in {struct.flexible} of {struct.versions}")
    classes = ["\n".join(write_class(struct)) for struct in structs.values()]
    body = "\n\n\n".join(classes)
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in body).split())
    names = [name for name in VOCABULARY if name in words]
    title = " and ".join(struct.name for struct in structs.values() if struct.is_message)
    keys = {struct.api_key for struct in structs.values() if struct.api_key is not None}
    of = f" of API {keys.pop()}" if keys else ""
    note = "Generated by tools/generate_messages.py from kio; do not edit."
    lines = [f'"""{title}{of}.', "", note, '"""', ""]
    lines += [f"from kohort.codec.schema import {', '.join(names)}", "", ""]
    return "\n".join(lines) + "\n" + body + "\n"


def generate(directory: Path) -> None:
    """Write all modules to ``directory``, formatted."""
    about = "One module for each API, generated: its request and its response."
    (directory / "__init__.py").write_text(f'"""{about}"""\n')
    for module, sources in MODULES.items():
        (directory / f"{module}.py").write_text(write_module(module, sources))
    settings = ["--config", str(ROOT / "pyproject.toml")]
    for command in (["check", "--select", "I,RUF022,RUF023", "--fix", "-q"], ["format", "-q"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, *settings, str(directory)], check=True)


def differing() -> list[str]:
    """The names of the modules that are not what would be written now."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        generate(directory)
        wanted = {path.name: path.read_text() for path in directory.glob("*.py")}
    found = {path.name: path.read_text() for path in TARGET.glob("*.py")}
    return sorted(file for file in wanted.keys() | found.keys() if wanted.get(file) != found.get(file))


def main() -> int:
    parser = argparse.ArgumentParser(description="Generate the message declarations.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a file differs")
    if not parser.parse_args().check:
        generate(TARGET)
        return 0
    stale = differing()
    for file in stale:
        print(f"{file} differs; run tools/generate_messages.py")
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
