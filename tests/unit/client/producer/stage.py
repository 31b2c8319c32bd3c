"""Scripted brokers that take records, and a producer in a hurry."""

from collections.abc import Callable
from typing import Unpack

from tests.unit.client.scripted import ScriptedCluster

from kohort.client.cluster import ClusterClient
from kohort.client.producer import AsyncProducer
from kohort.client.producer.settings import SettingNames
from kohort.records.batch import read_header
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)


def quick(cluster: ClusterClient, **more: Unpack[SettingNames]) -> AsyncProducer:
    """A producer that neither lingers nor pauses."""
    settings: SettingNames = {"linger_ms": 0, "retry_backoff_ms": 1, "max_block_ms": 2_000, **more}
    return AsyncProducer.on(cluster, **settings)


def reply(
    code: int = 0, *, base_offset: int = 0, append_time: int = -1
) -> Callable[[ProduceRequest], ProduceResponse]:
    """Answer every partition alike."""

    def script(request: ProduceRequest) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionProduceResponse(
                            index=part.index,
                            error_code=code,
                            base_offset=base_offset,
                            log_append_time_ms=append_time,
                        )
                        for part in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    return script


def brokers(nodes: int = 1, **topics: list[int]) -> ScriptedCluster:
    made = ScriptedCluster(nodes, topics or {"orders": [1]})
    made.on(InitProducerIdRequest, lambda _request: InitProducerIdResponse(producer_id=7, producer_epoch=0))
    made.on(ProduceRequest, reply(base_offset=40))
    return made


def sent(scripted: ScriptedCluster) -> list[bytes]:
    """The record batches that reached a broker."""
    requests = [one.request for one in scripted.asked(ProduceRequest)]
    return [
        bytes(part.records or b"")
        for request in requests
        if isinstance(request, ProduceRequest)
        for topic in request.topic_data
        for part in topic.partition_data
    ]


def sequences(scripted: ScriptedCluster) -> list[tuple[int, int]]:
    headers = [read_header(batch) for batch in sent(scripted)]
    return [(header.producer_epoch, header.base_sequence) for header in headers]
