"""The tables of a cluster are made once, and are refused where they do not fit the release or the role."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

import pytest

from kohort.log.postgres import schema as schemas
from kohort.log.postgres.connections import ClusterUrlError, Connection, Database, DatabaseError, Purpose
from kohort.log.postgres.schema import Migration, migrate, prepare

Story = Callable[[Connection], Awaitable[None]]


def run(database: Database, story: Story) -> None:
    async def main() -> None:
        connection = await database.connect(Purpose.CATALOG)
        try:
            await story(connection)
        finally:
            await connection.close()

    asyncio.run(main())


def test_the_first_node_makes_the_tables_and_the_next_finds_them(database: Database) -> None:
    async def story(connection: Connection) -> None:
        first = await prepare(connection, database)
        assert (first.version, first.oldest_code) == (schemas.code_number(), 1)
        assert await prepare(connection, database) == first

    run(database, story)


def test_nodes_that_start_at_once_make_one_cluster(database: Database) -> None:
    async def story(connection: Connection) -> None:
        others = [await database.connect(Purpose.CATALOG) for _ in range(5)]
        found = await asyncio.gather(*(prepare(each, database) for each in (connection, *others)))
        assert len({each.cluster_id for each in found}) == 1
        for each in others:
            await each.close()

    run(database, story)


def test_two_schemas_of_one_database_are_two_clusters(database: Database) -> None:
    async def story(connection: Connection) -> None:
        other = Database(database.url, database.schema + " with 'a' \"name")
        first = await prepare(connection, database)
        second_connection = await other.connect(Purpose.CATALOG)
        second = await prepare(second_connection, other)
        await second_connection.close()
        assert first.cluster_id != second.cluster_id

    run(database, story)


def test_older_tables_are_refused_until_they_are_migrated(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = Migration(schemas.code_number() + 1, "later", "CREATE TABLE later (one int)")

    async def story(connection: Connection) -> None:
        known = schemas.migrations()
        await prepare(connection, database)
        monkeypatch.setattr(schemas, "migrations", lambda: [*known, later])
        with pytest.raises(
            DatabaseError, match=f"version {later.number - 1}, and this release needs {later.number}"
        ) as refused:
            await prepare(connection, database)
        assert "kohort cluster migrate" in str(refused.value.hint)
        assert await migrate(connection, database) == [later]
        assert await migrate(connection, database) == []
        assert (await prepare(connection, database)).version == later.number

    run(database, story)


def test_newer_tables_are_used_until_they_ask_for_newer_code(database: Database) -> None:
    async def story(connection: Connection) -> None:
        await prepare(connection, database)
        await connection.execute("UPDATE cluster SET schema_version = 9")
        assert (await prepare(connection, database)).version == 9
        await connection.execute("UPDATE cluster SET oldest_code = 8")
        with pytest.raises(DatabaseError, match="knows version 8"):
            await prepare(connection, database)

    run(database, story)


def test_a_failed_migration_leaves_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Migration(schemas.code_number() + 1, "broken", "CREATE TABLE half (one int); SELECT 1 / 0")

    async def story(connection: Connection) -> None:
        known = schemas.migrations()
        first = await prepare(connection, database)
        monkeypatch.setattr(schemas, "migrations", lambda: [*known, broken])
        with pytest.raises(Exception, match="division by zero"):
            await migrate(connection, database)
        monkeypatch.setattr(schemas, "migrations", lambda: known)
        assert await prepare(connection, database) == first

    run(database, story)


def test_foreign_tables_are_left_alone(database: Database) -> None:
    async def story(connection: Connection) -> None:
        await connection.execute(f"CREATE SCHEMA {database.schema}; CREATE TABLE {database.schema}.users ()")
        with pytest.raises(DatabaseError, match="not those of a cluster"):
            await prepare(connection, database)

    run(database, story)


def test_each_missing_right_is_named_with_the_grants_to_run(database: Database) -> None:
    role = f"{database.schema}_node"

    async def story(connection: Connection) -> None:
        await connection.execute(f"CREATE ROLE {role} LOGIN")
        limited = Database(database.url.replace("postgres@", f"{role}@"), database.schema)
        node = await limited.connect(Purpose.CATALOG)
        try:
            with pytest.raises(DatabaseError, match="cannot be made") as refused:
                await prepare(node, limited)
            assert "GRANT USAGE" in str(refused.value.hint)
            await prepare(connection, database)
            for expected in ("may not use the schema", "no DELETE on batches, INSERT on batches"):
                with pytest.raises(DatabaseError, match=expected) as refused:
                    await prepare(node, limited)
                assert refused.value.hint is not None
                grants = refused.value.hint.removeprefix("run ")
                await connection.execute(grants.split(";")[0])
            await connection.execute(grants)
            await prepare(node, limited)
        finally:
            await node.close()

    run(database, story)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:secret@db:5433/app", "postgresql://u@db:5433/app?schema=kohort"),
        (
            "postgres://db/app?password=secret&schema=x&sslmode=require",
            "postgres://db/app?sslmode=require&schema=x",
        ),
    ],
)
def test_a_url_is_shown_with_its_schema_and_without_its_password(text: str, shown: str) -> None:
    database = Database.parse(text)
    assert str(database) == shown
    assert "secret" not in repr(database)


@pytest.mark.parametrize(
    "text", ["mysql://db/app", "db/app", "postgresql://db/app?schema=public", "postgresql://db/app?schema="]
)
def test_what_is_not_the_url_of_a_cluster_is_refused(text: str) -> None:
    with pytest.raises(ClusterUrlError, match="--cluster"):
        Database.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:sec/ret@db/app",
        "postgresql://u:sec#ret@db/app",
        "postgresql://u:sec?ret@db/app",
        "postgresql://u:12/ret@db/app",
        "postgresql://u:1@sec#ret@db/app",
        "postgresql://u:sec[ret@db/app",
        "postgresql://db:secret/app",
    ],
)
def test_a_url_that_a_password_tears_apart_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ClusterUrlError, match="cannot be read") as refused:
        Database.parse(text)
    shown = f"{refused.value} {refused.value.hint}"
    assert not any(part in shown for part in ("sec", "ret"))


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://one:5432,other:5433/app",
        "postgresql://u:p%2F%40@[::1]:5432/app",
        "postgresql:///app?host=/run&user=ann@example",
    ],
)
def test_every_form_of_an_address_is_read(text: str) -> None:
    assert urlsplit(Database.parse(text).url)[:3] == urlsplit(text)[:3]


def test_a_missing_database_and_a_refused_password_say_what_to_do(database: Database) -> None:
    async def main() -> None:
        missing = Database(database.url.removesuffix("postgres") + "missing", database.schema)
        with pytest.raises(DatabaseError, match="does not exist"):
            await missing.connect(Purpose.CATALOG)
        stranger = Database(database.url.replace("postgres@", "stranger@"), database.schema)
        with pytest.raises(DatabaseError, match="does not let us in"):
            await stranger.connect(Purpose.CATALOG)

    asyncio.run(main())


def test_a_pooler_in_transaction_mode_is_refused(database: Database) -> None:
    async def main() -> None:
        async with TransactionPooler(database) as pooled:
            one, other = [await pooled.connect(Purpose.CATALOG) for _ in range(2)]
            with pytest.raises(DatabaseError, match="share one server process") as refused:
                await pooled.refuse_pooler(one, other)
            assert "session mode" in str(refused.value.hint)
            for each in (one, other):
                each.terminate()
        one, other = [await database.connect(Purpose.CATALOG) for _ in range(2)]
        await database.refuse_pooler(one, other)
        for each in (one, other):
            await each.close()

    asyncio.run(main())


class TransactionPooler:
    """All clients share one server process; whoever asked last gets its answers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._greeting = b""  # what the server says before the first query
        self._clients: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Database:
        url = urlsplit(self._database.url)
        self._answers, self._upstream = await asyncio.open_connection(url.hostname, url.port)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return Database(urlunsplit(url._replace(netloc=f"postgres@127.0.0.1:{port}")), self._database.schema)

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self._upstream.close()
        await self._relay
        for writer in (*self._clients, self._upstream):
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.append(writer)
        startup = await self._packet(reader)
        if startup[4:8] == b"\x04\xd2\x16\x2f":  # a question for TLS
            writer.write(b"N")
            startup = await self._packet(reader)
        if not self._greeting:
            self._upstream.write(startup)
            self._greeting = await self._answers.readuntil(b"Z\x00\x00\x00\x05I")
            self._relay = asyncio.create_task(self._answer())
        writer.write(self._greeting)
        while question := await reader.read(65_536):
            self._asker = writer
            self._upstream.write(question)

    async def _packet(self, reader: asyncio.StreamReader) -> bytes:
        size = await reader.readexactly(4)
        return size + await reader.readexactly(int.from_bytes(size) - 4)

    async def _answer(self) -> None:
        while answer := await self._answers.read(65_536):
            self._asker.write(answer)
