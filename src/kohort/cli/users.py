"""``kohort users``: who can log in with SCRAM (and, at a Kohort broker, with PLAIN)."""

import secrets
from collections.abc import Sequence
from typing import Annotated

import typer

from kohort.cli.running import OK
from kohort.cli.screen import Column, TextTable, note, say, show_json, show_table
from kohort.cli.session import AsJson, ClusterOptions, on_cluster, refuse, talk
from kohort.client.admin import AsyncAdmin
from kohort.client.cluster import Role
from kohort.client.errors import BrokerError
from kohort.model.errors import KohortError
from kohort.security.scram import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS_OF_A_CREDENTIAL,
    ScramMechanism,
    salted_password,
)
from kohort.security.secret import Secret
from kohort.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kohort.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

app = typer.Typer(no_args_is_help=True, help="Users who log in with a password.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.", show_default=False)]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option("--mechanism", metavar="NAME", help="SCRAM-SHA-256 or SCRAM-SHA-512; both if not given."),
]


@app.command()
@on_cluster
def add(
    where: ClusterOptions,
    name: Name,
    password: Annotated[
        str, typer.Option("--password", metavar="@FILE", help="A file that has the password, or env:NAME.")
    ],
    mechanism: Mechanisms = None,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations",
            metavar="N",
            min=LEAST_ITERATIONS,
            max=MOST_ITERATIONS_OF_A_CREDENTIAL,
            help="Iterations of the hash: more make guessing the password slower.",
        ),
    ] = LEAST_ITERATIONS,
) -> None:
    """Add a user, or give a user a new password.

    The password does not leave this machine: the broker gets keys that are made of it.
    """
    kinds = _mechanisms(mechanism)
    secret = _reveal(password)

    async def command(admin: AsyncAdmin) -> int:
        for kind in kinds:  # one request each: Kafka refuses a user who is named twice in one
            salt = secrets.token_bytes(16)
            change = ScramCredentialUpsertion(
                name=name,
                mechanism=kind.wire_number,
                iterations=iterations,
                salt=salt,
                salted_password=salted_password(kind, secret, salt, iterations),
            )
            await _alter(admin, AlterUserScramCredentialsRequest(deletions=[], upsertions=[change]), "add")
        say(f"user {name} can log in with {' and '.join(kind.value for kind in kinds)}")
        return OK

    talk(where, command)


@app.command()
@on_cluster
def remove(
    where: ClusterOptions,
    name: Name,
    mechanism: Mechanisms = None,
) -> None:
    """Remove a user. Connections that are open stay open until they have to log in again."""
    kinds = _mechanisms(mechanism)

    async def command(admin: AsyncAdmin) -> int:
        known = {one.user: one for one in await _users(admin)}
        if name not in known:
            hint = "`kohort users list` shows those who can log in with a password"
            raise KohortError(f"cannot remove the user {name}: there is no user of this name", hint=hint)
        there = {info.mechanism for info in known[name].credential_infos}
        for kind in kinds:
            if kind.wire_number in there or mechanism:
                change = ScramCredentialDeletion(name=name, mechanism=kind.wire_number)
                request = AlterUserScramCredentialsRequest(deletions=[change], upsertions=[])
                await _alter(admin, request, "remove")
        say(f"removed user {name}")
        return OK

    talk(where, command)


@app.command(name="list")
@on_cluster
def list_users(
    where: ClusterOptions,
    as_json: AsJson = False,
) -> None:
    """List the users with their mechanisms."""
    names = {kind.wire_number: kind.value for kind in ScramMechanism}

    async def command(admin: AsyncAdmin) -> int:
        rows = [
            (one.user, names.get(info.mechanism, str(info.mechanism)), info.iterations)
            for one in await _users(admin)
            for info in one.credential_infos
        ]
        if as_json:
            show_json([{"user": user, "mechanism": kind, "iterations": count} for user, kind, count in rows])
        else:
            columns = (Column("user"), Column("mechanism"), Column("iterations", True))
            show_table(
                TextTable(columns, [(user, kind, str(count)) for user, kind, count in rows]),
                empty="there are no users",
            )
        return OK

    talk(where, command)


async def _users(admin: AsyncAdmin) -> list[DescribeUserScramCredentialsResult]:
    request = DescribeUserScramCredentialsRequest(users=None)
    reply = await admin.cluster.ask(Role.ANY, request, DescribeUserScramCredentialsResponse)
    if reply.error_code:
        raise BrokerError(reply.error_code, "list the users", reply.error_message)
    return sorted(reply.results, key=lambda one: one.user)


async def _alter(admin: AsyncAdmin, request: AlterUserScramCredentialsRequest, what: str) -> None:
    reply = await admin.cluster.ask(Role.CONTROLLER, request, AlterUserScramCredentialsResponse)
    for one in reply.results:
        if one.error_code:
            raise BrokerError(one.error_code, f"{what} the user {one.user}", one.error_message)


def _mechanisms(given: Sequence[str] | None) -> list[ScramMechanism]:
    try:
        return [ScramMechanism(name.upper()) for name in given or ()] or list(ScramMechanism)
    except ValueError:
        known = " or ".join(kind.value for kind in ScramMechanism)
        raise refuse("--mechanism: no such mechanism", f"choose {known}") from None


def _reveal(password: str) -> str:
    secret = Secret.parse(password)
    if secret.is_literal:
        note("other users of this machine can see the password in --password; write @FILE")
    try:
        text = secret.reveal()
    except KohortError as error:
        raise refuse(f"--password: {error.args[0]}", error.hint) from None
    if not text:
        raise refuse("--password: the password is empty")
    return text
