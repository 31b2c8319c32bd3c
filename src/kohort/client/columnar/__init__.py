"""Read partitions as Arrow record batches: ``fetch`` for programs with a loop, ``ColumnReader`` for others.

Importing this is cheap; numpy and pyarrow (the extra ``kohort[arrow]``) are imported with the first use.
"""

from kohort.client.columnar.options import (
    COLUMNS,
    ColumnOptions,
    MissingExtraError,
    ReadTimeoutError,
    arrow_schema,
)
from kohort.client.columnar.reader import ColumnReader, fetch

__all__ = [
    "COLUMNS",
    "ColumnOptions",
    "ColumnReader",
    "MissingExtraError",
    "ReadTimeoutError",
    "arrow_schema",
    "fetch",
]
