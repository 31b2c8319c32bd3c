"""The log of a Delta table, over Parquet files that Kohort lands.

It decides nothing: it follows the ledger of an archive or the manifest of a lake. Every change is one commit,
so that a reader of Delta sees the files of one moment. Writing it takes no jars. The protocol names a writer
feature that only Kohort has: others read the table, and refuse to write to it.

A *unit* is a directory right below the table, such as ``date=2026-11-16``.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote
from uuid import uuid4

import kohort
from kohort.spark.pipelines.files import FileTree, LocalFiles

if TYPE_CHECKING:
    from pyarrow import lib as pa

LOG: Final = "_delta_log"
FEATURE: Final = "kohortLedger"
CHECKPOINT_EVERY: Final = 20
KEPT_VERSIONS: Final = 100

_ATTEMPTS = 10
_LAST = f"{LOG}/_last_checkpoint"
_DATE = "date="
_NO_DATE = "__HIVE_DEFAULT_PARTITION__"
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [FEATURE]}

Action = dict[str, Any]


class Footer(NamedTuple):
    """What the end of a Parquet file says."""

    schema: "pa.Schema"
    rows: int


@dataclass(slots=True)
class Snapshot:
    """The table as of a version; -1: there is no log."""

    version: int = -1
    checkpoint: int = -1
    meta: Action | None = None
    files: dict[str, Action] = field(default_factory=dict)  # by path below the table

    def apply(self, version: int, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case {"add": dict(added)}:
                    self.files[unquote(added["path"])] = added
                case {"remove": {"path": str(path)}}:
                    self.files.pop(unquote(path), None)
                case {"metaData": dict(meta)}:
                    self.meta = meta
        self.version = version

    def units(self) -> set[str]:
        return {path.partition("/")[0] for path in self.files}

    def columns(self) -> list[Action]:
        return [] if self.meta is None else json.loads(self.meta["schemaString"])["fields"]


class DeltaLog:
    """The log of one table. What changes it holds the lock of what it follows."""

    def __init__(
        self, files: FileTree, table: str, look: "Callable[[FileTree, str], Footer] | None" = None
    ) -> None:
        self._files, self._table = files, table
        self._look = read_footer if look is None else look

    def exists(self) -> bool:
        return bool(self._files.entries(self._at(LOG)))

    def units(self) -> set[str]:
        """The directories that have files in the table now."""
        return self.snapshot().units()

    def follow(self, changed: Iterable[str], gone: Iterable[str] = (), *, is_data: bool = True) -> None:
        """Make the log say what is in the ``changed`` units, and nothing of those that are ``gone``.

        ``is_data``: rows come or go; else files were merged. Nothing is written if nothing is new.
        """
        changed, gone = set(changed), set(gone)
        for _ in range(_ATTEMPTS):
            known = self.snapshot()
            actions = list(self._difference(known, changed, gone, is_data))
            if not actions:
                return
            operation = "WRITE" if is_data else "OPTIMIZE"
            info = {"operation": operation, "operationParameters": {}, "timestamp": _now()}
            actions.insert(0, {"commitInfo": info | {"engineInfo": f"Kohort/{kohort.__version__}"}})
            text = "".join(f"{json.dumps(action)}\n" for action in actions).encode()
            try:
                self._files.create(self._at(_name(known.version + 1)), text)
            except FileExistsError:
                continue  # a writer that does not know what the protocol asks for
            known.apply(known.version + 1, actions)
            if known.version - max(known.checkpoint, 0) >= CHECKPOINT_EVERY:
                self._keep_checkpoint(known)
            return
        raise FileExistsError(f"another program writes to {self._table}/{LOG}")

    def _difference(
        self, known: Snapshot, changed: set[str], gone: set[str], is_data: bool
    ) -> Iterator[Action]:
        there = {path: size for unit in sorted(changed) for path, size in self._parquet(unit)}
        added = {path: self._look(self._files, self._at(path)) for path in there if path not in known.files}
        if known.version < 0 and not added:
            return
        fields = merged_fields(known.columns(), (one.schema for one in added.values()))
        if known.meta is None:
            yield {"protocol": _PROTOCOL}
        if known.meta is None or fields != known.columns():
            yield {"metaData": self._meta(known, fields)}
        for path, footer in added.items():
            yield {
                "add": {
                    "path": quote(path, safe="/=+"),
                    "partitionValues": {"date": _date_of(path)},
                    "size": there[path],
                    "modificationTime": _now(),
                    "dataChange": is_data,
                    "stats": json.dumps({"numRecords": footer.rows}),
                }
            }
        for path, action in known.files.items():
            unit = path.partition("/")[0]
            if unit in gone or (unit in changed and path not in there):
                yield {"remove": {"path": action["path"], "deletionTimestamp": _now(), "dataChange": is_data}}

    def _parquet(self, unit: str) -> Iterator[tuple[str, int]]:
        """The files of a unit that readers see, by path below the table."""
        for entry in self._files.entries(self._at(unit)):
            path = f"{unit}/{entry.name}"
            if entry.name[0] in "._":
                continue
            if entry.is_directory:
                yield from self._parquet(path)
            elif entry.name.endswith(".parquet"):
                yield path, entry.size

    def _meta(self, known: Snapshot, fields: list[Action]) -> Action:
        new: Action = {"id": str(uuid4()), "createdTime": _now(), "configuration": {}}
        return (known.meta or new) | {
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": ["date"],
        }

    # --- versions -----------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The table now: by the last checkpoint, if there is one, and the versions behind it."""
        found = Snapshot()
        last = self._files.read(self._at(_LAST))
        if last is not None:
            found.version = found.checkpoint = json.loads(last)["version"]
            self._read_checkpoint(found)
        while (text := self._files.read(self._at(_name(found.version + 1)))) is not None:
            found.apply(found.version + 1, map(json.loads, text.splitlines()))
        return found

    def _read_checkpoint(self, into: Snapshot) -> None:
        from pyarrow import lib as pa
        from pyarrow.parquet import ParquetFile

        content = self._files.read(self._at(_checkpoint(into.version)))
        with ParquetFile(pa.BufferReader(content)) as file:  # type: ignore[no-untyped-call]  # pyarrow has no types yet
            rows = file.read(columns=["add", "metaData"]).to_pylist(maps_as_pydicts="strict")
        into.apply(into.version, ({name: one for name, one in row.items() if one} for row in rows))

    def _keep_checkpoint(self, snapshot: Snapshot) -> None:
        """So that a reader need not read all versions; old ones go."""
        from pyarrow import lib as pa
        from pyarrow.parquet import write_table

        rows: list[Action] = [{"protocol": _PROTOCOL}, {"metaData": snapshot.meta}]
        rows += [{"add": action} for action in snapshot.files.values()]
        content = pa.BufferOutputStream()
        write_table(pa.Table.from_pylist(rows, _checkpoint_schema()), content)  # type: ignore[no-untyped-call]  # pyarrow has no types yet
        self._files.replace(self._at(_checkpoint(snapshot.version)), content.getvalue().to_pybytes())
        last = {"version": snapshot.version, "size": len(rows)}
        self._files.replace(self._at(_LAST), json.dumps(last).encode())
        for entry in self._files.entries(self._at(LOG)):
            number = entry.name[:20]
            if number.isdigit() and int(number) < snapshot.version - KEPT_VERSIONS:
                self._files.remove(self._at(f"{LOG}/{entry.name}"))

    def _at(self, path: str) -> str:
        return f"{self._table}/{path}"


def _name(version: int) -> str:
    return f"{LOG}/{version:020}.json"


def _checkpoint(version: int) -> str:
    return f"{LOG}/{version:020}.checkpoint.parquet"


def _now() -> int:
    return round(time.time() * 1_000)


def _date_of(path: str) -> str | None:
    found = next(part for part in path.split("/") if part.startswith(_DATE)).removeprefix(_DATE)
    return None if found == _NO_DATE else found


def read_footer(files: FileTree, path: str) -> Footer:
    """The columns and the number of rows of a file on a disk."""
    from pyarrow.parquet import ParquetFile

    assert isinstance(files, LocalFiles), "other trees have no Parquet files"
    with ParquetFile(files.at(path)) as file:  # type: ignore[no-untyped-call]  # pyarrow has no types yet
        return Footer(file.schema_arrow, file.metadata.num_rows)


# --- types ------------------------------------------------------------------------------------------


def merged_fields(known: list[Action], schemas: "Iterable[pa.Schema]") -> list[Action]:
    """The columns of all, in the order in which they came; the partition's is the last of the first files."""
    fields = known
    for schema in schemas:
        found = [_field(one.name, delta_type(one.type)) for one in schema]
        fields = _united(fields or [*found, _field("date", "date")], found)
    return fields


def _united(known: list[Action], found: list[Action]) -> list[Action]:
    """Columns and members of objects may come; those that are there keep their types."""
    newer = {one["name"]: one for one in found}
    kept = [
        one | {"type": _united_type(one["type"], newer[one["name"]]["type"])} if one["name"] in newer else one
        for one in known
    ]
    names = {one["name"] for one in known}
    return kept + [one for one in found if one["name"] not in names]


def _united_type(known: Any, found: Any) -> Any:  # noqa: ANN401  # a name, or an object
    match known, found:
        case {"type": "struct", "fields": list(one)}, {"type": "struct", "fields": list(other)}:
            return known | {"fields": _united(one, other)}
        case {"type": "array", "elementType": one}, {"type": "array", "elementType": other}:
            return known | {"elementType": _united_type(one, other)}
    return known


def _field(name: str, kind: Any) -> Action:  # noqa: ANN401  # as above
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


_SIMPLE: Final[Mapping[str, str]] = {
    "bool": "boolean", "int32": "integer", "int64": "long", "double": "double", "float": "float",
    "string": "string", "large_string": "string", "binary": "binary", "large_binary": "binary",
    "date32[day]": "date",
}  # fmt: skip


def delta_type(kind: "pa.DataType") -> Any:  # noqa: ANN401  # a name, or an object
    """The type of a column as Delta's schemas have it."""
    from pyarrow import lib as pa

    if isinstance(kind, pa.TimestampType):
        return "timestamp"  # Spark's old form has no time zone in the file, and means UTC, too
    if isinstance(kind, pa.MapType):
        ends = {"keyType": delta_type(kind.key_type), "valueType": delta_type(kind.item_type)}
        return {"type": "map", **ends, "valueContainsNull": True}
    if isinstance(kind, pa.ListType):
        return {"type": "array", "elementType": delta_type(kind.value_type), "containsNull": True}
    if isinstance(kind, pa.StructType):
        return {"type": "struct", "fields": [_field(one.name, delta_type(one.type)) for one in kind]}
    return _SIMPLE[str(kind)]


def _checkpoint_schema() -> "pa.Schema":
    from pyarrow import lib as pa

    text, number, truth = pa.string(), pa.int64(), pa.bool_()
    texts, pairs = pa.list_(text), pa.map_(text, text)
    add = {
        "path": text, "partitionValues": pairs, "size": number, "modificationTime": number,
        "dataChange": truth, "stats": text,
    }  # fmt: skip
    meta = {
        "id": text, "format": pa.struct({"provider": text, "options": pairs}), "schemaString": text,
        "partitionColumns": texts, "configuration": pairs, "createdTime": number,
    }  # fmt: skip
    protocol = {"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32(), "writerFeatures": texts}
    remove = {"path": text, "deletionTimestamp": number, "dataChange": truth}
    txn = {"appId": text, "version": number, "lastUpdated": number}
    kinds = {"txn": txn, "add": add, "remove": remove, "metaData": meta, "protocol": protocol}
    return pa.schema({name: pa.struct(columns) for name, columns in kinds.items()})
