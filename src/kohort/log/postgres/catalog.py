"""The catalog of a cluster, and a node's part in it: ``kohort.log.catalog.ClusterCatalog`` over tables.

Every node has all of it in memory, as a view that is replaced when the tables change. A change is a
transaction of whichever node is asked; it answers when its own view includes the change. Who leads what is
planned by ``kohort.cluster.placement`` on every node, and each carries out its own lines.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

import asyncpg

from kohort.cluster.lease import Effect, LeaseTimes, SessionId
from kohort.cluster.view import ClusterSnapshot
from kohort.log.background import Background, report
from kohort.log.catalog import UserKey, ViewListener
from kohort.log.postgres import sql
from kohort.log.postgres.connections import (
    FAULTS,
    Connection,
    Database,
    DatabaseError,
    Purpose,
    Slot,
    change,
    text_of,
)
from kohort.log.postgres.placing import Placing, Views
from kohort.log.postgres.schema import Schema, prepare
from kohort.log.postgres.sessions import NodeAddress, Session, SessionListener, boot_clock
from kohort.log.postgres.tables import Secrets, Tables
from kohort.log.security_records import acls_record, credentials_record
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Instant, LeaderEpoch, NodeId, ProducerId, TopicId, TopicName
from kohort.model.topics import Topic, TopicPartition, collision_key
from kohort.security.acls import Acl
from kohort.security.scram import ScramCredential

logger = logging.getLogger("kohort.cluster")

PRODUCER_ID_BLOCK = 1_000
_LEAVE_ATTEMPTS = 50
_CREDENTIALS, _ACLS, _SECRET = "scram", "acls", "secret"  # resources that are one row each


SecretsChange = Callable[[Secrets], Mapping[str, object]]


class PostgresCluster:
    """The catalog and the placement as one node sees them, and its session."""

    def __init__(self, database: Database, schema: Schema, session: Session, slot: Slot) -> None:
        self.cluster_id = schema.cluster_id
        self._database = database
        self._session = session
        self._slot = slot
        self._view = ClusterSnapshot()
        self._read = ClusterSnapshot()  # what the tables say; the view hides some of it
        self._tables = Tables()
        self._secrets = Secrets()
        self._watching: list[ViewListener] = []
        self._watching_acls: list[Callable[[], None]] = []
        self._resuming: list[Callable[[int], None]] = []
        self._lapsed_at: Instant | None = None
        self._refreshing = asyncio.Lock()
        self._numbering = asyncio.Lock()
        self._producer_ids = range(0)
        self._is_leaving = False
        self._is_closed = False
        self._background = Background(_pause)
        self._wanted_version = 0
        self.placing = Placing(session, Views(lambda: self._view, self.refresh, self._publish))

    @classmethod
    async def open(cls, database: Database, address: NodeAddress, times: LeaseTimes) -> "PostgresCluster":
        """Connect, and check the database; ``register`` makes it a node. Raises ``FAULTS``."""
        slot = Slot(database, Purpose.CATALOG)
        try:
            async with slot.use() as connection:
                other = await database.connect(Purpose.MAINTENANCE)
                try:
                    await database.refuse_pooler(connection, other)
                finally:
                    await other.close()
                schema = await prepare(connection, database)
            session = Session(database, slot, address, times)
            await session.connect()
        except BaseException:
            await slot.close()
            raise
        return cls(database, schema, session, slot)

    async def register(self) -> None:
        """Begin a session, and take a first look at the cluster. Raises ``FAULTS``."""
        await self._session.register()
        self._session.listener = SessionListener(self._polled, self._serving_again, self._lapsed, self._ended)
        await self._listen()
        await self.refresh()
        await self._session.step()
        self._background.keep("renewing the session", self._session.run)

    # -- what is known ---------------------------------------------------------------------------------

    @property
    def view(self) -> ClusterSnapshot:
        return self._view

    @property
    def session(self) -> SessionId:
        return self._session.session

    @property
    def node_id(self) -> NodeId:
        return self._session.node_id

    @property
    def topics(self) -> Mapping[TopicName, Topic]:
        return self._tables.topics

    @property
    def broker_configs(self) -> Mapping[str, Mapping[str, str]]:
        return self._view.broker_configs

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        return self._view.group_configs

    @property
    def credentials(self) -> Mapping[UserKey, ScramCredential]:
        return self._secrets.credentials

    @property
    def secret(self) -> bytes:
        return self._secrets.secret

    @property
    def acls(self) -> Collection[Acl]:
        return self._secrets.acls

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        return self._tables.topic_by_id(topic_id)

    def epoch_of_new(self, topic: TopicName) -> LeaderEpoch | None:
        return None  # any node may lead it

    def watch(self, listener: ViewListener) -> None:
        self._watching.append(listener)

    def watch_acls(self, listener: Callable[[], None]) -> None:
        self._watching_acls.append(listener)

    def on_resume(self, listener: Callable[[int], None]) -> None:
        self._resuming.append(listener)

    def may_answer(self) -> bool:
        return self._session.may_answer()

    def is_in_touch(self) -> bool:
        return self._session.is_in_touch()

    # -- how it is learned -----------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Notices are a hint: without them the poll finds every change half a second later."""
        connection = await self._slot.open()
        await connection.add_listener(self._database.schema, self._noticed)

    def _noticed(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        self._polled(int(payload))

    def _polled(self, version: int) -> None:
        if self._is_closed:
            return
        self._wanted_version = max(self._wanted_version, version)
        self._background.keep("following the cluster", self._follow)

    async def _follow(self) -> None:
        """Bring the view up to date, and do what the plan says."""
        with self._database.named():
            while True:
                if self._view.version < self._wanted_version:
                    await self.refresh()
                if not self._is_leaving:
                    await self.placing.place()
                await self.placing.tell_served()
                if self._view.version >= self._wanted_version:
                    return

    async def refresh(self) -> None:
        """Read what has changed in the tables since the last look."""
        async with self._refreshing:
            async with self._slot.use() as connection:
                is_new_connection = self._connection_changed(connection)
                if is_new_connection:
                    await connection.add_listener(self._database.schema, self._noticed)
                version, balance = await connection.fetchrow(sql.VERSION)
                sessions = await connection.fetch(sql.LIVING)
                since = self._tables.version
                topics = await connection.fetch(sql.TOPICS_SINCE, since)
                partitions = await connection.fetch(sql.PARTITIONS_SINCE, since)
                configs = await connection.fetch(sql.CONFIGS_SINCE, since)
            is_older = version < since
            if is_older:  # than we know the database: everything is read again
                self._tables, self._read = Tables(), ClusterSnapshot()
                self._view = replace(self._view, version=-1)
                self._wanted_version = 0
            else:
                for row in configs:
                    self._read_config(row["resource"], row["configs"])
                nodes = set(self._read.nodes)
                self._read = self._tables.read(version, sessions, topics, partitions, self._read)
                self._publish(self.placing.masked(self._read))
                if nodes != set(self._read.nodes):
                    self.placing.nodes_changed()
                self.placing.balance_asked(balance)
        if is_older:
            await self.refresh()

    def _connection_changed(self, connection: Connection) -> bool:
        changed = getattr(self, "_listening", connection) is not connection
        self._listening = connection
        return changed

    def _read_config(self, resource: str, text: str) -> None:
        configs = json.loads(text)
        kind, _, name = resource.partition(":")
        match kind:
            case "broker" | "group":
                self._tables.set_configs(kind, name, configs)
            case "scram" | "acls" | "secret":
                self._secrets.read(configs)
                if kind == _ACLS:
                    _tell(self._watching_acls)
            case _:
                logger.warning(
                    "%s: a resource %r of a later release is passed over", self._database, resource
                )

    def _publish(self, view: ClusterSnapshot) -> None:
        old, self._view = self._view, view
        _tell(self._watching, old, view)

    # -- the session -----------------------------------------------------------------------------------

    def _serving_again(self) -> None:
        if self._lapsed_at is not None:
            silent_ms, self._lapsed_at = boot_clock() - self._lapsed_at, None
            logger.warning("answers are allowed again after %d ms", silent_ms)
            _tell(self._resuming, silent_ms)

    def _lapsed(self) -> None:
        self._lapsed_at = self._session.answered_until

    async def _ended(self, _effect: Effect) -> None:
        self._lapsed_at = None
        self.placing.session_ended()
        self._view = replace(self._view, version=-1)  # a database that forgot something may be at a lower one

    # -- placement -------------------------------------------------------------------------------------

    def served(self, partitions: Iterable[TopicPartition]) -> None:
        placed = [self._view.placed(each) for each in partitions]
        self.placing.note_served(each.partition_id for each in placed if each is not None)
        self._polled(self._view.version)

    async def leave(self) -> None:
        """Hand over everything that others can take, and end the session; without a database just go."""
        self._is_leaving = True
        try:
            with self._database.named():
                if self.may_answer():
                    with suppress(TimeoutError):  # the others take what is left once the session has ended
                        async with asyncio.timeout(self._session.window_s):
                            await self._hand_everything_over()
                if not self.may_answer():
                    raise DatabaseError(f"{self._database} cannot be reached")
                async with asyncio.timeout(self._session.window_s):
                    await self._session.end()
        except DatabaseError as error:
            report("handing over at the end", error, "; other nodes take over when the lease has expired")

    async def _hand_everything_over(self) -> None:
        await self._session.announce_leaving()
        await self.refresh()
        for _ in range(_LEAVE_ATTEMPTS):
            if not self.placing.has_something_to_give:
                return
            await self.placing.place()

    async def close(self) -> None:
        self._is_closed = True
        await self._background.stop()
        await self._session.close()
        await self._slot.close()

    # -- changes ---------------------------------------------------------------------------------------

    async def _change(self, statement: str, *arguments: object) -> list[tuple[object, ...]]:
        """Run one statement with the next version as its first argument; the view includes it then."""
        try:
            async with self._slot.use() as connection, change(connection, self._database.schema) as version:
                rows = await connection.fetch(statement, version, *arguments)
        except asyncpg.UniqueViolationError:
            raise
        except FAULTS as error:
            raise _refusal(error) from error
        await self.refresh()
        return rows

    async def create_topic(self, topic: Topic, *, assigned: Sequence[NodeId] = ()) -> None:
        topic_id, key = UUID(bytes=topic.topic_id), collision_key(topic.name)
        configs = json.dumps(dict(topic.configs))
        try:
            await self._change(
                sql.CREATE_TOPIC, topic_id, topic.name, key, topic.partitions, configs, list(assigned)
            )
        except asyncpg.UniqueViolationError:
            await self.refresh()
            other = next((each for each in self.topics if collision_key(each) == key), topic.name)
            if other != topic.name:
                raise RefusedError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {topic.name!r} collides with {other!r}"
                ) from None
            raise RefusedError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name!r} exists already"
            ) from None
        self._polled(self._view.version)  # its partitions are without a leader

    async def delete_topic(self, name: TopicName) -> Topic:
        topic = self._known(name)
        if not await self._change(sql.DELETE_TOPIC, UUID(bytes=topic.topic_id)):
            raise _unknown(name)
        return topic

    async def add_partitions(self, name: TopicName, total: int, *, assigned: Sequence[NodeId] = ()) -> Topic:
        topic_id = UUID(bytes=self._known(name).topic_id)
        if not await self._change(sql.ADD_PARTITIONS, topic_id, total, list(assigned)):
            await self.refresh()
            raise RefusedError(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {name!r} has {self._known(name).partitions} partitions; {total} is not more",
            )
        self._polled(self._view.version)
        return self._known(name)

    async def set_topic_configs(self, name: TopicName, configs: Mapping[str, str]) -> Topic:
        topic_id = UUID(bytes=self._known(name).topic_id)
        if not await self._change(sql.SET_TOPIC_CONFIGS, topic_id, json.dumps(dict(configs))):
            raise _unknown(name)
        return self._known(name)

    async def set_broker_configs(self, resource: str, configs: Mapping[str, str]) -> None:
        await self._change(sql.SET_CONFIGS, f"broker:{resource}", json.dumps(dict(configs)))

    async def set_group_configs(self, group: str, configs: Mapping[str, str]) -> None:
        await self._change(sql.SET_CONFIGS, f"group:{group}", json.dumps(dict(configs)))

    async def change_credentials(
        self, removed: Iterable[UserKey], stored: Mapping[UserKey, ScramCredential]
    ) -> None:
        gone = set(removed)

        def changed(before: Secrets) -> Mapping[str, object]:
            kept = {key: each for key, each in before.credentials.items() if key not in gone}
            return credentials_record((), kept | dict(stored))

        await self._change_secrets(_CREDENTIALS, changed)

    async def set_secret(self, secret: bytes) -> None:
        """The first one that is set stays: nodes that start at once must agree."""

        def changed(before: Secrets) -> Mapping[str, object]:
            return {"type": "secret", "value": (before.secret or secret).hex()}

        await self._change_secrets(_SECRET, changed)

    async def change_acls(self, removed: Iterable[Acl], added: Iterable[Acl]) -> None:
        gone, new = set(removed), list(added)

        def changed(before: Secrets) -> Mapping[str, object]:
            return acls_record((), dict.fromkeys([*(each for each in before.acls if each not in gone), *new]))

        await self._change_secrets(_ACLS, changed)

    async def _change_secrets(self, resource: str, changed: SecretsChange) -> None:
        """Read, change and write one row; the row of ``cluster`` is locked, so no change is lost."""
        try:
            async with self._slot.use() as connection, change(connection, self._database.schema) as version:
                text = await connection.fetchval(sql.CONFIGS_OF, resource)
                before = Secrets()
                if text is not None:
                    before.read(json.loads(text))
                record = json.dumps(dict(changed(before)))
                await connection.fetch(sql.SET_CONFIGS, version, resource, record)
        except FAULTS as error:
            raise _refusal(error) from error
        await self.refresh()

    async def next_producer_id(self) -> ProducerId:
        async with self._numbering:
            if not self._producer_ids:
                try:
                    async with self._slot.use() as connection:
                        first = await connection.fetchval(sql.RESERVE_PRODUCER_IDS, PRODUCER_ID_BLOCK)
                except FAULTS as error:
                    raise _refusal(error) from error
                self._producer_ids = range(first, first + PRODUCER_ID_BLOCK)
            producer_id = ProducerId(self._producer_ids[0])
            self._producer_ids = self._producer_ids[1:]
            return producer_id

    def _known(self, name: TopicName) -> Topic:
        topic = self.topics.get(name)
        if topic is None:
            raise _unknown(name)
        return topic


def _tell(listeners: Iterable[Callable[..., None]], *news: object) -> None:
    for listener in listeners:
        try:
            listener(*news)
        except Exception as error:  # the others must hear of it
            report("following a change of the cluster", error)


def _unknown(name: TopicName) -> RefusedError:
    return RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")


def _refusal(error: BaseException) -> RefusedError:
    return RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, f"the database of the cluster: {text_of(error)}")


async def _pause(milliseconds: int) -> None:
    await asyncio.sleep(milliseconds / 1_000)
