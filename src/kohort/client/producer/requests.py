"""Produce requests made of batches, and what the answer means for each batch. No I/O."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from kohort.client.errors import BrokerError
from kohort.client.metadata import Metadata
from kohort.client.producer.batch import Batch
from kohort.client.producer.settings import ProducerSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID, TopicName
from kohort.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

BY_NAME = 12  # Produce 13 names topics by id only
_HINTS = {
    ErrorCode.MESSAGE_TOO_LARGE: "raise max.message.bytes of the topic, or send smaller records",
    ErrorCode.INVALID_TIMESTAMP: "see message.timestamp.before.max.ms and …after.max.ms of the topic",
    ErrorCode.INVALID_RECORD: "a compacted topic takes no record without a key",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "choose another compression_type: this broker is too old for it",
    ErrorCode.INVALID_PRODUCER_EPOCH: "another producer has our id; records after this one get a new one",
}


class Outgoing(NamedTuple):
    """A request with the batches in it, and the highest version that can carry it."""

    request: ProduceRequest
    batches: Sequence[Batch]
    highest: int | None


def pack(batches: Sequence[Batch], metadata: Metadata, settings: ProducerSettings) -> Outgoing:
    """One request to one node, with one batch for each of its partitions."""
    by_topic: dict[TopicName, list[PartitionProduceData]] = {}
    for batch in batches:
        topic, number = batch.partition
        piece = PartitionProduceData(index=number, records=batch.encode(settings.codec))
        by_topic.setdefault(topic, []).append(piece)
    ids = {topic: metadata.topic(topic).topic_id for topic in by_topic}
    request = ProduceRequest(
        acks=settings.acks_on_wire,
        timeout_ms=settings.request_timeout_ms,
        topic_data=[
            TopicProduceData(name=topic, topic_id=ids[topic], partition_data=pieces)
            for topic, pieces in by_topic.items()
        ],
    )
    return Outgoing(request, batches, BY_NAME if NO_TOPIC_ID in ids.values() else None)


def answers(outgoing: Outgoing, reply: ProduceResponse) -> list[tuple[Batch, PartitionProduceResponse]]:
    """Each batch with its part of the reply; one the broker left out counts as an unknown error."""
    names = {topic.topic_id: topic.name for topic in outgoing.request.topic_data}
    parts = {
        (topic.name or names.get(topic.topic_id, ""), part.index): part
        for topic in reply.responses
        for part in topic.partition_responses
    }
    missing = PartitionProduceResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message="no answer")
    return [
        (batch, parts.get((batch.partition.topic, batch.partition.partition), missing))
        for batch in outgoing.batches
    ]


def refusal(batch: Batch, part: PartitionProduceResponse) -> BrokerError:
    """What the broker said about a batch, with the setting to look at where we know one."""
    message = part.error_message
    if part.record_errors:
        first = part.record_errors[0]
        message = f"record {first.batch_index} of the batch: {first.batch_index_error_message or message}"
    error = BrokerError(part.error_code, f"write to {batch.partition}", message)
    error.hint = next((hint for code, hint in _HINTS.items() if code == part.error_code), error.hint)
    return error


class Verdict(Enum):
    """What becomes of a batch after its answer."""

    STORED = "stored, where the answer says"
    STORED_BEFORE = "stored by an earlier attempt; where, the broker forgot"
    AGAIN = "to be sent again, unchanged"
    MISNUMBERED = "to be sent again; with other numbers, unless batches before it were the reason"
    FENCED = "refused, and our producer id with it"
    TOO_LARGE = "to be sent in two halves"
    REFUSED = "refused for good"


_SPECIAL = {
    ErrorCode.NONE: Verdict.STORED,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Verdict.STORED_BEFORE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.MISNUMBERED,
    ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.MISNUMBERED,
    ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.FENCED,
    ErrorCode.PRODUCER_FENCED: Verdict.FENCED,
    ErrorCode.MESSAGE_TOO_LARGE: Verdict.TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE: Verdict.TOO_LARGE,
}


def verdict(code: int, *, records: int, is_numbered: bool) -> Verdict:
    """Of an error code, for a batch of so many records."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return Verdict.REFUSED  # of a newer broker: unknown whether it passes
    found = _SPECIAL.get(known, Verdict.AGAIN if known.retriable else Verdict.REFUSED)
    if found is Verdict.TOO_LARGE and records < 2:
        return Verdict.REFUSED
    if found in (Verdict.MISNUMBERED, Verdict.FENCED) and not is_numbered:
        return Verdict.REFUSED
    return found
