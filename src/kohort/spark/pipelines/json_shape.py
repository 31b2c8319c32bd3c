"""The shape of JSON values: inferred once from the first records of a topic, then kept, and held against all.

A shape is plain data, to be stored as JSON: ``"bigint"``, ``"double"``, ``"boolean"``, ``"string"``,
``"any"`` (what was null or of several kinds: kept as JSON text), ``"text"`` (strings as they are, all else as
JSON text), ``["array", shape]``, ``["struct", {name: shape}]``. A member of an object whose type has changed
has several columns, ``["versions", {column: shape}]``, the newest last.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kohort.model.errors import KohortError

Shape = str | list["str | Shape | dict[str, Shape]"]
Fields = Mapping[str, Shape]
Loaded = tuple[object, str | None]
"""A document, or why there is none."""
Loader = Callable[[bytes], Loaded]

BIGINT, DOUBLE, BOOLEAN, STRING = "bigint", "double", "boolean", "string"
ANY, TEXT = "any", "text"
_UNKNOWN = "null"  # only while inferring: nothing but nulls so far

MOST_FIELDS = 500  # an object with more is rather a map; what is over goes to the column ``extra``
_DEEPEST = 12
_MOST_DIGITS = 40  # of a number in a reason
_LONG = range(-(2**63), 2**63)


class ShapeError(KohortError):
    """A stored shape that cannot be read."""


class Parsed(NamedTuple):
    """A value held against the fields: its columns, JSON text of what has no column, or why it is bad."""

    row: dict[str, object] | None
    extra: str | None = None
    reason: str | None = None


class _MisfitError(Exception):
    """Where a value does not fit, and what is there; never leaves this module."""

    def __init__(self, path: str, found: object, wanted: str) -> None:
        super().__init__(f"{path} is {_kind(found)}, not {wanted}")


class _OutOfRangeError(_MisfitError):
    """An integer that its column cannot hold."""

    def __init__(self, path: str, found: object, wanted: str) -> None:
        text = str(found)
        shown = text if len(text) <= _MOST_DIGITS else f"{text[:_MOST_DIGITS]}… ({len(text)} digits)"
        why = "out of the range of a bigint" if wanted == BIGINT else f"which a {wanted} cannot hold exactly"
        Exception.__init__(self, f"{path} is {shown}, {why}")


# Inferring


def infer(values: Iterable[bytes], loader: "Loader | None" = None) -> Fields | None:
    """The fields of all objects among these values; None if there are none."""
    merged: Shape | None = None
    for value in values:
        document, _ = (loader or load)(value)
        if isinstance(document, dict):
            shape = _shape(document, 0)
            merged = shape if merged is None else _merge(merged, shape)
    return None if merged is None else struct_fields(_settled(merged))


def _shape(value: object, depth: int) -> Shape:
    match value:
        case None:
            return _UNKNOWN
        case bool():
            return BOOLEAN
        case int():
            return BIGINT if value in _LONG else ANY
        case float():
            return DOUBLE
        case str():
            return STRING
    if depth >= _DEEPEST:
        return ANY
    if isinstance(value, list):
        inner: Shape = _UNKNOWN
        for item in value:
            inner = _merge(inner, _shape(item, depth + 1))
        return ["array", inner]
    assert isinstance(value, dict)
    return ["struct", {name: _shape(item, depth + 1) for name, item in _columns(value).items()}]


def _columns(document: Mapping[str, object]) -> dict[str, object]:
    """The members that can be columns: named, not too many, no two that differ in case alone."""
    chosen: dict[str, object] = {}
    taken: set[str] = set()
    for name, value in document.items():
        if name and name.lower() not in taken and len(chosen) < MOST_FIELDS:
            chosen[name] = value
            taken.add(name.lower())
    return chosen


def _merge(one: Shape, other: Shape) -> Shape:
    if one == other or other == _UNKNOWN:
        return one
    if one == _UNKNOWN:
        return other
    if one in (BIGINT, DOUBLE) and other in (BIGINT, DOUBLE):
        return DOUBLE
    if isinstance(one, list) and isinstance(other, list) and one[0] == other[0]:
        if one[0] == "array":
            return ["array", _merge(element(one), element(other))]
        fields = dict(struct_fields(one))
        for name, shape in struct_fields(other).items():
            fields[name] = _merge(fields[name], shape) if name in fields else shape
        return ["struct", _columns(fields)]  # type: ignore[list-item]  # shapes go in, shapes come out
    return ANY


def _settled(shape: Shape) -> Shape:
    """The shape with everything unknown left open; an object without members has no columns."""
    if isinstance(shape, str):
        return ANY if shape == _UNKNOWN else shape
    if shape[0] == "array":
        return ["array", _settled_inside(element(shape))]
    return ["struct", {name: _settled_inside(inner) for name, inner in struct_fields(shape).items()}]


def _settled_inside(shape: Shape) -> Shape:
    settled = _settled(shape)
    return ANY if settled == ["struct", {}] else settled


def settled_shape(value: object, depth: int) -> Shape:
    """The shape of one value by itself, at this depth of objects and arrays."""
    return _settled_inside(_shape(value, depth))


def element(shape: Shape) -> Shape:
    """Of what an array is."""
    inner = shape[1]
    assert not isinstance(inner, dict)
    return inner


def struct_fields(shape: Shape) -> dict[str, Shape]:
    """The members of an object, by name."""
    inner = shape[1]
    assert isinstance(inner, dict)
    return inner


def versions_of(name: str, shape: Shape) -> dict[str, Shape]:
    """The columns of a member of an object, the newest last; mostly one, of its name."""
    return struct_fields(shape) if isinstance(shape, list) and shape[0] == "versions" else {name: shape}


def columns_of(fields: Fields) -> dict[str, Shape]:
    """All columns of an object."""
    return {column: one for name, shape in fields.items() for column, one in versions_of(name, shape).items()}


# Holding values against a shape


def load(value: bytes) -> Loaded:
    """The document in a value, or why there is none."""
    try:
        text = value.decode()
        document = (_CAREFUL if _MAY_OVERFLOW.search(text) else _DECODER).decode(text)
        if "\\u" in text:
            json.dumps(document, ensure_ascii=False).encode()  # half a surrogate pair cannot be stored
    except UnicodeDecodeError as error:
        return None, f"not UTF-8 at byte {error.start}"
    except UnicodeEncodeError:
        return None, "half a surrogate pair"
    except RecursionError:
        return None, "nested too deep"
    except ValueError as error:
        return None, f"not JSON: {error}"
    return document, None


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is too large")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_CAREFUL = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)  # slower with each number
_MAY_OVERFLOW = re.compile(r"\d[eE]\+?\d{2}|\d{308}")


def parse(value: bytes, fields: Fields, loader: Loader = load) -> Parsed:
    """A value as a row of the fields. Nothing is dropped: what has no column is an extra, or all is bad."""
    document, reason = loader(value)
    if reason is not None:
        return Parsed(None, reason=reason)
    if not isinstance(document, dict):
        return Parsed(None, reason=f"{_kind(document)}, not an object")
    try:
        row, extra = _fit_object(document, fields, "")
    except _MisfitError as misfit:
        return Parsed(None, reason=str(misfit))
    return Parsed(row, json.dumps(extra, ensure_ascii=False) if extra else None)


def _fit_object(
    document: dict[str, object], fields: Fields, path: str
) -> tuple[dict[str, object], dict[str, object]]:
    """The columns of an object, and its members that have none, in objects like those they were in."""
    row: dict[str, object] = {}
    extra: dict[str, object] = {}
    for name, value in document.items():
        shape = fields.get(name)
        if shape is None:
            extra[name] = value
            continue
        column, row_value, inner = _fit_member(name, value, shape, f"{path}{name}")
        row[column] = row_value
        if inner:
            extra[name] = inner
    return row, extra


def _fit_member(
    name: str, value: object, shape: Shape, path: str
) -> tuple[str, object, dict[str, object] | None]:
    """The newest column that holds a value, what it holds, and what has no column; raises _MisfitError."""
    misfit: _MisfitError | None = None
    for column, one in reversed(versions_of(name, shape).items()):
        try:
            if isinstance(one, list) and one[0] == "struct" and isinstance(value, dict):
                return column, *_fit_object(value, struct_fields(one), f"{path}.")
            return column, _fit(value, one, path), None
        except _MisfitError as error:
            misfit = misfit or error
    assert misfit is not None, "a member has a column"
    raise misfit


def fits(value: object, shape: Shape) -> bool:
    """Whether a column of this shape holds the value, and nothing of it is left over."""
    try:
        _fit(value, shape, "")
    except _MisfitError:
        return False
    return True


def _fit(value: object, shape: Shape, path: str) -> object:
    """The value as its column has it; raises _MisfitError. Inside arrays there is no room for extras."""
    if value is None:
        return None
    if isinstance(shape, str):
        return _fit_scalar(value, shape, path)
    if shape[0] == "array":
        if not isinstance(value, list):
            raise _MisfitError(path, value, "an array")
        return [_fit(item, element(shape), f"{path}[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, dict):
        raise _MisfitError(path, value, "an object")
    row, extra = _fit_object(value, struct_fields(shape), f"{path}.")
    if extra:
        raise _MisfitError(f"{path}.{next(iter(extra))}", next(iter(extra.values())), "known")
    return row


def _fit_scalar(value: object, shape: str, path: str) -> object:
    if shape == ANY or (shape == TEXT and not isinstance(value, str)):
        return json.dumps(value, ensure_ascii=False)
    if shape in (STRING, TEXT) and isinstance(value, str):
        return value
    if shape == BOOLEAN and isinstance(value, bool):
        return value
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if shape == BIGINT and is_integer and value in _LONG:
        return value
    if shape == DOUBLE and (isinstance(value, float) or (is_integer and _is_exact(value))):
        return value
    if is_integer and shape in (BIGINT, DOUBLE):
        raise _OutOfRangeError(path, value, shape)
    raise _MisfitError(path, value, f"a {shape}")


def _is_exact(value: object) -> bool:
    return isinstance(value, int) and abs(value) <= 2**53


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "an array"}
    return "null" if value is None else names.get(type(value), "an object")


# Keeping


def encode_fields(fields: Fields, *, is_pinned: bool = False) -> bytes:
    document: dict[str, object] = {"version": 1, "fields": fields} | ({"pinned": True} if is_pinned else {})
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def decode_fields(content: bytes) -> Fields:
    """Raises ShapeError."""
    try:
        fields = json.loads(content)["fields"]
        ddl(["struct", fields])
    except (ValueError, KeyError, TypeError, IndexError, AssertionError, AttributeError) as error:
        raise ShapeError(
            f"the kept schema cannot be read: {error!r}", hint="restore it from a copy"
        ) from error
    return dict(fields)


_TYPES = {kind: kind for kind in (BIGINT, DOUBLE, BOOLEAN, STRING)} | {ANY: "string", TEXT: "string"}


def ddl(shape: Shape) -> str:
    """The shape as a type of Spark SQL."""
    if isinstance(shape, str):
        if shape not in _TYPES:
            raise ValueError(f"there is no type {shape!r}: choose from {', '.join(_TYPES)}")
        return _TYPES[shape]
    if shape[0] == "array":
        return f"array<{ddl(element(shape))}>"
    assert shape[0] == "struct", shape[0]
    columns = columns_of(struct_fields(shape)).items()
    return f"struct<{', '.join(f'{quoted(name)}: {ddl(one)}' for name, one in columns)}>"


def quoted(name: str) -> str:
    """A column's name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
