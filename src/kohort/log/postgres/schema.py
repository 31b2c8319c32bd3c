"""The tables of a cluster: made and brought up to date by migrations, forward only (cluster 6).

A migration is a file ``NNNN_name.sql`` in this package and runs in one transaction, those of a new cluster
together. Its row in ``migrations`` comes first: two nodes that start at once wait for each other there.
"""

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

import asyncpg

from kohort.log.postgres import sql
from kohort.log.postgres.connections import Connection, Database, DatabaseError, quoted

_BOTH_MADE_IT = (
    asyncpg.UniqueViolationError,
    asyncpg.DuplicateObjectError,
    asyncpg.DuplicateSchemaError,
    asyncpg.DuplicateTableError,
)


class Migration(NamedTuple):
    """One step of the schema."""

    number: int
    name: str
    script: str


class Schema(NamedTuple):
    """What a cluster says of itself."""

    cluster_id: str
    version: int
    oldest_code: int


def migrations() -> list[Migration]:
    """All that this release knows, in order."""
    return sorted(_packaged())


def _packaged() -> Iterator[Migration]:
    for file in files("kohort.log.postgres.migrations").iterdir():
        stem, _, kind = file.name.rpartition(".")
        if kind == "sql":
            number, _, name = stem.partition("_")
            yield Migration(int(number), name, file.read_text())


def code_number() -> int:
    """The number that this release has in ``sessions.code``: that of its last migration."""
    return migrations()[-1].number


async def migrate(connection: Connection, database: Database) -> list[Migration]:
    """Create the schema, or bring it up to date; the migrations that were needed. For its owner."""
    try:
        await _make_room(connection, database)
        last = await connection.fetchval(sql.LAST_MIGRATION)
        missing = [each for each in migrations() if each.number > last]
        if not last:  # all or none: a node that starts meanwhile must not find older tables
            return missing if await _apply(connection, missing) else []
        return [each for each in missing if await _apply(connection, [each])]
    except asyncpg.InsufficientPrivilegeError as error:
        raise DatabaseError(
            f"{database}: the tables cannot be made: {error}",
            hint="run `kohort cluster migrate` as a role that may create a schema in this database, then"
            f" {_grants(database, 'the role of the nodes')}",
        ) from error


async def prepare(connection: Connection, database: Database) -> Schema:
    """Check that a node can work with the tables; an empty schema is filled first. Raises DatabaseError."""
    if not await connection.fetchval(sql.SCHEMA_EXISTS, database.schema):
        await migrate(connection, database)
    return await _check(connection, database)


async def inspect(connection: Connection, database: Database) -> Schema:
    """Check like ``prepare``, and make nothing: a mistyped name must not become a schema."""
    if not await connection.fetchval(sql.SCHEMA_EXISTS, database.schema):
        others = [row[0] for row in await connection.fetch(sql.CLUSTERS)]
        raise DatabaseError(
            f"{database}: there is no schema {database.schema!r}",
            hint=f"clusters of this database: {', '.join(others)}; choose one with ?schema=NAME"
            if others
            else "no schema of this database has a cluster; `kohort serve --cluster URL` makes one",
        )
    return await _check(connection, database, is_filled=True)


async def _check(connection: Connection, database: Database, *, is_filled: bool = False) -> Schema:
    await _check_usage(connection, database)
    tables = {row[0] for row in await connection.fetch(sql.TABLES, database.schema)}
    if tables <= {"migrations"} and not is_filled:  # none yet, or another node is about to make them
        await migrate(connection, database)
    await _check_rights(connection, database)
    try:
        row = await connection.fetchrow(sql.CLUSTER)
    except asyncpg.UndefinedTableError:
        row = None
    if row is None:
        raise DatabaseError(
            f"{database}: the schema has tables, but they are not those of a cluster",
            hint="choose another schema: ?schema=name",
        )
    schema = Schema(*row)
    _check_version(database, schema)
    return schema


async def _make_room(connection: Connection, database: Database) -> None:
    while True:
        try:
            if not await connection.fetchval(sql.SCHEMA_EXISTS, database.schema):
                await connection.execute(sql.CREATE_SCHEMA.format(schema=quoted(database.schema)))
            await connection.execute(sql.CREATE_MIGRATIONS)
            return
        except _BOTH_MADE_IT:
            continue  # another node made it at the same moment; IF NOT EXISTS does not cover that


async def _apply(connection: Connection, together: list[Migration]) -> bool:
    """Whether these were done by us, in one transaction."""
    try:
        async with connection.transaction():
            for migration in together:
                await connection.execute(sql.BEGIN_MIGRATION, migration.number, migration.name)
                await connection.execute(migration.script)
                if migration.number == 1:
                    await connection.execute(sql.CREATE_CLUSTER, _new_cluster_id(), 1, 1)
                else:
                    await connection.execute(sql.SET_SCHEMA_VERSION, migration.number)
    except asyncpg.UniqueViolationError:
        return False
    return True


def _new_cluster_id() -> str:
    return urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")


def _check_version(database: Database, schema: Schema) -> None:
    code = code_number()
    if schema.version < code:
        raise DatabaseError(
            f"{database}: the tables are at version {schema.version}, and this release needs {code}",
            hint=f"run `kohort cluster migrate {database}`; nodes of the release before go on meanwhile",
        )
    if schema.oldest_code > code:
        raise DatabaseError(
            f"{database}: the tables are at version {schema.version} and need a release that knows version"
            f" {schema.oldest_code}; this one knows {code}",
            hint="install the release that the other nodes have",
        )


async def _check_usage(connection: Connection, database: Database) -> None:
    if not await connection.fetchval(sql.SCHEMA_IS_USABLE, database.schema):
        role = await connection.fetchval(sql.WHO_AM_I)
        raise DatabaseError(
            f"{database}: role {role!r} may not use the schema", hint=f"run {_grants(database, quoted(role))}"
        )


async def _check_rights(connection: Connection, database: Database) -> None:
    missing = await connection.fetch(sql.MISSING_RIGHTS, database.schema)
    if missing:
        role = await connection.fetchval(sql.WHO_AM_I)
        rights = ", ".join(f"{right} on {table}" for table, right in missing)
        raise DatabaseError(
            f"{database}: role {role!r} has no {rights}",
            hint=f"run {_grants(database, quoted(role))}",
        )


def _grants(database: Database, role: str) -> str:
    schema = quoted(database.schema)
    return (
        f"GRANT USAGE ON SCHEMA {schema} TO {role};"
        f" GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};"
    )
