"""Values with Confluent's header (a zero byte, the number of a schema) as documents: Avro, Protobuf and JSON.

Schemas come from a schema registry, or from a directory with ``7.avsc``, ``7.json`` or ``7.desc`` (what
``protoc --include_imports --descriptor_set_out`` writes). They never change, so each process asks once for
each. What cannot be asked raises, and the batch is tried again; a value that is wrong, or whose schema does
not exist, is bad for a reason.
"""

import base64
import datetime
import io
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from kohort.client.columnar.options import MissingExtraError
from kohort.model.errors import KohortError
from kohort.primitives.varint import VarintError, read_varint
from kohort.spark.pipelines import json_shape

Decode = Callable[[bytes], object]

_HEADER = 5
_TIMEOUT_SECONDS = 10
_AVRO, _PROTOBUF, _JSON = "AVRO", "PROTOBUF", "JSON"
_ENDINGS = {".avsc": _AVRO, ".json": _JSON, ".desc": _PROTOBUF}
_ASK_AGAIN_SECONDS = 30.0  # for a schema that does not exist: it may come
_decoders: dict[tuple[str, int], Decode] = {}
_missing: dict[tuple[str, int], float] = {}


class RegistryError(KohortError):
    """The registry does not answer, or with something that is no schema."""

    def __init__(self, what: str, reason: object) -> None:
        super().__init__(
            f"cannot get {what}: {reason}", hint="check --registry; the batch is tried again", retriable=True
        )


class _WrongValueError(Exception):
    """A value that does not follow its schema; never leaves this module."""


class RegisteredSchema(NamedTuple):
    """A schema as it is kept: text, or for Protobuf descriptors of its file and of those it imports."""

    kind: str
    text: str = ""
    imported: tuple[str, ...] = ()  # Avro: the schemas of the types it names, in order
    files: tuple[bytes, ...] = ()  # Protobuf: what is imported first, its own file last


@dataclass(frozen=True, slots=True)
class RegistryLoader:
    """Loads values, as ``json_shape.load`` does. Travels to tasks: it is only the registry's address."""

    registry: str = field(repr=False)  # it may hold a password

    def __call__(self, value: bytes) -> json_shape.Loaded:
        if len(value) < _HEADER or value[0] != 0:
            return None, "no header of a schema registry"
        number = int.from_bytes(value[1:_HEADER], "big")
        decode = self._decoder(number)
        if decode is None:
            return None, f"there is no schema {number} in the registry"
        try:
            return decode(value[_HEADER:]), None
        except _WrongValueError as error:
            return None, f"not of schema {number}: {error}"

    def _decoder(self, number: int) -> Decode | None:
        key = self.registry, number
        now = time.monotonic()
        if key not in _decoders and now - _missing.get(key, -_ASK_AGAIN_SECONDS) >= _ASK_AGAIN_SECONDS:
            schema = find_schema(self.registry, number)
            if schema is None:
                _missing[key] = now
            else:
                _decoders[key] = decoder(schema)
        return _decoders.get(key)


def loader_of(registry: str | None) -> json_shape.Loader:
    """What loads values: with a registry by its schemas, else as JSON."""
    if registry is None:
        return json_shape.load
    return RegistryLoader(registry)


# Where schemas are


def find_schema(registry: str, number: int) -> RegisteredSchema | None:
    """The schema of this number; None if there is none. Raises RegistryError."""
    return _from_url(registry, number) if "://" in registry else _from_directory(Path(registry), number)


def _from_directory(directory: Path, number: int) -> RegisteredSchema | None:
    if not directory.is_dir():
        raise RegistryError(f"schema {number}", f"there is no directory {directory}")
    for ending, kind in _ENDINGS.items():
        path = directory / f"{number}{ending}"
        if path.is_file():
            content = path.read_bytes()
            return (
                RegisteredSchema(kind, files=_split(content))
                if kind == _PROTOBUF
                else RegisteredSchema(kind, content.decode())
            )
    return None


def _split(descriptor_set: bytes) -> tuple[bytes, ...]:
    descriptors = _protobuf("google.protobuf.descriptor_pb2").FileDescriptorSet.FromString(descriptor_set)
    return tuple(one.SerializeToString() for one in descriptors.file)


def _from_url(registry: str, number: int) -> RegisteredSchema | None:
    found = _get(registry, f"schemas/ids/{number}")
    if found is None:
        return None
    kind = found.get("schemaType", _AVRO)
    if kind == _PROTOBUF:
        own = _get(registry, f"schemas/ids/{number}?format=serialized")
        imported = _imported(registry, found.get("references", ()), "?format=serialized")
        return RegisteredSchema(
            kind, files=tuple(map(base64.b64decode, (*imported, str((own or found)["schema"]))))
        )
    return RegisteredSchema(
        kind, str(found["schema"]), tuple(_imported(registry, found.get("references", ()), ""))
    )


def _imported(registry: str, references: Iterable[Mapping[str, Any]], form: str) -> list[str]:
    """The schemas that a schema refers to, those they refer to themselves first."""
    found: list[str] = []
    for one in references:
        path = f"subjects/{urllib.parse.quote(one['subject'], safe='')}/versions/{one['version']}"
        named = _get(registry, f"{path}{form}")
        if named is None:
            raise RegistryError(path, "it does not exist, and a schema refers to it")
        inner = _imported(registry, named.get("references", ()), form)
        found += [text for text in (*inner, str(named["schema"])) if text not in found]
    return found


def _get(registry: str, path: str) -> dict[str, Any] | None:
    parts = urllib.parse.urlsplit(registry)
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    request = urllib.request.Request(f"{address.geturl().rstrip('/')}/{path}")
    if parts.username is not None:
        login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as reply:
            found = json.loads(reply.read())
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 404:
            return None
        raise RegistryError(path, f"HTTP {error.code}") from error
    except (OSError, ValueError) as error:
        raise RegistryError(path, error) from error
    if not isinstance(found, dict) or "schema" not in found:
        raise RegistryError(path, "the answer has no schema")
    return found


# What schemas read


def decoder(schema: RegisteredSchema) -> Decode:
    """Reads what is behind the header; raises _WrongValueError."""
    match schema.kind:
        case "AVRO":
            return _avro(schema)
        case "PROTOBUF":
            return _messages(schema)
        case "JSON":
            return _json_document
        case kind:
            raise RegistryError("a schema", f"its type is {kind!r}, and Avro, Protobuf and JSON can be read")


def _json_document(content: bytes) -> object:
    document, reason = json_shape.load(content)
    if reason is not None:
        raise _WrongValueError(reason)
    return document


def _avro(schema: RegisteredSchema) -> Decode:
    try:
        from fastavro import parse_schema, schemaless_reader
    except ModuleNotFoundError as error:
        raise MissingExtraError("reading Avro", error.name, "registry") from error
    named: dict[str, Any] = {}
    for text in schema.imported:
        parse_schema(json.loads(text), named_schemas=named)
    parsed = parse_schema(json.loads(schema.text), named_schemas=named)

    def decode(content: bytes) -> object:
        buffer = io.BytesIO(content)
        try:
            document = schemaless_reader(buffer, parsed, None)
        except Exception as error:  # fastavro raises whatever its bytes lead to
            raise _WrongValueError(f"{type(error).__name__} {error}".strip()) from error
        if left := len(content) - buffer.tell():
            raise _WrongValueError(f"{left} bytes are left over")
        return _plain(document)

    return decode


def _plain(value: object) -> object:
    """A document as JSON could have it: bytes in base64, times as ISO 8601 says, decimals as text."""
    match value:
        case dict():
            return {name: _plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case _:
            return value


_WELL_KNOWN = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")


def _protobuf(module: str) -> Any:  # noqa: ANN401  # a module without types
    import importlib

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError("reading Protobuf", error.name, "registry") from error


def _messages(schema: RegisteredSchema) -> Decode:
    pools, factory = (
        _protobuf("google.protobuf.descriptor_pool"),
        _protobuf("google.protobuf.message_factory"),
    )
    pool = pools.DescriptorPool()
    for name in _WELL_KNOWN:
        pool.AddSerializedFile(_protobuf(f"google.protobuf.{name}_pb2").DESCRIPTOR.serialized_pb)
    described = _protobuf("google.protobuf.descriptor_pb2").FileDescriptorProto
    for file in schema.files:
        if not described.FromString(file).name.startswith("google/protobuf/"):
            pool.AddSerializedFile(file)
    own = pool.FindFileByName(described.FromString(schema.files[-1]).name)
    top = [own.message_types_by_name[one.name] for one in described.FromString(schema.files[-1]).message_type]
    decode_error = _protobuf("google.protobuf.message").DecodeError

    def decode(content: bytes) -> object:
        indexes, at = _indexes(content)
        try:
            chosen = top[indexes[0]]
            for index in indexes[1:]:
                chosen = chosen.nested_types[index]
            return _message(factory.GetMessageClass(chosen).FromString(content[at:]))
        except (IndexError, decode_error) as error:
            raise _WrongValueError(str(error)) from error

    return decode


def _indexes(content: bytes) -> tuple[list[int], int]:
    """Which message of the file it is, by a path of numbers; a single zero stands for the first."""
    try:
        count, at = read_varint(content, 0)
        indexes = []
        for _ in range(min(count, len(content))):
            index, at = read_varint(content, at)
            indexes.append(index)
    except VarintError as error:
        raise _WrongValueError(f"it ends in its message indexes: {error}") from None
    return indexes or [0], at


def _message(message: Any) -> dict[str, object]:  # noqa: ANN401  # made by descriptors
    """A message as a document, by its field names; whole numbers stay numbers, enums are their names."""
    found: dict[str, object] = {}
    for declared in message.DESCRIPTOR.fields:
        value = getattr(message, declared.name)
        if declared.message_type is not None and declared.message_type.GetOptions().map_entry:
            inner = declared.message_type.fields_by_name["value"]
            found[declared.name] = {str(key): _field(inner, one) for key, one in value.items()}
        elif declared.is_repeated:
            found[declared.name] = [_field(declared, one) for one in value]
        elif not declared.has_presence or message.HasField(declared.name):
            found[declared.name] = _field(declared, value)
    return found


def _field(field: Any, value: Any) -> object:  # noqa: ANN401  # same
    if field.message_type is not None:
        if field.message_type.full_name == "google.protobuf.Timestamp":
            return value.ToJsonString()
        return _message(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    return _plain(value)
