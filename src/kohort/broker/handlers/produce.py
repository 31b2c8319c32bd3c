"""Produce (0): append one record batch to each partition named.

v3: transactional id, record batches v2; v5: log start offset; v7: zstd; v8: errors of single records;
v9: flexible; v10: current leader; v11: TRANSACTION_ABORTABLE; v12: transactions 2; v13: topic ids.
"""

import asyncio
from collections.abc import Awaitable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from kohort.broker.context import Context, Response, Result
from kohort.broker.heavy_work import Steps
from kohort.broker.leadership import Leader, NotLedError, add_endpoint, leader_elsewhere, led
from kohort.broker.topics import ServedTopic
from kohort.log.log import Append, Appended, Log
from kohort.model.errors import ErrorCode, ProtocolError, RefusedError
from kohort.model.ids import WallTime
from kohort.records.produced import (
    NotAtOnceError,
    NotOneBatchError,
    Produced,
    ProduceRules,
    RefusedBatchError,
    check_produced,
    price_of,
)
from kohort.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

NO_REPLY = 0  # acks of a producer that does not want to know
_LEGAL_ACKS = (-1, NO_REPLY, 1)
_BEFORE_THE_LOG = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_NO_TRANSACTIONS = "Kohort does not serve transactions."
_FIRST_VERSION_WITH_IDS = 13
_SHOWN = 249  # of a topic's name, which need not be a legal one
_APPENDED_IN_ONE_GO = 500
_IN_ONE_GO = 25_000  # microseconds, about: what is looked at without giving way


Checks: TypeAlias = Steps[Produced, None]


class Work:
    """What is known of one request so far: its response, and the batches that may be appended."""

    __slots__ = ("appends", "broker", "context", "response", "waiting")

    def __init__(self, broker: "BrokerState", response: ProduceResponse, context: Context) -> None:
        self.broker = broker
        self.context = context
        self.response = response
        self.appends: list[Append] = []
        self.waiting: list[tuple[PartitionProduceResponse, Log]] = []  # the entries the appends belong to

    def pieces(self) -> Iterator["Work"]:
        """The same response and, one after the other, appends that do not take long."""
        for start in range(0, len(self.appends) or 1, _APPENDED_IN_ONE_GO):
            piece = Work(self.broker, self.response, self.context)
            piece.appends = self.appends[start : start + _APPENDED_IN_ONE_GO]
            piece.waiting = self.waiting[start : start + _APPENDED_IN_ONE_GO]
            yield piece

    def fill(self, results: list[Appended | RefusedError]) -> None:
        """It is known how the appends went."""
        for (entry, log), result in zip(self.waiting, results, strict=True):
            if isinstance(result, RefusedError):
                self.refuse(entry, result, log)
            else:
                entry.base_offset = result.base_offset
                entry.log_append_time_ms = result.append_time
                entry.log_start_offset = result.log_start_offset

    def refuse(self, entry: PartitionProduceResponse, error: RefusedError, log: Log | None) -> None:
        _fill_error(entry, error, log)
        leader = error.leader if isinstance(error, NotLedError) else None
        if leader is None and log is not None and error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            leader = self._new_leader(log)
        if leader is not None:
            entry.current_leader = LeaderIdAndEpoch(leader_id=leader.node.node_id, leader_epoch=leader.epoch)
            add_endpoint(self.response.node_endpoints, NodeEndpoint, leader.node, self.context.listener)

    def _new_leader(self, log: Log) -> Leader | None:
        """Who leads a partition now that an append of ours was too late for."""
        topic = self.broker.topics.get(log.partition.topic)
        if topic is None or topic.topic_id != log.topic_id:
            return None
        return leader_elsewhere(self.broker, topic, log.partition.partition)


def handle(broker: "BrokerState", request: ProduceRequest, context: Context) -> Result:
    if request.acks not in _LEGAL_ACKS:
        return refuse(request, ErrorCode.INVALID_REQUIRED_ACKS)
    work = Work(broker, ProduceResponse(), context)
    checks = broker.heavy_work.run(_check(broker, request, context.version, work))
    if checks is None:
        return _append(broker, request, context, work)
    return _append_later(broker, request, context, work, checks)


async def _append_later(
    broker: "BrokerState", request: ProduceRequest, context: Context, work: Work, checks: Awaitable[None]
) -> Response:
    await checks
    for piece in work.pieces():
        _drop_orphans(broker, piece)
        result = _append(broker, request, context, piece)
        if isinstance(result, Awaitable):
            await result
        await asyncio.sleep(0)
    return None if request.acks == NO_REPLY else work.response


def _drop_orphans(broker: "BrokerState", work: Work) -> None:
    """A topic may have gone since its batches were looked at, and another of its name may have come."""
    checked = list(zip(work.appends, work.waiting, strict=True))
    work.appends, work.waiting = [], []
    for append, (entry, log) in checked:
        name, partition = log.partition
        try:
            now = led(broker, broker.topics.get(name), partition)
            if now.topic_id != log.topic_id:
                raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        except RefusedError as refused:
            work.refuse(entry, refused, log)
        else:
            work.appends.append(append)
            work.waiting.append((entry, log))


def _check(broker: "BrokerState", request: ProduceRequest, version: int, work: Work) -> Checks:
    """Fill in an entry for each partition, and the batches that may be appended."""
    now = broker.clock.now().wall
    looked_at = 0
    for data in request.topic_data:
        if not data.partition_data:
            continue
        topic = _find(broker, request, data, version)
        result = TopicProduceResponse(name=data.name, topic_id=data.topic_id)
        work.response.responses.append(result)
        for part in data.partition_data:
            price = price_of(part.records or b"")
            if looked_at and looked_at + price > _IN_ONE_GO:
                yield None
                looked_at = 0
            looked_at += price
            entry = PartitionProduceResponse(index=part.index, base_offset=-1)
            result.partition_responses.append(entry)
            try:
                log, append = yield from _checked(broker, topic, part, now, version)
                work.appends.append(append)
                work.waiting.append((entry, log))
            except RefusedError as refused:
                found = topic.logs.get(part.index) if isinstance(topic, ServedTopic) else None
                work.refuse(entry, refused, found)


def _append(broker: "BrokerState", request: ProduceRequest, context: Context, work: Work) -> Result:
    """Append what was accepted; the response when it is known how that went."""
    future = broker.storage.append(work.appends)
    if future.done():
        work.fill(future.result())
    if request.acks == NO_REPLY:
        _close_after_failure(work.response, context)
        if not future.done():
            future.add_done_callback(partial(_look_at_silent, work, context))
        return None
    if future.done():
        return work.response

    async def answer() -> ProduceResponse:
        work.fill(await future)
        return work.response

    return answer()


def _look_at_silent(
    work: Work, context: Context, done: asyncio.Future[list[Appended | RefusedError]]
) -> None:
    """A silent Produce has been synced, or has not: then its connection is closed, late as it is."""
    work.fill(done.result())
    try:
        _close_after_failure(work.response, context)
    except ProtocolError as error:
        context.connection.close(str(error))


def refuse(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=part.index, error_code=code, base_offset=-1)
                    for part in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _find(
    broker: "BrokerState", request: ProduceRequest, data: TopicProduceData, version: int
) -> ServedTopic | RefusedError:
    """The topic, or the error all its partitions get."""
    if request.transactional_id is not None:
        return RefusedError(ErrorCode.INVALID_TXN_STATE, _NO_TRANSACTIONS)
    by_id = version >= _FIRST_VERSION_WITH_IDS
    topic = broker.topics.by_id(data.topic_id) if by_id else broker.topics.get(data.name)
    if topic is None:
        return RefusedError(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.is_internal:
        return RefusedError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}"
        )
    return topic


def _checked(
    broker: "BrokerState",
    topic: ServedTopic | RefusedError,
    part: PartitionProduceData,
    now: WallTime,
    version: int,
) -> Steps[Produced, tuple[Log, Append]]:
    """A batch that may be appended, or RefusedError; a step if it takes long to look at."""
    if isinstance(topic, RefusedError):
        raise topic
    log = led(broker, topic, part.index)
    if part.records is None:
        raise NotOneBatchError(ErrorCode.INVALID_RECORD, "exactly one batch is expected, there is none")
    rules = _rules(topic, now, version)
    try:
        produced: Produced | None = check_produced(part.records, rules)
    except NotAtOnceError:
        produced = yield partial(check_produced, part.records, rules._replace(at_once=False))
    assert produced is not None, "a step was not taken"
    if produced.header.is_transactional:
        raise RefusedError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _NO_TRANSACTIONS)
    batch = produced.replacement if produced.replacement is not None else bytearray(part.records)
    return log, Append(log.partition, batch, log.leader_epoch, now, from_client=True)


def _rules(topic: ServedTopic, now: WallTime, version: int) -> ProduceRules:
    return ProduceRules(
        now,
        version,
        topic.max_message_bytes,
        topic.segment_bytes,
        topic.compacted,
        topic.log_append_time,
        topic.timestamp_before_max_ms,
        topic.timestamp_after_max_ms,
        topic.codec,
        at_once=True,
    )


def _fill_error(entry: PartitionProduceResponse, error: RefusedError, log: Log | None) -> None:
    """As Kafka fills it: a batch its log refused gets the log's start, one that never got there does not."""
    entry.error_code = error.code
    if log is not None and error.code not in _BEFORE_THE_LOG and not isinstance(error, NotOneBatchError):
        entry.log_start_offset = log.start_offset
    if isinstance(error, RefusedBatchError):
        entry.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in error.record_errors
        ]
    entry.error_message = str(error)


def _close_after_failure(response: ProduceResponse, context: Context) -> None:
    """No client waits for a reply; after a failure a closed connection is the only sign a client can see."""
    for topic, entry in _entries(response):
        if entry.error_code:
            raise ProtocolError(
                f"{context} with acks=0 failed for partition {entry.index} of {topic[:_SHOWN]!r}:"
                f" {ErrorCode(entry.error_code).name}"
            )


def _entries(response: ProduceResponse) -> Iterator[tuple[str, PartitionProduceResponse]]:
    for topic in response.responses:
        for entry in topic.partition_responses:
            yield topic.name or topic.topic_id.hex(), entry
