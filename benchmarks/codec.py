"""Encoding and decoding next to kio's reader and writer."""

import io
import timeit
from collections.abc import Callable
from typing import Any

from benchmarks.rounds import Table
from kohort.codec.compiled import decode, encode
from kohort.codec.schema import Message
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def _commit(partitions: int) -> OffsetCommitRequest:
    rows = [
        OffsetCommitRequestPartition(partition_index=n, committed_offset=n, committed_metadata="")
        for n in range(partitions)
    ]
    return OffsetCommitRequest(
        group_id="billing",
        generation_id_or_member_epoch=7,
        member_id="consumer-1-5f0c",
        topics=[OffsetCommitRequestTopic(name="orders", partitions=rows)],
    )


CASES: tuple[tuple[str, Message, int, str], ...] = (
    (
        "Heartbeat v4",
        HeartbeatRequest(group_id="billing", generation_id=7, member_id="consumer-1-5f0c"),
        4,
        "kio.schema.heartbeat.v4.request.HeartbeatRequest",
    ),
    (
        "OffsetCommit v8, 1 partition",
        _commit(1),
        8,
        "kio.schema.offset_commit.v8.request.OffsetCommitRequest",
    ),
    (
        "OffsetCommit v8, 100 partitions",
        _commit(100),
        8,
        "kio.schema.offset_commit.v8.request.OffsetCommitRequest",
    ),
)


def tables(rounds: int) -> list[Table]:
    """Microseconds for one message, ours first."""
    found = []
    for name, message, version, path in CASES:
        data = encode(message, version)
        read, write, theirs = _kio(path, data)
        for what, ours, other in (
            (
                "encode",
                lambda m=message, v=version: encode(m, v),
                lambda w=write, t=theirs: w(io.BytesIO(), t),
            ),
            (
                "decode",
                lambda m=message, v=version, d=data: decode(type(m), v, d),
                lambda r=read, d=data: r(d),
            ),
        ):
            table = Table(f"{name}: {what}", "µs", higher_is_better=False)
            for _ in range(rounds):
                table.add("Kohort", _microseconds(ours))
                table.add("kio", _microseconds(other))
            found.append(table)
    return found


def _kio(path: str, data: bytes) -> tuple[Callable[[bytes], Any], Callable[..., Any], Any]:
    import importlib

    from kio.serial import entity_reader, entity_writer

    module, _, name = path.rpartition(".")
    entity = getattr(importlib.import_module(module), name)
    reader, writer = entity_reader(entity), entity_writer(entity)

    def read(content: bytes) -> Any:  # noqa: ANN401 - an entity of kio
        return reader(content, 0)[0]

    return read, writer, read(data)


def _microseconds(action: Callable[[], object]) -> float:
    timer = timeit.Timer(action)
    number, _ = timer.autorange()
    return 1e6 * min(timer.repeat(3, max(1, number // 4))) / max(1, number // 4)
