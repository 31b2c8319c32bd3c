"""Fetch (1): batches as they are stored, by a long poll, in sessions if the consumer likes.

v4: isolation level; v5: log start offset; v7: sessions; v9: leader epochs; v10: zstd; v11: rack;
v12: flexible, last fetched epoch; v13: topic ids; v15: replica state; v16: node endpoints;
v17 and v18: for followers.
"""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kohort.broker.context import Context, Result
from kohort.broker.fetch import FetchTerms, Planned, is_satisfied, plan, read
from kohort.broker.fetch_sessions import (
    OPEN_SESSION,
    SESSIONLESS,
    FetchSession,
    Opened,
    PartitionKey,
    SentNumbers,
    TopicKey,
    Wanted,
)
from kohort.broker.heavy_work import WorkSlice
from kohort.broker.leadership import add_endpoint
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicId, TopicName
from kohort.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_FIRST_VERSION_WITH_IDS = 13
_WAIT_FOR_ROOM_MS = 500
_AT_ONCE = 1_000  # partitions
_PRICE = 8


def handle(broker: "BrokerState", request: FetchRequest, context: Context) -> Result:
    by_id = context.version >= _FIRST_VERSION_WITH_IDS
    opened = _open(broker, request, by_id=by_id)
    if isinstance(opened, ErrorCode):
        return FetchResponse(error_code=opened)
    terms = FetchTerms(
        context.version,
        request.min_bytes,
        min(request.max_bytes, broker.configs.number("fetch.max.bytes")),
        request.isolation_level == 1,
        may_read=context.may_read,
        listener=context.listener,
    )
    if len(opened.wanted) > _AT_ONCE:
        return _answer_in_slices(broker, terms, opened, request.max_wait_ms, context)
    planned = list(plan(broker, opened.wanted, terms))
    if request.max_wait_ms <= 0 or is_satisfied(planned, terms):
        if not broker.budget.room_for_reply() and request.max_wait_ms > 0:
            return _answer_when_there_is_room(broker, terms, opened, request.max_wait_ms)
        return _answer(broker, planned, terms, opened)
    context.waits_from_here_on()
    return _wait_and_answer(broker, planned, terms, opened, request.max_wait_ms)


def refuse(request: FetchRequest, code: ErrorCode) -> FetchResponse:
    """Says it for each partition too: before v7 there is no other place."""
    return FetchResponse(
        error_code=code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=part.partition,
                        error_code=code,
                        high_watermark=-1,
                        aborted_transactions=None,
                        records=b"",
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.partitions
        ],
    )


async def _wait_and_answer(
    broker: "BrokerState", planned: list[Planned], terms: FetchTerms, opened: Opened, max_wait_ms: int
) -> FetchResponse:
    await broker.fetch_waiters.wait(planned, terms, max_wait_ms)
    # Topics may have gone or moved meanwhile: look everything up again.
    answer = _answer(broker, list(plan(broker, opened.wanted, terms)), terms, opened)
    return answer if isinstance(answer, FetchResponse) else await answer


async def _answer_when_there_is_room(
    broker: "BrokerState", terms: FetchTerms, opened: Opened, max_wait_ms: int
) -> FetchResponse:
    """Others have not taken their replies yet: wait a moment, then answer without records if need be."""
    await asyncio.sleep(min(max_wait_ms, _WAIT_FOR_ROOM_MS) / 1_000)
    answer = _answer(broker, list(plan(broker, opened.wanted, terms)), terms, opened)
    return answer if isinstance(answer, FetchResponse) else await answer


def _within(room: int, terms: FetchTerms) -> FetchTerms:
    return terms if terms.max_bytes <= room else terms._replace(max_bytes=room, may_exceed=room > 0)


async def _answer_in_slices(
    broker: "BrokerState", terms: FetchTerms, opened: Opened, max_wait_ms: int, context: Context
) -> FetchResponse:
    """The same for very many partitions: others have their turn between them."""
    slice_ = WorkSlice()

    async def planned() -> list[Planned]:
        found: list[Planned] = []
        for part in plan(broker, opened.wanted, terms):
            found.append(part)
            await slice_.spend(_PRICE)
        return found

    async def answered(parts: list[Planned]) -> FetchResponse:
        answer = FetchedTopics(opened, parts, terms.listener)

        def take(key: PartitionKey, part: PartitionData) -> bool:
            answer.add(key, part)
            return slice_.is_full(_PRICE)

        reading = broker.heavy_work.run(read(parts, _within(broker.budget.room_for_reply(), terms), take))
        if reading is not None:
            await reading
        return answer.response()

    parts = await planned()
    waits = (
        max_wait_ms > 0 and not is_satisfied(parts, terms) and broker.fetch_waiters.has_room_for(len(parts))
    )
    if waits:
        context.waits_from_here_on()
        await broker.fetch_waiters.wait(parts, terms, max_wait_ms)
        del parts
        async with broker.heavy_work.its_turn():  # one record may have woken many
            return await answered(await planned())
    return await answered(parts)


def _open(broker: "BrokerState", request: FetchRequest, *, by_id: bool) -> Opened | ErrorCode:
    def key(name: str, topic_id: bytes) -> TopicKey:
        return TopicId(topic_id) if by_id else TopicName(name)

    wanted: dict[PartitionKey, Wanted] = {
        (key(topic.topic, topic.topic_id), part.partition): Wanted(
            part.fetch_offset, part.partition_max_bytes, part.current_leader_epoch, part.last_fetched_epoch
        )
        for topic in request.topics
        for part in topic.partitions
    }
    now = broker.clock.now().instant
    if request.session_epoch in (SESSIONLESS, OPEN_SESSION):
        return broker.fetch_sessions.open(
            request.session_id, request.session_epoch, wanted, by_id=by_id, now=now
        )
    forgotten = [
        (key(topic.topic, topic.topic_id), partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    return broker.fetch_sessions.resume(
        request.session_id, request.session_epoch, (wanted, forgotten), by_id=by_id, now=now
    )


def _answer(
    broker: "BrokerState", planned: list[Planned], terms: FetchTerms, opened: Opened
) -> FetchResponse | Awaitable[FetchResponse]:
    answer = FetchedTopics(opened, planned, terms.listener)
    reading = broker.heavy_work.run(read(planned, _within(broker.budget.room_for_reply(), terms), answer.add))
    return answer.response() if reading is None else _respond(reading, answer)


async def _respond(reading: Awaitable[None], answer: "FetchedTopics") -> FetchResponse:
    await reading
    return answer.response()


class FetchedTopics:
    """Partitions gathered under their topics, in the order topics first appear."""

    def __init__(self, opened: Opened, planned: list[Planned], listener: str) -> None:
        self._listener = listener
        self._opened = opened
        self._planned = planned
        self._topics: dict[TopicKey, FetchableTopicResponse] = {}

    def add(self, key: PartitionKey, part: PartitionData) -> bool:
        """Take a partition; a session that goes on leaves out what is not new. It never takes long: false."""
        session = self._opened.session
        if session is not None and not _is_news(session, key, part) and self._opened.incremental:
            return False
        topic = key[0]
        entry = self._topics.get(topic)
        if entry is None:
            entry = self._topics[topic] = (
                FetchableTopicResponse(topic=topic)
                if isinstance(topic, str)
                else FetchableTopicResponse(topic_id=topic)
            )
        entry.partitions.append(part)
        return False

    def response(self) -> FetchResponse:
        session = self._opened.session
        response = FetchResponse(
            session_id=session.session_id if session else 0, responses=list(self._topics.values())
        )
        for part in self._planned:
            if part.leader is not None:
                add_endpoint(response.node_endpoints, NodeEndpoint, part.leader.node, self._listener)
        return response


def _is_news(session: FetchSession, key: PartitionKey, part: PartitionData) -> bool:
    return session.is_news(
        key,
        SentNumbers(part.high_watermark, part.log_start_offset),
        has_records=bool(part.records),
        failed=part.error_code != 0 or part.diverging_epoch is not None,
    )
