"""What ``kohort groups`` shows: the columns of ``kafka-consumer-groups``, and the same facts as JSON."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from kohort.cli.groups.lookup import Listed, PartitionLag, short_member_ids
from kohort.cli.screen import Column, TextTable, width_of
from kohort.client.admin.results import GroupInfo, MemberInfo
from kohort.model.topics import TopicPartition

Json = dict[str, object]

_NONE = "-"
_AWAY = -2  # the epoch of a static member that will be back


def _shown(value: object) -> str:
    return _NONE if value is None or value == "" else str(value)


def _host(member: MemberInfo | None) -> str | None:
    return None if member is None else member.client_host.removeprefix("/")


# Listing


def list_table(groups: Iterable[Listed]) -> TextTable:
    columns = (
        Column("group"),
        Column("state"),
        Column("protocol type", rank=2),
        Column("type", rank=1),
        Column("members", True),
        Column("lag", True),
    )
    rows = [
        (
            one.group.group_id,
            _shown(one.group.state),
            _shown(one.group.protocol_type),
            _shown(one.group.type),
            _shown(one.members),
            _shown(one.lag),
        )
        for one in groups
    ]
    return TextTable(columns, rows)


def list_json(groups: Iterable[Listed]) -> list[Json]:
    return [
        {
            "group": one.group.group_id,
            "state": one.group.state or None,
            "protocol_type": one.group.protocol_type,
            "type": one.group.type or None,
            "members": one.members,
            "lag": one.lag,
        }
        for one in groups
    ]


# Offsets and lag


def lag_table(
    groups: Sequence[tuple[GroupInfo, Sequence[PartitionLag]]], *, columns: int | None
) -> TextTable:
    """All partitions, then members that have none. What does not fit into ``columns`` has short ids."""
    return _with_short_ids(lambda names: _lag_table(groups, names), [group for group, _ in groups], columns)


def _with_short_ids(
    make: Callable[[Mapping[str, str]], TextTable], groups: Iterable[GroupInfo], columns: int | None
) -> TextTable:
    """The table with whole ids of members if that fits into ``columns``, else with short ones."""
    whole = make({})
    if columns is None or width_of(whole) <= columns:
        return whole
    return make(short_member_ids(one for group in groups for one in group.members))


def _lag_table(
    groups: Sequence[tuple[GroupInfo, Sequence[PartitionLag]]], names: Mapping[str, str]
) -> TextTable:
    columns = (
        Column("group", rank=3 if len(groups) == 1 else 0, is_heading=True),
        Column("topic"),
        Column("partition", True),
        Column("current-offset", True, rank=1),
        Column("log-end-offset", True, rank=2),
        Column("lag", True),
        Column("consumer-id", is_id=True),
        Column("host", rank=4),
        Column("client-id", rank=5),
    )
    rows = []
    for group, partitions in groups:
        rows += [(group.group_id, *_lag_row(one), *_who(one.member, names)) for one in partitions]
        idle = [one for one in group.members if not one.assignment]
        rows += [(group.group_id, *[_NONE] * 5, *_who(one, names)) for one in idle]
    return TextTable(columns, rows)


def _lag_row(one: PartitionLag) -> tuple[str, ...]:
    return (
        one.partition.topic,
        str(one.partition.partition),
        _shown(None if one.committed is None else one.committed.offset),
        _shown(one.end),
        _shown(one.lag),
    )


def _who(member: MemberInfo | None, names: Mapping[str, str]) -> tuple[str, str, str]:
    if member is None:
        return _NONE, _NONE, _NONE
    return names.get(member.member_id, member.member_id), _shown(_host(member)), _shown(member.client_id)


def lag_json(group: GroupInfo, partitions: Iterable[PartitionLag]) -> Json:
    return {
        "group": group.group_id,
        "state": group.state,
        "partitions": [
            {
                **_place(one.partition),
                "current_offset": None if one.committed is None else one.committed.offset,
                "log_end_offset": one.end,
                "lag": one.lag,
                "member_id": None if one.member is None else one.member.member_id,
                "host": _host(one.member),
                "client_id": None if one.member is None else one.member.client_id,
            }
            for one in partitions
        ],
        "members_without_partitions": [
            {"member_id": one.member_id, "host": _host(one), "client_id": one.client_id}
            for one in group.members
            if not one.assignment
        ],
    }


def _place(partition: TopicPartition) -> Json:
    return {"topic": partition.topic, "partition": partition.partition}


def offsets_table(partitions: Iterable[PartitionLag]) -> TextTable:
    columns = (
        Column("topic"),
        Column("partition", True),
        Column("current-offset", True),
        Column("leader-epoch", True, rank=3),
        Column("log-start-offset", True, rank=4),
        Column("log-end-offset", True, rank=1),
        Column("lag", True),
        Column("metadata", rank=2),
    )
    rows = [
        (
            one.partition.topic,
            str(one.partition.partition),
            str(one.committed.offset),
            _shown(_epoch(one)),
            _shown(one.start),
            _shown(one.end),
            _shown(one.lag),
            _shown(one.committed.metadata),
        )
        for one in partitions
        if one.committed is not None
    ]
    return TextTable(columns, rows)


def _epoch(one: PartitionLag) -> int | None:
    return None if one.committed is None or one.committed.leader_epoch < 0 else one.committed.leader_epoch


def offsets_json(group: GroupInfo, partitions: Iterable[PartitionLag]) -> Json:
    return {
        "group": group.group_id,
        "offsets": [
            {
                **_place(one.partition),
                "current_offset": one.committed.offset,
                "leader_epoch": _epoch(one),
                "log_start_offset": one.start,
                "log_end_offset": one.end,
                "lag": one.lag,
                "metadata": one.committed.metadata,
            }
            for one in partitions
            if one.committed is not None
        ],
    }


# Members and state


def members_table(group: GroupInfo, *, verbose: bool, columns: int | None = None) -> TextTable:
    """Who is in a group. What does not fit into ``columns`` has short ids."""
    return _with_short_ids(lambda names: _members_table(group, verbose, names), [group], columns)


def _members_table(group: GroupInfo, verbose: bool, names: Mapping[str, str]) -> TextTable:
    columns = [
        Column("consumer-id", is_id=True),
        Column("instance", rank=2),
        Column("host", rank=1),
        Column("client-id", rank=3),
        Column("#partitions", True),
    ]
    if group.epoch is not None:
        columns += [Column("epoch", True), Column("protocol", rank=4), Column("state")]
    if verbose:
        columns.append(Column("assignment"))
    rows = []
    for one in group.members:
        who, host, client_id = _who(one, names)
        row = [who, _shown(one.instance_id), host, client_id]
        row.append(str(len(one.assignment)))
        if group.epoch is not None:
            row += [_shown(one.epoch), one.protocol, member_state(group, one)]
        if verbose:
            row.append(_shown(_assignment(one)))
        rows.append(row)
    return TextTable(columns, rows)


def member_state(group: GroupInfo, member: MemberInfo) -> str:
    """How far a member of a consumer group is on its way to its target."""
    epoch, missing = member.epoch or 0, set(member.target or ()) - set(member.assignment)
    if epoch == _AWAY:
        return "away"
    if epoch < (group.target_epoch or 0):
        return "behind"  # it gives up partitions, or has not sent a heartbeat since the target changed
    return f"waits for {len(missing)}" if missing else "stable"


def _assignment(member: MemberInfo) -> str:
    """What a member has, and where a KIP-848 member is going if that is somewhere else."""
    from kohort.story.names import show_partitions

    text = show_partitions(member.assignment)
    if member.target is None or set(member.target) == set(member.assignment):
        return text
    return f"{text or 'none'} → {show_partitions(member.target) or 'none'}"


def members_json(group: GroupInfo) -> Json:
    return {
        "group": group.group_id,
        "state": group.state,
        "members": [
            {
                "member_id": one.member_id,
                "instance_id": one.instance_id,
                "host": _host(one),
                "client_id": one.client_id,
                "epoch": one.epoch,
                "protocol": one.protocol,
                "state": None if group.epoch is None else member_state(group, one),
                "assignment": [_place(partition) for partition in one.assignment],
                "target": None if one.target is None else [_place(partition) for partition in one.target],
            }
            for one in group.members
        ],
    }


def state_table(group: GroupInfo) -> TextTable:
    columns = (
        Column("group"),
        Column("coordinator (id)", rank=1),
        Column("assignment-strategy", rank=2),
        Column("state"),
        Column("#members", True),
        *((Column("epoch", True), Column("target-epoch", True)) if group.epoch is not None else ()),
    )
    coordinator = f"{group.coordinator.address} ({group.coordinator.node_id})"
    row = [group.group_id, coordinator, _shown(group.assignor), group.state, str(len(group.members))]
    if group.epoch is not None:
        row += [str(group.epoch), _shown(group.target_epoch)]
    return TextTable(columns, [row])


def state_json(group: GroupInfo) -> Json:
    return {
        "group": group.group_id,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "coordinator": {
            "node_id": group.coordinator.node_id,
            "host": group.coordinator.host,
            "port": group.coordinator.port,
        },
        "assignor": group.assignor or None,
        "state": group.state,
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "members": len(group.members),
    }
