"""What the commands of ``kohort pipeline`` share."""

from pathlib import Path
from typing import Annotated

import typer

from kohort.spark.pipelines.forms import Evolve

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
Directory = Annotated[
    Path, typer.Option("--to", metavar="DIR", help="Directory of the archive, one table for each topic.")
]
