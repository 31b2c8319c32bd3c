"""``kohort certs``: certificates for trying out TLS."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from kohort.cli.screen import say
from kohort.cli.session import refuse
from kohort.security.certs import DEFAULT_DAYS, LOCAL_HOSTS, CertificateToolError, DevAuthority

app = typer.Typer(no_args_is_help=True, help="Certificates for trying out TLS.")


@app.callback()
def about() -> None:
    """Certificates for trying out TLS."""


@app.command()
def dev(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write the files.")],
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host", metavar="NAME", help="Another host name or address of the broker; repeatable."
        ),
    ] = None,
    days: Annotated[
        int, typer.Option("--days", metavar="N", min=1, max=3650, help="How long they are valid.")
    ] = DEFAULT_DAYS,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
) -> None:
    """Make a small authority and certificates for localhost.

    Writes ca.pem (what to trust), broker.pem and client.pem (key and chain in one file). The authority's key
    is not kept: to make another certificate, make all of them again.
    """
    hosts = tuple(dict.fromkeys((*LOCAL_HOSTS, *(host or ()))))
    try:
        authority = DevAuthority(datetime.now(UTC), days=days)
        files = {
            "ca.pem": authority.certificate,
            "broker.pem": authority.issue("kohort-broker", hosts),
            "client.pem": authority.issue("kohort-client", hosts),
        }
    except CertificateToolError as error:
        raise refuse(str(error.args[0]), error.hint) from None
    there = [name for name in files if (out / name).exists()]
    if there and not force:
        raise refuse(f"{out / there[0]} exists", "choose another directory, or pass --force")
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in files.items():
            _write(out / name, text)
    except OSError as error:
        raise refuse(f"--out {out}: cannot write: {error.strerror}") from None
    for name in files:
        say(f"wrote {out / name}")


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read, also if it was there with another mode."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
