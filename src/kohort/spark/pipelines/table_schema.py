"""The schema of the JSON values of a table, kept beside it: inferred once, then evolved or pinned."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kohort.model.errors import KohortError
from kohort.spark.pipelines import json_shape
from kohort.spark.pipelines.forms import Evolve
from kohort.spark.pipelines.json_evolution import evolved
from kohort.spark.pipelines.json_shape import Fields, Loader, ShapeError, columns_of, ddl, load
from kohort.spark.pipelines.table import STATE, Table


class ContractError(KohortError):
    """A contract that cannot be read, or that a table cannot follow."""


class TableSchema(NamedTuple):
    """``is_pinned``: a contract says so, and records that do not fit are bad, whatever ``--evolve`` is."""

    fields: Fields
    is_pinned: bool = False


def kept_schema(table: Table) -> TableSchema | None:
    """The schema of a table; None if there is none yet. Raises ShapeError."""
    content = table.files.read(_path(table))
    if content is None:
        return None
    return TableSchema(json_shape.decode_fields(content), bool(json.loads(content).get("pinned")))


def keep_inferred(
    table: Table, sample: Callable[[], list[bytes]], loader: Loader = load
) -> TableSchema | None:
    """The schema of a table; inferred and kept now if there is none. None if nothing fits one."""
    kept = kept_schema(table)
    if kept is not None:
        return kept
    inferred = json_shape.infer(sample(), loader)
    if inferred is None:
        return None
    with table.files.locked(table.lock):  # two instances may infer; the first one's is kept
        kept = kept_schema(table)
        if kept is None:
            kept = _keep(table, TableSchema(inferred))
    return kept


def keep_evolved(table: Table, values: Iterable[bytes], policy: Evolve, loader: Loader = load) -> TableSchema:
    """Let the schema hold these values, too, as far as the rules allow."""
    with table.files.locked(table.lock):
        kept = kept_schema(table)
        assert kept is not None, "what does not fit a schema has been held against one"
        fields = kept.fields
        for value in values:
            document, _ = loader(value)
            if isinstance(document, dict) and not kept.is_pinned:
                fields = evolved(fields, document, policy)
        return kept if fields is kept.fields else _keep(table, TableSchema(fields))


def pin(table: Table, fields: Fields) -> None:
    """Make this the schema of a table for good; raises ContractError if it has other columns already."""
    with table.files.locked(table.lock):
        kept = kept_schema(table)
        wanted = _types(fields)
        for column, kind in _types(kept.fields if kept is not None else {}).items():
            if wanted.get(column) != kind:
                raise ContractError(
                    f"the table {table.topic!r} has a column {column} {kind}, the contract "
                    f"{'has ' + wanted[column] if column in wanted else 'has none of that name'}",
                    hint="columns of a table stay: take them over (`kohort pipeline schema`), add others, "
                    "or archive to another directory with another group",
                )
        _keep(table, TableSchema(fields, is_pinned=True))


def read_contract(content: bytes) -> Mapping[str, Fields]:
    """The fields of each topic: ``{"orders": {"id": "bigint", …}, …}``; raises ContractError."""
    try:
        found = json.loads(content)
        return {
            topic: json_shape.decode_fields(json.dumps({"fields": fields}).encode())
            for topic, fields in found.items()
        }
    except (ValueError, AttributeError, ShapeError) as error:
        raise ContractError(
            f"the contract cannot be read: {error}", hint="`kohort pipeline schema` prints one to begin with"
        ) from error


def _types(fields: Fields) -> dict[str, str]:
    """Every column, those in objects by their paths, with its type. Objects may get more members."""
    found: dict[str, str] = {}
    for name, shape in columns_of(fields).items():
        if isinstance(shape, list) and shape[0] == "struct":
            inner = _types(json_shape.struct_fields(shape)).items()
            found |= {f"{name}.{path}": kind for path, kind in inner}
        else:
            found[name] = ddl(shape)
    return found


def _keep(table: Table, schema: TableSchema) -> TableSchema:
    table.files.replace(_path(table), json_shape.encode_fields(schema.fields, is_pinned=schema.is_pinned))
    return schema


def _path(table: Table) -> str:
    return f"{table.path}/{STATE}/schema.json"
