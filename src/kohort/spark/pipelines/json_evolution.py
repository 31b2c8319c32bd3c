"""How the shape of JSON values changes when values come that do not fit it. Pure.

The rules, in this order, for each member of a value:

1. A member that is new becomes a column.
2. A member of an object, or of the objects in an array, is looked at by the same rules.
3. A number with a fraction in a column of integers: a version of the column that is a double.
4. Any other type: a version of the column of that type (``version``), or of text (``string``).

A column never changes its type, so files that were written before stay readable beside those that come later.
A version is a column of its own, ``amount__2`` beside ``amount``. A value goes to the newest that holds it.
"""

from collections.abc import Mapping

from kohort.spark.pipelines.forms import Evolve
from kohort.spark.pipelines.json_shape import (
    BIGINT,
    DOUBLE,
    MOST_FIELDS,
    TEXT,
    Fields,
    Shape,
    columns_of,
    element,
    fits,
    settled_shape,
    struct_fields,
    versions_of,
)

_MOST_VERSIONS = 6  # the last one is text, which holds everything


def evolved(fields: Fields, document: Mapping[str, object], policy: Evolve, depth: int = 1) -> Fields:
    """Fields that hold the document as well; the same if they do already, or if no rule helps."""
    if policy is Evolve.OFF:
        return fields
    while (grown := _once(fields, document, policy, depth)) is not fields:
        fields = grown  # a new column may have an array in it that does not hold all its items yet
    return fields


def _once(fields: Fields, document: Mapping[str, object], policy: Evolve, depth: int) -> Fields:
    found = dict(fields)
    for name, value in document.items():
        if value is None:
            continue
        if name in found:
            found[name] = _with_value(name, found, value, policy, depth)
        elif _may_be_added(name, found):
            found[name] = _shape_of(value, depth)
    return fields if found == fields else found


def _may_be_added(name: str, fields: Fields) -> bool:
    """Whether a column of this name is possible: Spark's names do not differ in case alone."""
    taken = {one.lower() for one in (*fields, *columns_of(fields))}
    return bool(name) and name.lower() not in taken and len(taken) < MOST_FIELDS


def _with_value(name: str, fields: Fields, value: object, policy: Evolve, depth: int) -> Shape:
    """The shape of a member that holds ``value``, too."""
    versions = versions_of(name, fields[name])
    if any(fits(value, shape) for shape in versions.values()):
        return fields[name]
    for column, shape in versions.items():
        grown = _grown(shape, value, policy, depth)
        # What an object has besides its columns is an extra; in an array there is no room for one.
        if fits(value, grown) or (isinstance(value, dict) and grown[0] == "struct"):
            return _member(name, {**versions, column: grown})
    column = _free_name(name, fields)
    return _member(name, {**versions, column: _next_version(versions, value, policy, depth)})


def _member(name: str, versions: Mapping[str, Shape]) -> Shape:
    return versions[name] if len(versions) == 1 else ["versions", dict(versions)]


def _grown(shape: Shape, value: object, policy: Evolve, depth: int) -> Shape:
    """An object with more members, also in arrays; every other shape as it is."""
    if isinstance(shape, str):
        return shape
    if shape[0] == "struct" and isinstance(value, dict):
        return ["struct", dict(evolved(struct_fields(shape), value, policy, depth + 1))]
    if shape[0] == "array" and isinstance(value, list):
        inner = element(shape)
        for item in value:
            inner = _grown(inner, item, policy, depth + 1)
        return ["array", inner]
    return shape


def _next_version(versions: Mapping[str, Shape], value: object, policy: Evolve, depth: int) -> Shape:
    if len(versions) + 1 >= _MOST_VERSIONS:
        return TEXT
    if isinstance(value, float) and BIGINT in versions.values():
        return DOUBLE
    return TEXT if policy is Evolve.STRING else _shape_of(value, depth)


def _shape_of(value: object, depth: int) -> Shape:
    """The shape of a value; text for an array of objects with members that cannot be columns."""
    shape = settled_shape(value, depth)
    return shape if isinstance(value, dict) or fits(value, shape) else TEXT


def _free_name(name: str, fields: Fields) -> str:
    taken = {one.lower() for one in (*fields, *columns_of(fields))}
    return next(
        column for number in range(2, len(taken) + 3) if (column := f"{name}__{number}").lower() not in taken
    )
