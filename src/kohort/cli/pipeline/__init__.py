"""``kohort pipeline``: standing jobs on Spark, and what they have made."""

import typer

from kohort.cli.pipeline import archive, tables

app = typer.Typer(
    no_args_is_help=True, help="Keep topics as tables: a standing job on Spark, and its tables."
)
app.command()(archive.archive)
app.command()(tables.status)
app.command("compact")(tables.compact_files)
app.command()(tables.schema)
app.command("replay-bad")(tables.replay_bad)
app.command()(tables.sql)
