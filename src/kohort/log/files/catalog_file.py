"""The catalog of one node: a log of JSON lines, written and synced before a change counts.

One change is one line, so a crash leaves it done or not done. When most lines are history the file is written
again and renamed into place.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from kohort.cluster.lease import SessionId
from kohort.cluster.view import ClusterSnapshot, PartitionId, PartitionKind, Placed, PlacedNode, PlacedTopic
from kohort.log.background import describe, finish, in_thread
from kohort.log.catalog import UserKey, ViewListener
from kohort.log.files.catalog_state import CATALOG, CatalogState, Record, decode, encode
from kohort.log.files.checkpoints import META_PROPERTIES
from kohort.log.files.directory import DataDirectory, repair_hint
from kohort.log.files.disk import File, write_all, write_aside
from kohort.log.log import Repair
from kohort.log.security_records import acls_record, credentials_record
from kohort.model.errors import ErrorCode, KohortError, RefusedError
from kohort.model.ids import LeaderEpoch, NodeId, ProducerId, TopicId, TopicName
from kohort.model.topics import CONSUMER_OFFSETS, Topic, TopicPartition, collision_key, show_topic_id
from kohort.primitives.crc import crc32c
from kohort.security.acls import Acl
from kohort.security.scram import ScramCredential

logger = logging.getLogger("kohort.catalog")

PRODUCER_ID_BLOCK = 1_000
_MOST_HISTORY = 1_000
_MOST_AT_ONCE = 1_000  # entries of a change that is put into bytes without a thread
_FIRST_EPOCH = LeaderEpoch(0)
_NO_ROW = PartitionId(-1)


class CorruptCatalogError(KohortError):
    """A catalog that is lost, or has damage that no crash explains."""


class Identity(NamedTuple):
    """Who a node is. ``cluster_id`` is for a new directory; one that has an id keeps it."""

    cluster_id: str
    node_id: NodeId


class FileCatalog:
    """A catalog in a data directory: ``kohort.log.catalog.ClusterCatalog`` for the one node there is."""

    def __init__(self, directory: DataDirectory, state: CatalogState, executor: Executor) -> None:
        self._directory = directory
        self._state = state
        self._executor = executor
        self._path = f"{directory.path}/{CATALOG}"
        self._file: File = directory.disk.open(self._path, create=True)
        self._size = self._file.size()
        self._lines = 0
        self._failure: str | None = None
        self._said = ""  # of what could not be written
        self._changing = asyncio.Lock()
        self._numbering = asyncio.Lock()
        self._producer_ids = range(0)  # handed out to this process, not yet to producers
        self.repairs: list[Repair] = []
        self._view = ClusterSnapshot()
        self._watching: list[ViewListener] = []

    @classmethod
    async def open(cls, directory: DataDirectory, identity: Identity, executor: Executor) -> "FileCatalog":
        """Read the catalog of a directory, or begin one, and count this start.

        Raises ``CorruptCatalogError``, and ``ForeignDirectoryError`` when the directory is another node's.
        """
        catalog = cls(directory, CatalogState(), executor)
        catalog._replay()
        state = catalog._state
        known_id = directory.identity().get("cluster.id")
        if not state.cluster_id and directory.has_been_used():
            raise CorruptCatalogError(
                f"{catalog._path!r} is empty or lost, but the data directory has been in use",
                hint=repair_hint(directory.path),
            )
        cluster_id = state.cluster_id or known_id or identity.cluster_id
        directory.check_identity(cluster_id, identity.node_id)
        directory.begin_changes()
        if not state.cluster_id:
            await catalog._change(
                lambda: {"type": "cluster", "cluster_id": cluster_id, "node_id": identity.node_id}
            )
        directory.identify(cluster_id, identity.node_id, state.offsets_partitions)
        await catalog._change(lambda: {"type": "starts", "count": state.starts + 1})
        directory.disk.sync_directory(directory.path)
        catalog._view = catalog._whole_view()
        return catalog

    # -- reading ---------------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        return self._state.cluster_id

    @property
    def node_id(self) -> NodeId:
        return self._state.node_id

    @property
    def topics(self) -> Mapping[TopicName, Topic]:
        return self._state.topics

    @property
    def broker_configs(self) -> Mapping[str, Mapping[str, str]]:
        return self._state.broker_configs

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        return self._state.group_configs

    @property
    def deleted(self) -> Mapping[TopicId, TopicName]:
        return self._state.deleted

    @property
    def credentials(self) -> Mapping[UserKey, ScramCredential]:
        return self._state.credentials

    @property
    def secret(self) -> bytes:
        return self._state.secret

    @property
    def acls(self) -> Collection[Acl]:
        return self._state.acls

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        name = self._state.names.get(topic_id)
        return None if name is None else self._state.topics[name]

    def leader_epoch(self, partition: TopicPartition) -> LeaderEpoch:
        return self._state.leader_epoch(self._known(partition.topic))

    # -- the cluster of one ----------------------------------------------------------------------------

    @property
    def view(self) -> ClusterSnapshot:
        return self._view

    @property
    def session(self) -> SessionId:
        return SessionId(self._state.starts)

    def epoch_of_new(self, topic: TopicName) -> LeaderEpoch:
        known = self._state.topics.get(topic)
        return _FIRST_EPOCH if known is None else self._state.leader_epoch(known)

    def watch(self, listener: ViewListener) -> None:
        self._watching.append(listener)

    def watch_acls(self, listener: Callable[[], None]) -> None:
        """There is no other node."""

    def on_resume(self, listener: Callable[[int], None]) -> None:
        """Answers are always allowed."""

    def may_answer(self) -> bool:
        return True

    def served(self, partitions: Iterable[TopicPartition]) -> None:
        """There is no other node to know it."""

    async def leave(self) -> None:
        """There is no other node to lead anything."""

    def _whole_view(self) -> ClusterSnapshot:
        state = self._state
        return ClusterSnapshot(
            nodes={self.session: PlacedNode(self.session, state.node_id)},
            topics={name: self._placed(topic) for name, topic in state.topics.items()},
            broker_configs=dict(state.broker_configs),
            group_configs=dict(state.group_configs),
        )

    def _placed(self, topic: Topic) -> PlacedTopic:
        epoch = self._state.leader_epoch(topic)
        placed = Placed(_NO_ROW, PartitionKind.DATA, self.session, epoch, epoch)
        return PlacedTopic(topic, (placed,) * topic.partitions)

    def _look_at(self, changed: Collection[TopicName], change: str) -> None:
        """Make a view of what is true now, and show it to those who watch."""
        old, state = self._view, self._state
        topics = old.topics
        if changed:
            topics = dict(topics)
            for name in changed:
                topic = state.topics.get(name)
                if topic is None:
                    topics.pop(name, None)
                else:
                    topics[name] = self._placed(topic)
        self._view = replace(
            old,
            version=old.version + 1,
            topics=topics,
            broker_configs=dict(state.broker_configs) if change == "broker-configs" else old.broker_configs,
            group_configs=dict(state.group_configs) if change == "group-configs" else old.group_configs,
            changed=changed,
        )
        for listener in self._watching:
            listener(old, self._view)

    # -- changing --------------------------------------------------------------------------------------

    async def create_topic(
        self, topic: Topic, epoch: LeaderEpoch = _FIRST_EPOCH, *, assigned: Sequence[NodeId] = ()
    ) -> None:
        """``epoch`` is for a topic whose files exist already, written by another broker."""

        def decide() -> Record:
            other = self._state.collision_keys.get(collision_key(topic.name))
            if other == topic.name:
                raise RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name!r} exists already")
            if other is not None:
                raise RefusedError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {topic.name!r} collides with {other!r}"
                )
            return self._state.topic_record(topic, epoch)

        await self._change(decide)

    async def delete_topic(self, name: TopicName) -> Topic:
        topic: Topic | None = None

        def decide() -> Record:
            nonlocal topic
            topic = self._known(name)
            return {"type": "topic-deleted", "id": show_topic_id(topic.topic_id)}

        await self._change(decide)
        assert topic is not None
        return topic

    async def forget_deleted(self, topic_ids: Iterable[TopicId]) -> None:
        ids = [show_topic_id(topic_id) for topic_id in topic_ids]
        await self._change(lambda: {"type": "topics-forgotten", "ids": ids})

    async def add_partitions(self, name: TopicName, total: int, *, assigned: Sequence[NodeId] = ()) -> Topic:
        def decide() -> Record:
            if total <= self._known(name).partitions:
                raise RefusedError(
                    ErrorCode.INVALID_PARTITIONS,
                    f"topic {name!r} has {self._known(name).partitions} partitions; {total} is not more",
                )
            return {"type": "partitions", "name": name, "total": total}

        await self._change(decide)
        return self._known(name)

    async def set_topic_configs(self, name: TopicName, configs: Mapping[str, str]) -> Topic:
        def decide() -> Record:
            self._known(name)
            return {"type": "topic-configs", "name": name, "configs": dict(configs)}

        await self._change(decide)
        return self._known(name)

    async def set_broker_configs(self, resource: str, configs: Mapping[str, str]) -> None:
        await self._change(lambda: {"type": "broker-configs", "resource": resource, "configs": dict(configs)})

    async def set_group_configs(self, group: str, configs: Mapping[str, str]) -> None:
        await self._change(lambda: {"type": "group-configs", "group": group, "configs": dict(configs)})

    async def change_credentials(
        self, removed: Iterable[UserKey], stored: Mapping[UserKey, ScramCredential]
    ) -> None:
        await self._change(lambda: credentials_record(removed, stored))

    async def set_secret(self, secret: bytes) -> None:
        await self._change(lambda: {"type": "secret", "value": secret.hex()})

    async def change_acls(self, removed: Iterable[Acl], added: Iterable[Acl]) -> None:
        await self._change(lambda: acls_record(removed, added))

    async def next_producer_id(self) -> ProducerId:
        async with self._numbering:
            if not self._producer_ids:
                first = self._state.next_producer_id
                end = first + PRODUCER_ID_BLOCK
                await self._change(lambda: {"type": "producer-ids", "next": end})
                self._producer_ids = range(first, end)
            producer_id = ProducerId(self._producer_ids[0])
            self._producer_ids = self._producer_ids[1:]
            return producer_id

    # -- the file --------------------------------------------------------------------------------------

    def _known(self, name: TopicName) -> Topic:
        topic = self._state.topics.get(name)
        if topic is None:
            raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return topic

    async def _change(self, decide: Callable[[], Record]) -> None:
        """Let ``decide`` check and name the change, store it, make it true.

        Goes on when its caller is cancelled: a line is on its way to the disk then.
        """
        await finish(self._store(decide), "a change of the catalog")

    async def recover(self) -> None:
        """After a failure: write what is true into a new file. Raises KAFKA_STORAGE_ERROR."""
        if self._failure is not None:
            await finish(self._recover_alone(), f"writing {self._path} again")

    async def _recover_alone(self) -> None:
        async with self._changing:
            await self._recover()

    async def _recover(self) -> None:
        if self._failure is not None:
            if not await self._rewrite():
                raise self._refusal(self._failure)
            self._failure = None
            logger.warning("%s is written again and takes changes", self._path)

    async def _store(self, decide: Callable[[], Record]) -> None:
        async with self._changing:
            await self._recover()
            record = decide()
            await self._write(record)
            changed = self._state.topics_of(record)
            self._state.apply(record)
            self._look_at(changed, record["type"])
            self._lines += 1
            if CONSUMER_OFFSETS in changed:
                await self._note_offsets_partitions()
            # Both are kept by a rewriting, which must leave less than what would cause the next one.
            if self._lines > _MOST_HISTORY + 2 * (len(self._state.topics) + len(self._state.deleted)):
                await self._rewrite()

    async def _line_of(self, record: Record) -> bytes:
        """One that changes thousands of users or rules is written in a thread."""
        rows = sum(len(value) for value in record.values() if isinstance(value, list))
        if rows > _MOST_AT_ONCE:
            return await in_thread(self._executor, partial(encode, record))
        return encode(record)

    async def _note_offsets_partitions(self) -> None:
        """Also where a loss of the catalog does not reach. If that fails, the next start does it."""
        state = self._state
        note = partial(self._directory.identify, state.cluster_id, state.node_id, state.offsets_partitions)
        try:
            await in_thread(self._executor, note)
        except Exception as error:
            logger.warning(
                "%s/%s could not be written: %s", self._directory.path, META_PROPERTIES, describe(error)
            )

    async def _write(self, record: Record) -> None:
        try:
            line = await self._line_of(record)
            write_all(self._file, line, self._size)
        except (OSError, MemoryError) as error:
            self._cut_back()
            reason = f"{self._path} could not be written: {describe(error)}"
            self._say(reason)
            raise self._refusal(reason) from error
        try:
            await in_thread(self._executor, self._file.sync)
        except Exception as error:
            # Whether the line is on the disk is not known, and a sync of this file would not tell.
            self._fail(f"{self._path} could not be synced: {describe(error)}")
            raise self._refusal(self._failure or "") from error
        self._size += len(line)
        self._said = ""

    def _cut_back(self) -> None:
        try:
            self._file.truncate(self._size)
        except OSError as error:
            self._fail(f"{self._path} could not be cut back: {describe(error)}")

    def _fail(self, reason: str) -> None:
        """Take no change before the catalog is written again, into another file."""
        logger.warning("%s; it is written again before the next change", reason)
        self._failure = reason

    def _say(self, reason: str) -> None:
        """One line, and not again for the same reason before a change is stored."""
        if reason != self._said:
            self._said = reason
            logger.warning("%s", reason)

    def _refusal(self, reason: str) -> RefusedError:
        return RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    async def _rewrite(self) -> bool:
        """Write the state into a new file, without its history; whether that went well.

        If it fails before the new file has its name, nothing is lost.
        """
        disk, records = self._directory.disk, list(self._state.records())
        self._lines = len(records)

        def write() -> int:
            content = b"".join(map(encode, records))
            write_aside(disk, self._path, content)
            return len(content)

        try:
            size = await in_thread(self._executor, write)
        except Exception as error:
            self._say(f"{self._path} could not be written again: {describe(error)}")
            return False
        try:
            disk.rename(self._path + ".tmp", self._path)
            self._file, self._size = disk.open(self._path), size
            await in_thread(self._executor, lambda: disk.sync_directory(self._directory.path))
        except Exception as error:
            self._fail(f"{self._path} could not be renamed: {describe(error)}")
            return False
        return True

    def _replay(self) -> None:
        """Apply every line; a damaged tail was never acknowledged and is cut off."""
        content = self._file.read(self._size, 0)
        noted = self._directory.inventory.catalog
        if noted is not None and noted != (len(content), crc32c(content)):
            raise CorruptCatalogError(
                f"{self._path!r} is damaged: it has {len(content)} bytes, and is not what the last run wrote",
                hint=repair_hint(self._directory.path),
            )
        lines = content.split(b"\n")
        position = 0
        for number, line in enumerate(lines[:-1]):
            record = decode(line)
            if record is None:
                self._check_is_tail(lines[number + 1 : -1], position)
                break
            self._state.apply(record)
            self._lines += 1
            position += len(line) + 1
        if position < self._size:
            cut = self._size - position
            self.repairs.append(Repair(self._path, f"cut {cut} bytes of an unfinished change off its end"))
            self._file.truncate(position)
            self._size = position

    def _check_is_tail(self, following: list[bytes], position: int) -> None:
        if any(decode(line) is not None for line in following):
            raise CorruptCatalogError(
                f"{self._path!r} is damaged at byte {position}, and not at its end",
                hint=repair_hint(self._directory.path),
            )
