"""Reading a partition of ``__consumer_offsets`` back (offsets-and-log 7.5)."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

from kohort.groups.apply import apply
from kohort.groups.causes import PartitionLoaded
from kohort.groups.classic.rebalance import prepare_rebalance
from kohort.groups.classic.state import Group
from kohort.groups.consumer.apply import made as consumer_group_of
from kohort.groups.consumer.encoding import decode_event
from kohort.groups.consumer.events import ConsumerGroupDropped, ConsumerGroupLoaded, LoadedMember
from kohort.groups.consumer.state import ConsumerGroup
from kohort.groups.consumer.timers import await_revocation, start_session
from kohort.groups.encoding import decode_image
from kohort.groups.events import GroupImage, GroupLoaded
from kohort.groups.offsets.apply import drop_offset, end_transaction, put_offset, put_transactional_offset
from kohort.groups.offsets.retention import schedule_sweep
from kohort.groups.offsets.state import OffsetAddress, OffsetTable, StoredOffset, TransactionalOffset
from kohort.groups.outcome import Outcome
from kohort.groups.sessions import arm_session
from kohort.groups.state import State
from kohort.groups.takeover import Takeover
from kohort.model.errors import KohortError
from kohort.model.ids import GroupId, Partition, ProducerId, TopicName
from kohort.primitives.buffers import Buffer
from kohort.records.batch import BatchHeader, CorruptBatchError, read_payload, read_records
from kohort.records.commits import take_commits
from kohort.records.control import ControlType, control_type
from kohort.records.group_records import (
    ConsumerGroupPartitionMetadataKey,
    GroupMetadataKey,
    OffsetCommitKey,
    RecordKey,
)
from kohort.records.offsets_topic import decode_commit, decode_key, read_names
from kohort.records.record import Record

NO_PRODUCER = ProducerId(-1)
_FROM_THE_LOG = PartitionLoaded(0, 0)


# What the log has of a group: its newest record, as it is or decoded; None if it has offsets alone.
StoredGroup: TypeAlias = bytes | GroupImage | None


class LoadFailedError(KohortError):
    """The partition cannot be served: answer NOT_COORDINATOR for it until it is elected again."""


class _OffsetsByKey(dict[bytes, dict[Partition, StoredOffset] | None]):
    """Where the offsets of a topic in a group are kept, by what their keys begin with.

    Only as long as nothing is dropped: a place may go with its last offset, and a group with its record.
    """

    __slots__ = ("_decoding", "_groups", "_offsets", "_topics")

    def __init__(self, offsets: OffsetTable, groups: dict[GroupId, StoredGroup]) -> None:
        self._offsets = offsets
        self._groups = groups
        self._topics: dict[str, TopicName] = {}  # many groups consume a topic: its name is kept once

    def __missing__(self, beginning: bytes) -> dict[Partition, StoredOffset] | None:
        names = read_names(beginning)
        if names is None:
            return None
        group_id = GroupId(names[0])
        topic = self._topics.setdefault(names[1], TopicName(names[1]))
        self._groups.setdefault(group_id, None)
        found = self[beginning] = self._offsets.groups.setdefault(group_id, {}).setdefault(topic, {})
        return found


class Loader:
    """Takes the batches of a log in order; ``finish`` makes a shard's state of them.

    Of each group only the newest record is decoded, and offsets are kept as the bytes they are:
    a million of them load in two seconds.
    """

    __slots__ = (
        "_decoding",
        "_groups",
        "_offsets",
        "_places",
        "_state",
        "_too_large",
        "_waking",
        "skipped",
        "takeover",
    )

    def __init__(self, state: State) -> None:
        self._state = state
        self.takeover: Takeover | None = None  # what made us read the log
        offsets = self._offsets = state.offsets
        self._groups: dict[GroupId, StoredGroup] = {}
        self._places = _OffsetsByKey(offsets, self._groups)
        self._decoding: Iterator[GroupId] | None = None
        self._waking: Iterator[tuple[GroupId, StoredGroup]] | None = None  # those that are not alive yet
        self._too_large: list[tuple[Group, PartitionLoaded]] = []
        self.skipped: dict[str, int] = {}  # what was not understood and left alone, with how often

    def replay_batch(self, batch: Buffer, header: BatchHeader) -> None:
        """Take one batch as it is stored. Raises ``CorruptBatchError``, and what ``replay`` raises."""
        producer = ProducerId(header.producer_id)
        if producer != NO_PRODUCER or header.is_control or self._offsets.open_offsets:
            self.replay(read_records(batch, 0, header), producer, header.is_control)
        else:
            take_commits(read_payload(batch, 0, header), header, self._places, self._take_other)

    def replay(self, records: Iterable[Record], producer: ProducerId, is_control: bool) -> None:
        """Take the records of a batch. Raises ``LoadFailedError`` for what must be understood and is not."""
        for record in records:
            if is_control:
                self._end_transaction(producer, record.key)
            else:
                self._take(record, producer)

    def _take_other(self, record: Record) -> None:
        self._take(record, NO_PRODUCER)

    def _take(self, record: Record, producer: ProducerId) -> None:
        key = record.key
        if key is None or len(key) < 2:
            self._skip("record without a key")
            return
        try:
            decoded = decode_key(key)
            if isinstance(decoded, OffsetCommitKey):
                group_id = GroupId(decoded.group)
                address = (group_id, TopicName(decoded.topic), Partition(decoded.partition))
                self._take_offset(address, record, producer)
            elif isinstance(decoded, GroupMetadataKey):
                self._take_group(GroupId(decoded.group), record.value)
            elif isinstance(decoded, RecordKey):
                self._take_consumer_group(decoded, record.value)
            else:
                self._skip(f"record of type {decoded.record_type}")
        except KohortError as error:
            raise LoadFailedError(
                f"cannot load the group data at log offset {record.offset}: {error}",
                hint="the partition is not served until it is repaired or elected again",
            ) from error

    def _take_offset(self, address: OffsetAddress, record: Record, producer: ProducerId) -> None:
        value = record.value
        if value is None:
            drop_offset(self._offsets, address)
            self._places.clear()
            return
        decode_commit(value)  # to know that it can be
        self._groups.setdefault(address[0], None)
        if producer == NO_PRODUCER:
            put_offset(self._offsets, address, value)
        else:
            written = TransactionalOffset(record.offset, value)
            put_transactional_offset(self._offsets, producer, address, written)

    def _take_group(self, group_id: GroupId, value: bytes | None) -> None:
        if value is None:
            self._groups.pop(group_id, None)
            self._places.clear()
        else:
            self._groups[group_id] = value

    def _take_consumer_group(self, key: RecordKey, value: bytes | None) -> None:
        """Records of consumer groups are applied one by one, as they were when they were written."""
        event = decode_event(key, value, _FROM_THE_LOG)
        if event is not None:
            apply(self._state, event)
            if isinstance(event, ConsumerGroupDropped):
                self._groups.pop(event.group_id, None)
                self._places.clear()
        elif isinstance(key, ConsumerGroupPartitionMetadataKey):
            consumer_group_of(self._state, GroupId(key.group_id)).has_partition_metadata = True

    def _end_transaction(self, producer: ProducerId, key: bytes | None) -> None:
        try:
            kind = control_type(key)
        except CorruptBatchError:
            kind = None
        if kind is None:
            self._skip("control record that ends no transaction")
        else:
            end_transaction(self._offsets, producer, committed=kind is ControlType.COMMIT)

    def _skip(self, what: str) -> None:
        self.skipped[what] = self.skipped.get(what, 0) + 1

    def decode_groups(self) -> Iterator[GroupId]:
        """Decode what is stored of each group, one at a time. Raises ``LoadFailedError``."""
        for group_id, value in tuple(self._groups.items()):
            if isinstance(value, bytes):
                try:
                    self._groups[group_id] = decode_image(value)
                except KohortError as error:
                    raise LoadFailedError(f"cannot load group {group_id!r}: {error}") from error
                yield group_id

    def decode_next(self) -> GroupId | None:
        """Decode one more group; ``None`` when all are. Raises ``LoadFailedError``."""
        if self._decoding is None:
            self._decoding = self.decode_groups()
        return next(self._decoding, None)

    def wake_groups(self, out: Outcome, most: int) -> None:
        """Bring some of the decoded groups to life, in the order of the log; their sessions start now."""
        if self._waking is None:
            for group_id in tuple(self._offsets.groups):
                if group_id not in self._groups and group_id not in self._state.groups:
                    del self._offsets.groups[group_id]  # its group was deleted, they were forgotten
            consumer_max_size = out.state.settings.consumer_max_size
            consumers = [group for group in self._state.groups.values() if isinstance(group, ConsumerGroup)]
            for consumer in consumers:
                self._groups.pop(consumer.group_id, None)
                _wake_consumer_group(
                    consumer, self._cause(len(consumer.members), consumer_max_size, out), out
                )
            self._waking = iter(self._groups.items())
        max_size = out.state.settings.max_size
        for group_id, image in islice(self._waking, most):
            assert not isinstance(image, bytes), "a group was not decoded"
            cause = self._cause(0 if image is None else len(image.members), max_size, out)
            out.emit(GroupLoaded(group_id, image, cause))
            group = out.state.classic(group_id)
            _start_sessions(group, out)
            if len(group.members) > max_size:
                self._too_large.append((group, cause))

    def _cause(self, members: int, max_size: int, out: Outcome) -> PartitionLoaded:
        takeover = self.takeover
        if takeover is None:
            return PartitionLoaded(members, max_size)
        node, change, begun = takeover
        silent_ms = change.silent_ms + max(0, out.now.instant - begun)
        return PartitionLoaded(members, max_size, node, change.from_node, change.reason.value, silent_ms)

    def finish(self, out: Outcome) -> None:
        """Bring the rest of the groups to life; those that are too large rebalance."""
        for _ in self.decode_groups():
            pass  # nothing, if that has been done
        self.wake_groups(out, len(self._groups))
        for group, cause in self._too_large:
            prepare_rebalance(group, cause, out)
        schedule_sweep(out)


def _start_sessions(group: Group, out: Outcome) -> None:
    for member in group.members.values():
        arm_session(out.state, group.group_id, member.member_id, member.session_timeout_ms, out.now.instant)


def _wake_consumer_group(group: ConsumerGroup, cause: PartitionLoaded, out: Outcome) -> None:
    image = tuple(
        LoadedMember(each.member_id, each.details, each.current, group.target_of(each.member_id))
        for each in group.members.values()
    )
    out.emit(
        ConsumerGroupLoaded(group.group_id, group.epoch, group.target_epoch, len(group.members), image, cause)
    )
    for member in group.members.values():
        start_session(out.state, group, member, out.now.instant)
        await_revocation(out.state, group, member, out.now.instant)
