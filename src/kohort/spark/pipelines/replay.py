"""Bad records that the schema of their table can hold by now: out of the side table and into the table.

Without Spark. One replacement of the ledger moves the records of all files, so each is in one of the two
tables before and after, whatever happens in between. Mergers and other replays wait: only one may take files
away.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from kohort.spark.pipelines.compaction import LOCK
from kohort.spark.pipelines.files import LocalFiles
from kohort.spark.pipelines.forms import Evolve, Values
from kohort.spark.pipelines.json_shape import Fields, Loader
from kohort.spark.pipelines.ledger import Ledger, LedgerPosition, PendingMove
from kohort.spark.pipelines.parquet import NewFile, batches_of
from kohort.spark.pipelines.registry import loader_of
from kohort.spark.pipelines.table import PARQUET, STATE, Table, tables
from kohort.spark.pipelines.table_schema import keep_evolved, kept_schema
from kohort.spark.pipelines.values import RECORD, as_landed, parse_batch, with_value

if TYPE_CHECKING:
    from pyarrow import lib as pa


class Replayed(NamedTuple):
    """What was done to one table."""

    topic: str
    landed: int
    still_bad: int


def replay_bad(root: Path, policy: Evolve, registry: str | None = None) -> list[Replayed]:
    """Land what the schemas hold, after they have evolved as ``policy`` says.

    For tables with JSON values or, with a registry, with values that it has schemas of.
    """
    kind = Values.JSON if registry is None else Values.REGISTRY
    loader = loader_of(registry)
    files = LocalFiles(root)
    with files.locked(LOCK):
        found = [(table, table.recover()) for table in tables(root)]
        return [
            _replay(files, table, ledger, policy, loader) for table, ledger in found if ledger.values == kind
        ]


def _replay(files: LocalFiles, table: Table, ledger: Ledger, policy: Evolve, loader: Loader) -> Replayed:
    bad = sum(one.bad for one in ledger.landed.values())
    paths = [
        f"{date}/{entry.name}"
        for date in table.dates()
        if date.startswith(f"{table.bad_path}/")
        for entry in table.parquet_files(date)
    ]
    schema = kept_schema(table)
    if schema is None or not paths:
        return Replayed(table.topic, 0, bad)
    if policy is not Evolve.OFF and not schema.is_pinned:
        schema = keep_evolved(table, _examples(files, paths, schema.fields, policy, loader), policy, loader)
    aside = f"{STATE}/_staging/_replay/{table.topic}"
    files.remove_tree(aside)
    sorting = _Sorting(files, table, aside, partial(parse_batch, fields=schema.fields, loader=loader))
    for path in paths:
        sorting.sort(path)
    if sorting.removes:
        table.replay(_by_place(ledger, sorting.landed), sorting.moves, sorting.removes)
    files.remove_tree(aside)
    count = sum(sorting.landed.values())
    return Replayed(table.topic, count, bad - count)


def _examples(
    files: LocalFiles, paths: list[str], fields: Fields, policy: Evolve, loader: Loader
) -> Iterator[bytes]:
    """The values that need other columns, one for each of these."""
    for path in paths:
        for batch in batches_of(files.at(path)):
            for value in batch.column("value"):
                before, fields = fields, with_value(fields, value.as_py(), policy, loader)
                if fields is not before:
                    yield value.as_py()


class _Sorting:
    """Writes the records of bad files aside again: as landed, or as bad as before."""

    def __init__(
        self, files: LocalFiles, table: Table, aside: str, parse: "Callable[[pa.RecordBatch], pa.RecordBatch]"
    ) -> None:
        self._files, self._table, self._aside, self._parse = files, table, aside, parse
        self._name = f"replay-{uuid4().hex[:8]}"
        self.landed: Counter[tuple[int, int]] = Counter()  # by partition and offset
        self.moves: list[PendingMove] = []
        self.removes: list[str] = []

    def sort(self, path: str) -> None:
        """One file. One without a record that fits stays as it is."""
        number = len(self.removes)
        date = path.split("/")[1]
        good = NewFile(self._files.at(f"{self._aside}/good-{number:05}{PARQUET}"))
        bad = NewFile(self._files.at(f"{self._aside}/bad-{number:05}{PARQUET}"))
        with good, bad:
            for batch in batches_of(self._files.at(path)):
                judged = self._parse(batch.select(list(RECORD)))
                reasons = judged.column("reason")
                fitting = judged.filter(reasons.is_null())
                good.write(as_landed(fitting))
                bad.write(judged.filter(reasons.is_valid()).select([*RECORD, "reason"]))
                places = zip(fitting.column("partition"), fitting.column("offset"), strict=True)
                self.landed.update((partition.as_py(), offset.as_py()) for partition, offset in places)
        if good.rows:
            self.removes.append(path)
            for file, directory in ((good, self._table.path), (bad, self._table.bad_path)):
                if file.rows:
                    name = f"{self._name}-{number:05}{PARQUET}"
                    self.moves.append(
                        PendingMove(f"{self._aside}/{file.path.name}", f"{directory}/{date}/{name}")
                    )


def _by_place(ledger: Ledger, landed: Mapping[tuple[int, int], int]) -> Counter[LedgerPosition]:
    """How many records of each partition of each life of the topic. Bad records do not tell their life:
    where an offset has been in several, they are counted for one that has bad records."""
    found: Counter[LedgerPosition] = Counter()
    for (partition, offset), count in landed.items():
        for _ in range(count):
            places = [
                place
                for place, one in ledger.landed.items()
                if place.partition == partition
                and any(span.first <= offset < span.end for span in one.spans)
                and one.bad > found[place]
            ]
            if places:
                found[min(places)] += 1
    return found
