"""Reading a partition of ``__consumer_offsets`` back (``offsets-and-log.md`` §7.5)."""

from collections.abc import Iterable

from kohort.groups.causes import PartitionLoaded
from kohort.groups.classic.rebalance import prepare_rebalance
from kohort.groups.classic.sessions import arm_session
from kohort.groups.classic.state import Group
from kohort.groups.encoding import decode_image
from kohort.groups.events import GroupLoaded
from kohort.groups.offsets.apply import drop_offset, end_transaction, put_offset, put_transactional_offset
from kohort.groups.offsets.retention import schedule_sweep
from kohort.groups.offsets.state import OffsetAddress, OffsetTable, TransactionalOffset
from kohort.groups.outcome import Outcome
from kohort.model.errors import KohortError
from kohort.model.ids import GroupId, Partition, ProducerId, TopicName
from kohort.records.offsets_topic import GroupKey, KeyReader, OffsetKey, decode_offset_value
from kohort.records.record import Record

NO_PRODUCER = ProducerId(-1)
_ABORT, _COMMIT = 0, 1


class LoadFailedError(KohortError):
    """The partition cannot be served: answer 16 for it until it is elected anew."""


class Loader:
    """Takes the batches of a log in order; ``finish`` makes a shard's state of them.

    Of each group only the newest record is decoded, and offsets are kept as the bytes they are:
    a million of them load in seconds.
    """

    __slots__ = ("_groups", "_keys", "_offsets", "skipped")

    def __init__(self, offsets: OffsetTable) -> None:
        self._offsets = offsets
        self._groups: dict[GroupId, bytes | None] = {}  # None: known by its offsets alone
        self._keys = KeyReader()
        self.skipped: dict[str, int] = {}  # what was not understood and left alone, with how often

    def replay(self, records: Iterable[Record], producer: ProducerId, is_control: bool) -> None:
        """Take one batch. Raises ``LoadFailedError`` for what must be understood and is not."""
        offset = -1
        try:
            for offset, _, key, value, _ in records:
                if is_control:
                    self._end_transaction(producer, key)
                elif key is None or len(key) < 2:
                    self._skip("record without a key")
                else:
                    self._take(key, value, offset, producer)
        except KohortError as error:
            raise LoadFailedError(
                f"cannot load the group data at log offset {offset}: {error}",
                hint="the partition is not served until it is repaired or elected anew",
            ) from error

    def _take(self, key: bytes, value: bytes | None, log_offset: int, producer: ProducerId) -> None:
        decoded = self._keys.read(key)
        if isinstance(decoded, OffsetKey):
            group_id = GroupId(decoded.group)
            address = (group_id, TopicName(decoded.topic), Partition(decoded.partition))
            self._take_offset(address, value, log_offset, producer)
        elif isinstance(decoded, GroupKey):
            self._take_group(GroupId(decoded.group), value)
        else:
            self._skip(f"record of type {decoded.type}")

    def _take_offset(
        self, address: OffsetAddress, value: bytes | None, log_offset: int, producer: ProducerId
    ) -> None:
        if value is None:
            drop_offset(self._offsets, address)
            return
        # Version 3 without metadata, 24 bytes, is nearly every commit and can be kept unread.
        if len(value) != 24 or value[:2] != b"\x00\x03" or value[14:16] != b"\x00\x00":
            decode_offset_value(value)
        if address[0] not in self._groups:
            self._groups[address[0]] = None
        if producer == NO_PRODUCER:
            put_offset(self._offsets, address, value)
        else:
            written = TransactionalOffset(log_offset, value)
            put_transactional_offset(self._offsets, producer, address, written)

    def _take_group(self, group_id: GroupId, value: bytes | None) -> None:
        if value is None:
            self._groups.pop(group_id, None)
        else:
            self._groups[group_id] = value

    def _end_transaction(self, producer: ProducerId, key: bytes | None) -> None:
        kind = int.from_bytes(key[2:4], "big", signed=True) if key is not None and len(key) >= 4 else -1
        if kind in (_ABORT, _COMMIT):
            end_transaction(self._offsets, producer, committed=kind == _COMMIT)
        else:
            self._skip(f"control record of type {kind}")

    def _skip(self, what: str) -> None:
        self.skipped[what] = self.skipped.get(what, 0) + 1

    def finish(self, out: Outcome) -> None:
        """Bring the groups to life: sessions start now, a group that is too large rebalances."""
        for group_id in tuple(self._offsets.groups):
            if group_id not in self._groups:
                del self._offsets.groups[group_id]  # its group was deleted, they were forgotten
        max_size = out.state.settings.max_size
        for group_id, value in self._groups.items():
            image = None
            if value is not None:
                try:
                    image = decode_image(value)
                except KohortError as error:
                    raise LoadFailedError(f"cannot load group {group_id!r}: {error}") from error
            cause = PartitionLoaded(0 if image is None else len(image.members), max_size)
            out.emit(GroupLoaded(group_id, image, cause))
            group = out.state.groups[group_id]
            _start_sessions(group, out)
            if len(group.members) > max_size:
                prepare_rebalance(group, cause, out)
        schedule_sweep(out)


def _start_sessions(group: Group, out: Outcome) -> None:
    for member in group.members.values():
        arm_session(out.state, group.group_id, member.member_id, member.session_timeout_ms, out.now.instant)
