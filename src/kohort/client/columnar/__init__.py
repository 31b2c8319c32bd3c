"""Read partitions as Arrow record batches: ``fetch`` for programs with a loop, ``ColumnReader`` for others.

Importing this is cheap; numpy and pyarrow (the extra ``kohort[arrow]``) are imported with the first use.
"""

from kohort.client.columnar.errors import MissingExtraError, ReadTimeoutError
from kohort.client.columnar.options import COLUMNS, ColumnOptions, arrow_schema
from kohort.client.columnar.reader import ColumnReader
from kohort.client.columnar.source import fetch

__all__ = [
    "COLUMNS",
    "ColumnOptions",
    "ColumnReader",
    "MissingExtraError",
    "ReadTimeoutError",
    "arrow_schema",
    "fetch",
]
