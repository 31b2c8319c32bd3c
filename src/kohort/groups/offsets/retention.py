"""Retention: offsets that expire, and groups that have nothing left (offsets-and-log 6)."""

from kohort.coordination.purgatory import DelayedOperation
from kohort.groups.causes import RetentionPassed
from kohort.groups.commands import SweepOffsets
from kohort.groups.events import OffsetsDeleted
from kohort.groups.group import AnyGroup
from kohort.groups.offsets.state import PartitionKey, StoredOffset
from kohort.groups.outcome import Outcome
from kohort.groups.removal import remove_group
from kohort.model.ids import GroupId, Instant, Partition, TopicName
from kohort.records.offsets_topic import decode_commit

SWEEP_KEY = "sweep"
OFFSETS_AT_A_TIME = 5_000  # so that a large shard is not deaf while it sweeps
_PAUSE_MS = 1
_NO_EXPIRY = -1


class DelayedSweep(DelayedOperation[Outcome]):
    """Waits until it is time to look at (the rest of) the groups again."""

    __slots__ = ("rest",)

    def __init__(self, rest: tuple[GroupId, ...] | None) -> None:
        super().__init__()
        self.rest = rest

    def on_expiration(self, context: Outcome) -> None:
        """Order the sweep."""
        context.fired.append(SweepOffsets(self.rest))


def schedule_sweep(out: Outcome, rest: tuple[GroupId, ...] | None = None) -> None:
    """Look again after the check interval, or go on in a moment if groups are left."""
    delay = out.state.settings.offsets_retention_check_interval_ms if rest is None else _PAUSE_MS
    out.state.deletion_time.at(out.now)  # a jump of the wall clock is measured from here
    deadline = Instant(out.now.instant + delay)
    out.state.housekeeping.replace(DelayedSweep(rest), SWEEP_KEY, deadline, out)


def sweep_offsets(command: SweepOffsets, out: Outcome) -> None:
    """Forget what has expired in as many groups as are done quickly; the others follow."""
    groups = tuple(out.state.groups) if command.groups is None else command.groups
    out.is_atomic = False
    seen = 0
    for index, group_id in enumerate(groups):
        if seen >= OFFSETS_AT_A_TIME:
            schedule_sweep(out, groups[index:])
            return
        group: AnyGroup | None = out.state.groups.get(group_id)
        if group is not None:
            seen += 1 + _sweep_group(group, out)
    schedule_sweep(out)


def _sweep_group(group: AnyGroup, out: Outcome) -> int:
    """Expire one group's offsets, and the group if nothing holds it; returns how many were looked at."""
    table = out.state.offsets
    kept = dict.fromkeys(table.open_partitions(group.group_id) if table.open_offsets else ())
    stored = [
        (topic, partition, offset)
        for topic, by_partition in table.groups.get(group.group_id, {}).items()
        for partition, offset in by_partition.items()
    ]
    expired = _expired(group, stored, kept, out)
    cause = RetentionPassed(len(expired), out.state.settings.offsets_retention_ms)
    if expired:
        out.emit(OffsetsDeleted(group.group_id, expired, cause))
    if group.is_empty and len(expired) == len(stored) and not kept:
        remove_group(group, cause, out)
    return len(stored)


def _expired(
    group: AnyGroup,
    stored: list[tuple[TopicName, Partition, StoredOffset]],
    kept: dict[PartitionKey, None],
    out: Outcome,
) -> tuple[PartitionKey, ...]:
    if not group.may_expire_offsets:
        return ()
    now, retention = out.state.deletion_time.at(out.now), out.state.settings.offsets_retention_ms
    since = group.unused_since
    gone: list[PartitionKey] = []
    for topic, partition, offset in stored:
        if (topic, partition) in kept or group.is_consuming(topic):
            continue
        kept_offset = decode_commit(offset) if isinstance(offset, bytes) else offset
        if kept_offset.expire_timestamp != _NO_EXPIRY:
            over = now >= kept_offset.expire_timestamp
        else:
            over = now - (kept_offset.commit_timestamp if since is None else since) >= retention
        if over:
            gone.append((topic, partition))
    return tuple(gone)
