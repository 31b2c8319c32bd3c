"""``kohort spark``: what Spark needs around it, and jobs on it. Spark itself is loaded by Spark alone."""

import os
import shlex
from typing import Annotated

import typer

from kohort.cli.running import guarded
from kohort.cli.screen import say, show_json
from kohort.cli.session import AsJson, refuse

app = typer.Typer(no_args_is_help=True, help="Run Spark jobs: Java, Python, memory and code set right.")

DEFAULT_MASTER = "local[*]"

Master = Annotated[
    str,
    typer.Option(
        "--master",
        metavar="URL",
        help="Where the work is done: local[N], local-cluster[N,CORES,MB], spark://HOST:PORT, …",
    ),
]


@app.command()
def env(master: Master = DEFAULT_MASTER, as_json: AsJson = False) -> None:
    """Print what `pyspark` and `spark-submit` need: eval "$(kohort spark env)"."""

    def show() -> int:
        from kohort.spark.environment import variables

        wanted = variables(master, os.environ)
        if as_json:
            show_json(wanted)
            return 0
        if "JAVA_HOME" not in wanted and "JAVA_HOME" in os.environ:
            say("unset JAVA_HOME")
        for name, value in wanted.items():
            say(f"export {name}={shlex.quote(value)}")
        return 0

    raise typer.Exit(guarded(show))


@app.command(context_settings={"allow_interspersed_args": False})
def submit(
    job: Annotated[str, typer.Argument(metavar="JOB.py", help="The program.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGUMENT", help="Handed to the program.")
    ] = None,
    master: Master = DEFAULT_MASTER,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Heap of the driver and of each executor, such as 4g; locally 2g if not given.",
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be repeated."),
    ] = None,
    packages: Annotated[
        list[str] | None,
        typer.Option("--packages", metavar="GROUP:NAME:VERSION", help="From Maven; may be repeated."),
    ] = None,
    py_files: Annotated[
        list[str] | None,
        typer.Option("--py-files", metavar="FILE", help="Your code for the executors; may be repeated."),
    ] = None,
) -> None:
    """Run a Spark job with all it needs; its exit code is this command's. Options come before JOB.py."""
    if not os.path.isfile(job):
        raise refuse(f"there is no file {job}", "give the path of a Python program")
    settings = dict(_setting(text) for text in conf or ())

    def start() -> int:
        from kohort.spark.submission import Submission, command, environment

        submission = Submission(
            job=job,
            arguments=tuple(arguments or ()),
            master=master,
            memory=memory,
            conf=settings,
            packages=tuple(packages or ()),
            py_files=tuple(py_files or ()),
        )
        line = command(submission)
        # Spark takes this process over: signals and the exit code need no process in between.
        os.execve(line[0], line, environment(submission, os.environ))

    raise typer.Exit(guarded(start))


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise refuse(f"--conf {text}: not a setting", "write it as NAME=VALUE")
    return name, value
