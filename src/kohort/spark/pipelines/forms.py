"""What values are taken for, what becomes of columns they do not fit, and the format of tables.

Apart from ``values``, so that the command line can offer them at no cost.
"""

from enum import StrEnum


class Values(StrEnum):
    """What the values of the topics are."""

    BINARY = "binary"
    UTF8 = "utf8"
    JSON = "json"
    REGISTRY = "registry"


class Evolve(StrEnum):
    """What becomes of the columns when JSON comes that does not fit them; see ``json_evolution``."""

    OFF = "off"
    VERSION = "version"
    STRING = "string"


class TableFormat(StrEnum):
    """In which format others may read the tables. Files are Parquet in each."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"
