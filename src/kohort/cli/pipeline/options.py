"""What the commands of ``kohort pipeline`` share."""

from pathlib import Path
from typing import Annotated

import typer

from kohort.cli.session import refuse
from kohort.spark.pipelines.forms import Evolve, TableFormat

UNAVAILABLE = 3  # Spark or Java is missing: trying again would not help

WHAT, HOW, WHERE = "What is archived", "How", "Where it runs"

EvolveOption = Annotated[
    Evolve,
    typer.Option(
        help="With JSON: when members are new or of another type, keep the columns as they are (off), or add "
        "columns: of the new type, such as amount__2 (version), or of text where types conflict (string).",
        rich_help_panel=WHAT,
    ),
]
RegistryOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL|DIR",
        help="Where schemas are: a schema registry (http://user:password@host:8081), or a directory with "
        "7.avsc, 7.json or 7.desc for schema 7.",
        rich_help_panel=WHAT,
    ),
]
FormatOption = Annotated[
    TableFormat,
    typer.Option(
        "--format",
        help="delta: every table is one of Delta Lake, too; no jars are needed to write "
        "it. What is there already is taken in, and the tables stay so.",
    ),
]


def is_delta(table_format: TableFormat) -> bool:
    """Whether tables are to have a log of Delta; Iceberg is refused."""
    if table_format is TableFormat.ICEBERG:
        raise refuse(
            "--format iceberg: Kohort writes no metadata of Iceberg",
            "use delta, or take the Parquet files into a table of Iceberg with its procedure add_files",
        )
    return table_format is TableFormat.DELTA


def directory(text: str) -> Path:
    """For options that name a directory of tables."""
    from kohort.spark.pipelines.files import UnfitDirectoryError, local_directory

    try:
        return local_directory(text)
    except UnfitDirectoryError as error:
        raise refuse(error.args[0], error.hint) from error


Directory = Annotated[
    Path,
    typer.Option(
        "--to", metavar="DIR", parser=directory, help="Directory of the archive, one table for each topic."
    ),
]
