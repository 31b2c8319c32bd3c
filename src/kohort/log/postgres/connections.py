"""Connections to the database of a cluster: where it is, how each kind is set up, what went wrong.

A node has few connections, each for one purpose, opened at its start: no queue before a renewal, and no limit
that is met later (cluster 6).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, cast
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit, urlunsplit

import asyncpg

from kohort.log.postgres import sql
from kohort.model.errors import KohortError

DEFAULT_SCHEMA = "kohort"
_CONNECTIONS_BESIDE_READS = 5  # lease, two lanes, maintenance, catalog
_LONGEST_NAME = 63  # of anything in PostgreSQL


class Connection(Protocol):
    """What is used of a connection of the driver; rows can also be unpacked like tuples."""

    async def execute(self, query: str, *arguments: object) -> str: ...
    async def fetch(self, query: str, *arguments: object) -> list[Any]: ...
    async def fetchrow(self, query: str, *arguments: object) -> Any: ...  # noqa: ANN401 - a row
    async def fetchval(self, query: str, *arguments: object) -> Any: ...  # noqa: ANN401 - a value
    def transaction(self) -> AbstractAsyncContextManager[None]: ...
    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...
    def is_closed(self) -> bool: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...


class ClusterUrlError(KohortError):
    """The URL of a cluster that cannot be understood."""


class DatabaseError(KohortError):
    """The database of a cluster cannot be used."""


class Purpose(Enum):
    """What a connection is for. The value is the application name that PostgreSQL shows for it."""

    LEASE = "kohort lease"  # renews the session, and does nothing else
    LANE = "kohort append"
    READ = "kohort read"
    MAINTENANCE = "kohort maintenance"
    CATALOG = "kohort catalog"
    ADMIN = "kohort admin"


_ALL = {
    "default_transaction_isolation": "read committed",
    "synchronous_commit": "on",
    "idle_in_transaction_session_timeout": "1s",
    "lock_timeout": "5s",
    "statement_timeout": "30s",
    "tcp_user_timeout": "10s",
    "timezone": "UTC",
}
_PRIMARY_KEYS_ONLY = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
_SETTINGS = {
    Purpose.LEASE: {"statement_timeout": "2s", "lock_timeout": "2s"},
    Purpose.LANE: {**_PRIMARY_KEYS_ONLY, "statement_timeout": "10s"},
    Purpose.READ: _PRIMARY_KEYS_ONLY,
    Purpose.MAINTENANCE: {},
    Purpose.CATALOG: {},
    Purpose.ADMIN: {},
}


@dataclass(frozen=True, slots=True)
class Database:
    """A database and the schema in it that is one cluster."""

    url: str = field(repr=False)  # as the driver wants it; may hold a password
    schema: str = DEFAULT_SCHEMA
    schemas_before: tuple[str, ...] = ()  # for tests: whose functions hide those of PostgreSQL

    @classmethod
    def parse(cls, text: str) -> "Database":
        """Read ``postgresql://[user[:password]@]host[:port]/database[?schema=name&…]``."""
        try:
            parts = urlsplit(text)
        except ValueError:
            raise _unreadable_url() from None  # the error may repeat a password
        if parts.scheme not in ("postgresql", "postgres"):
            wrong = f"{parts.scheme}:// is not" if parts.scheme else "a text without postgresql:// is not"
            raise ClusterUrlError(
                f"--cluster: {wrong} the address of a PostgreSQL",
                hint="write postgresql://user@host/database?schema=kohort",
            )
        query = parse_qsl(parts.query, keep_blank_values=True)
        if _is_torn(parts, query):
            raise _unreadable_url()
        schema = dict(query).get("schema", DEFAULT_SCHEMA)
        if not schema or len(schema.encode()) > _LONGEST_NAME or "\0" in schema:
            raise ClusterUrlError(f"--cluster: a schema name has 1 to {_LONGEST_NAME} bytes, not {schema!r}")
        if schema.startswith("pg_") or schema in ("public", "information_schema"):
            raise ClusterUrlError(
                f"--cluster: the schema {schema!r} is not for one cluster alone",
                hint=f"choose another name, such as {DEFAULT_SCHEMA!r}; it is created if it is missing",
            )
        rest = urlencode([(key, value) for key, value in query if key != "schema"])
        return cls(urlunsplit(parts._replace(query=rest)), schema)

    def __str__(self) -> str:
        """The URL without its password."""
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        netloc = user.partition(":")[0] + at + host
        hidden = ("password", "sslpassword")
        query = [(key, value) for key, value in parse_qsl(parts.query) if key not in hidden]
        query.append(("schema", self.schema))
        return urlunsplit(parts._replace(netloc=netloc, query=urlencode(query, quote_via=quote)))

    @property
    def search_path(self) -> str:
        names = (*self.schemas_before, "pg_catalog", self.schema) if self.schemas_before else (self.schema,)
        return ", ".join(quoted(name) for name in names)

    async def connect(self, purpose: Purpose, *, timeout_s: float = 10.0) -> Connection:
        """Raises ``DatabaseError`` for what waiting does not mend, and the driver's errors for the rest."""
        settings = _ALL | _SETTINGS[purpose]
        settings |= {"search_path": self.search_path, "application_name": purpose.value}
        with self.explained():
            connection = await asyncpg.connect(
                self.url, server_settings=settings, timeout=timeout_s, max_cached_statement_lifetime=0
            )
            return cast("Connection", connection)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say what to do about the errors that an administrator has to mend."""
        try:
            yield
        except asyncpg.InvalidAuthorizationSpecificationError as error:
            raise DatabaseError(
                f"{self} does not let us in: {error}",
                hint="check the user; give the password in PGPASSWORD or a passfile; check pg_hba.conf",
            ) from error
        except asyncpg.InvalidCatalogNameError as error:
            raise DatabaseError(f"{self}: {error}", hint="create the database first") from error
        except asyncpg.ProtocolViolationError as error:
            raise self._pooler_error(str(error)) from error
        except ValueError as error:  # of the driver: a part of the URL
            raise ClusterUrlError(f"--cluster: {self}: {error}") from error

    @contextmanager
    def reached(self, *, reads: int) -> Iterator[None]:
        """Say what a node needs of PostgreSQL when it cannot start, with so many connections for reads."""
        needed = _CONNECTIONS_BESIDE_READS + reads
        try:
            yield
        except DatabaseError:
            raise
        except asyncpg.TooManyConnectionsError as error:
            raise DatabaseError(
                f"{self} does not take the {needed} connections that a node needs: {error}",
                hint=f"raise max_connections, or the limit of the role or database, to {needed} for each node"
                " and those of others; kohort.cluster.read.connections is a part of them",
            ) from error
        except FAULTS as error:
            raise DatabaseError(
                f"{self} cannot be reached: {text_of(error)}",
                hint=f"check that PostgreSQL runs there and takes {needed} connections from each node",
            ) from error

    @contextmanager
    def named(self) -> Iterator[None]:
        """Faults of the driver as one line that says which database it is."""
        try:
            yield
        except DatabaseError:
            raise
        except OSError as error:
            raise DatabaseError(
                f"{self} cannot be reached: {text_of(error)}", hint="check that PostgreSQL runs there"
            ) from error
        except FAULTS as error:
            raise DatabaseError(f"{self}: {text_of(error)}") from error

    async def refuse_pooler(self, one: Connection, other: Connection) -> None:
        """Refuse a pooler that gives the transactions of two connections to one server process."""
        if await one.fetchval("SELECT pg_backend_pid()") == await other.fetchval("SELECT pg_backend_pid()"):
            raise self._pooler_error("two connections share one server process")

    def _pooler_error(self, reason: str) -> DatabaseError:
        return DatabaseError(
            f"{self} is a pooler in transaction mode: {reason}",
            hint="use the address of PostgreSQL itself, or a pool in session mode: prepared statements,"
            " LISTEN and the settings of a connection must stay with it",
        )


FAULTS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # of a connection whose server process has just been killed
    DatabaseError,
    OSError,
    TimeoutError,
)
"""What the use of a connection fails with; anything else is a bug."""


def text_of(error: BaseException) -> str:
    """What an error says. Some say nothing, as a timeout: then its name."""
    return str(error) or type(error).__name__


class Slot:
    """One connection, for one caller at a time; opened when it is first needed, and again after it broke."""

    def __init__(self, database: Database, purpose: Purpose, *, timeout_s: float = 30.0) -> None:
        self.database = database
        self._purpose = purpose
        self._timeout_s = timeout_s
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        """Raises ``FAULTS``. Who is cancelled leaves nothing half done: the connection goes, too."""
        async with self._lock:
            connection = await self.open()
            try:
                async with asyncio.timeout(self._timeout_s):
                    yield connection
            except asyncpg.PostgresError:
                raise  # the server has rolled back; if it is going down, the connection is closed by itself
            except BaseException:
                connection.terminate()
                raise

    async def open(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self.database.connect(self._purpose)
        return self._connection

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()


@asynccontextmanager
async def change(connection: Connection, schema: str) -> AsyncIterator[int]:
    """A transaction that changes catalog, sessions or placement; yields its version (cluster 2.3).

    Versions are committed in their order, because the row of ``cluster`` is locked first.
    """
    async with connection.transaction():
        version: int = await connection.fetchval(sql.NEXT_VERSION)
        yield version
        await connection.fetchval(sql.NOTIFY, schema, str(version))


def _is_torn(parts: SplitResult, query: list[tuple[str, str]]) -> bool:
    """Whether a character in a password has ended the part of the URL that it is in."""
    ports = [host.rpartition("]")[2].partition(":")[2] for host in parts.netloc.rpartition("@")[2].split(",")]
    return (
        parts.fragment != ""
        or "@" in parts.path
        or any("@" in key for key, _ in query)
        or not all(port == "" or port.isdecimal() for port in ports)
    )


def _unreadable_url() -> ClusterUrlError:
    return ClusterUrlError(
        "--cluster: the URL cannot be read (it is not repeated here: it may hold a password)",
        hint="in a user name or password write %2F for /, %23 for #, %3F for ?, %40 for @ and %3A for :",
    )


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
