"""Parquet files one by one, by pyarrow: for looking into them and merging them without Spark."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pyarrow import lib as pa

_ROWS_AT_ONCE = 50_000


def read_columns(path: Path, columns: Sequence[str]) -> "pa.Table":
    """Columns of one file; its directories, which look like columns too, are left out."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:  # type: ignore[no-untyped-call]  # pyarrow has no types yet
        return file.read(columns=list(columns))


def count_rows(path: Path) -> int:
    """How many records are in a file, from its footer."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:  # type: ignore[no-untyped-call]  # pyarrow has no types yet
        return int(file.metadata.num_rows)


def batches_of(path: Path) -> "Iterator[pa.RecordBatch]":
    """All records of a file, a part in memory at a time."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:  # type: ignore[no-untyped-call]  # pyarrow has no types yet
        yield from file.iter_batches(_ROWS_AT_ONCE)


class NewFile:
    """A file that is there once something was written to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self._writer: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, batch: "pa.RecordBatch") -> None:
        from pyarrow.parquet import ParquetWriter

        if not batch.num_rows:
            return
        if self._writer is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = ParquetWriter(self.path, batch.schema, compression="zstd")  # type: ignore[no-untyped-call]  # same
        self._writer.write_batch(batch)
        self.rows += batch.num_rows


def merge(sources: Sequence[Path], target: Path) -> None:
    """All records of ``sources`` in one file with the columns of all; a part in memory at a time."""
    from pyarrow import lib as pa
    from pyarrow.parquet import ParquetFile, ParquetWriter, read_schema

    schema = pa.unify_schemas([read_schema(source) for source in sources])  # type: ignore[no-untyped-call]  # pyarrow has no types yet
    with ParquetWriter(target, schema, compression="zstd") as writer:  # type: ignore[no-untyped-call]  # same
        for source in sources:
            with ParquetFile(source) as file:  # type: ignore[no-untyped-call]  # same
                for batch in file.iter_batches(_ROWS_AT_ONCE):
                    writer.write_table(pa.Table.from_batches([batch]).cast(schema))
