"""``kohort data``: look at a data directory while no broker runs on it, and mend what is damaged."""

import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Annotated

import typer

from kohort.cli.running import FAILED, OK, USAGE, report
from kohort.cli.screen import note, say, show_bytes, show_json
from kohort.cli.session import AsJson
from kohort.log.files.catalog_state import CATALOG
from kohort.log.files.check import Finding, Progress, Report, check
from kohort.log.files.checkpoints import LOCK, META_PROPERTIES
from kohort.log.files.disk import DirectoryInUseError, RealDisk
from kohort.log.files.quarantine import QUARANTINE
from kohort.log.files.repair import repair
from kohort.log.files.sweep import is_partition_directory
from kohort.log.log import Repair
from kohort.model.errors import KohortError, reason_of

app = typer.Typer(no_args_is_help=True, help="Check and repair a data directory.")

_WIDTH = 80

Directory = Annotated[str, typer.Argument(metavar="DIR", help="The data directory, as given to --data.")]


class _NoDataError(KohortError):
    """A path that is not the data directory of a broker."""


@app.command("check")
def check_command(directory: Directory, as_json: AsJson = False) -> None:
    """Read everything in a data directory and say what is damaged. Nothing is changed.

    The exit code is 0 if nothing is damaged, 1 if something is, 2 if the directory cannot be read.
    """
    found = _checked(directory)
    if as_json:
        show_json(_document(found))
    else:
        _show_report(found)
        if found.is_damaged:
            say(f"Nothing was changed. To see and do what can be done: kohort data repair {directory}")
    raise typer.Exit(FAILED if found.is_damaged else OK)


@app.command("repair")
def repair_command(
    directory: Directory,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it; without, only show it.")] = False,
    offsets_partitions: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="How many partitions __consumer_offsets has; asked for if a lost catalog leaves it open.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a damaged data directory one that a broker starts on. Without --yes, show what would be done.

    Intact records stay at their offsets. Indexes, checkpoints and the catalog are made again. What cannot be
    read goes to the directory `quarantine`, with a note; nothing is deleted.
    """
    before = _checked(directory)
    if not yes:
        if as_json:
            show_json(_document(before))
        else:
            _show_report(before, remedies=True)
            say(f"Nothing was changed. To do it: kohort data repair {directory} --yes")
        raise typer.Exit(FAILED if before.is_damaged else OK)
    try:
        done = repair(RealDisk(), directory.rstrip("/"), _progress(), offsets_partitions=offsets_partitions)
    except KohortError as error:
        raise typer.Exit(report(error, USAGE)) from error
    _end_progress()
    after = _checked(directory)
    if as_json:
        show_json({"done": [each._asdict() for each in done], "after": _document(after)})
    else:
        _show_done(directory.rstrip("/"), done)
        if after.is_damaged:
            _show_report(after)
    raise typer.Exit(FAILED if after.is_damaged else OK)


def _checked(directory: str) -> Report:
    path = directory.rstrip("/")
    disk = RealDisk()
    try:
        entries = disk.entries(path)
        names = {entry.name for entry in entries}
        if not names & {CATALOG, META_PROPERTIES} and not any(map(is_partition_directory, entries)):
            raise _NoDataError(
                f"{directory!r} is not the data directory of a broker", hint="pass what --data was set to"
            )
        # Without the file no broker has been here: nothing is to be made by a command that changes nothing.
        lock = disk.lock(f"{path}/{LOCK}") if LOCK in names else None
        try:
            found = check(disk, path, _progress())
        finally:
            if lock is not None:
                lock.release()
    except DirectoryInUseError as error:
        hint = "stop that broker first; while it runs, it reads all its data itself and logs what is damaged"
        raise typer.Exit(report(KohortError(str(error.args[0]), hint=hint), USAGE)) from error
    except KohortError as error:
        raise typer.Exit(report(error, USAGE)) from error
    except OSError as error:
        raise typer.Exit(
            report(
                KohortError(f"cannot read {str(error.filename or directory)!r}: {reason_of(error)}"), USAGE
            )
        ) from error
    _end_progress()
    return found


def _progress() -> Progress:
    if not sys.stderr.isatty():
        return lambda *_: None

    def show(name: str, number: int, total: int) -> None:
        text = f"reading {number} of {total}: {name}"[: _WIDTH - 1]
        print(f"\r{text:<{_WIDTH - 1}}", end="", file=sys.stderr, flush=True)

    return show


def _end_progress() -> None:
    if sys.stderr.isatty():
        print("\r" + " " * (_WIDTH - 1) + "\r", end="", file=sys.stderr, flush=True)


# -- what is printed -------------------------------------------------------------------------------------


def _show_report(found: Report, *, remedies: bool = False) -> None:
    say(
        f"Read {_count(found.partitions, 'partition')}, {_count(found.segments, 'segment')}, "
        f"{show_bytes(found.bytes_read)}."
    )
    damages = [finding for finding in found.findings if finding.is_damage]
    harmless = [finding for finding in found.findings if not finding.is_damage]
    for title, findings in (("Damaged", damages), ("Left by a crash, repaired by the next start", harmless)):
        if findings:
            say(f"\n{title}:")
            _show_findings(findings, remedies=remedies)
    say("\nNothing is damaged." if not damages else f"\n{_count(len(damages), 'damage')} found.")


def _show_findings(findings: Sequence[Finding], *, remedies: bool) -> None:
    last = None
    for finding in findings:
        if finding.name != last:
            say(f"  {finding.name}")
        last = finding.name
        _wrapped("    ", finding.what)
        if remedies:
            _wrapped("    -> ", finding.remedy)


def _show_done(directory: str, done: Sequence[Repair]) -> None:
    if not done:
        say("Nothing was damaged. Indexes and checkpoints were made again.")
        return
    last = None
    for each in done:
        name = os.path.relpath(each.directory, directory)
        if name != last:
            say(name)
        last = name
        _wrapped("  ", each.what)
    if any(QUARANTINE in each.what for each in done):
        note(f"kohort: what cannot be read is in {directory}/{QUARANTINE}; delete it when you do not need it")
    say("\nRepaired: a broker starts on it.")


def _wrapped(indent: str, text: str) -> None:
    rest = " " * len(indent)
    for line in textwrap.wrap(
        text, _WIDTH - 1, initial_indent=indent, subsequent_indent=rest, break_long_words=False
    ):
        say(line)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _document(found: Report) -> dict[str, object]:
    return {
        "damaged": found.is_damaged,
        "partitions": found.partitions,
        "segments": found.segments,
        "bytes": found.bytes_read,
        "findings": [finding._asdict() for finding in found.findings],
    }
