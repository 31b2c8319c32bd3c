"""Parquet files one by one, by pyarrow: for looking into them and merging them without Spark."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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


def merge(sources: Sequence[Path], target: Path) -> None:
    """All records of ``sources``, which have one schema, in one file; a part in memory at a time."""
    from pyarrow.parquet import ParquetFile, ParquetWriter

    with ParquetFile(sources[0]) as first:  # type: ignore[no-untyped-call]  # pyarrow has no types yet
        schema = first.schema_arrow
    with ParquetWriter(target, schema, compression="zstd") as writer:  # type: ignore[no-untyped-call]  # same
        for source in sources:
            with ParquetFile(source) as file:  # type: ignore[no-untyped-call]  # same
                for batch in file.iter_batches(_ROWS_AT_ONCE):
                    writer.write_batch(batch)
