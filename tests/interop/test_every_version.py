"""What a broker announces is a promise: each version is answered, in bytes that another decoder reads."""

from pathlib import Path

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader
from tests.interop.conftest import need
from tests.interop.scripts.exchange import Exchange, Reply
from tests.interop.scripts.setting import append, batch, make_topic
from tests.interop.targets import Target, kohort_broker, kohort_missing
from tools.peers.kafka_broker import kafka_broker, running
from tools.peers.pins import Peer

from kohort.codec.schema import Message
from kohort.wire.apis import APIS, ApiKey
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.describe_acls import DescribeAclsRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.produce import ProduceRequest

pytestmark = [pytest.mark.interop, pytest.mark.slow]

STARTS_AT = {ApiKey.PRODUCE: 3}  # announced from 0 for old clients, served from 3
ENDS_AT = {
    ApiKey.ADD_PARTITIONS_TO_TXN: 3
}  # above, for brokers: Kafka never answers one without transactions


def smallest(key: ApiKey) -> Message:
    """A request with as little in it as still gets an answer."""
    if key is ApiKey.PRODUCE:
        return ProduceRequest(acks=1)
    if key is ApiKey.DESCRIBE_ACLS:
        return DescribeAclsRequest(
            resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
        )
    return APIS[key].request_class()


def announced(x: Exchange) -> list[tuple[ApiKey, int]]:
    """Every API and version a broker announces and we can write."""
    listed = x.ask(ApiVersionsRequest(client_software_name="script", client_software_version="1"), 4).api_keys
    found = []
    for each in listed:
        if each.api_key in APIS:
            key = ApiKey(each.api_key)
            first = max(each.min_version, STARTS_AT.get(key, 0))
            last = min(each.max_version, ENDS_AT.get(key, each.max_version), APIS[key].versions.last)
            found += [(key, version) for version in range(first, last + 1)]
    return found


def test_every_announced_version_is_answered_to_the_last_byte(target: Target) -> None:
    x = Exchange(target.address)
    try:
        promised = announced(x)
        assert len(promised) > 100
        broken = []
        for key, version in promised:
            answer = x.get(smallest(key), version, on=key.name)
            if not isinstance(answer, Reply):
                broken.append((key.name, version, "closed"))
                continue
            _, size = entity_reader(load_response_schema(int(key), version))(answer.body, 0)
            if size != len(answer.body):
                broken.append((key.name, version, "odd bytes"))
        assert broken == []
    finally:
        x.close()


def identity(target: Target, topic: str) -> tuple[str, bytes, int]:
    """What must survive a restart: cluster id, topic id, leader epoch."""
    x = Exchange(target.address)
    try:
        seen = x.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
        return seen.cluster_id, seen.topics[0].topic_id, seen.topics[0].partitions[0].leader_epoch
    finally:
        x.close()


def write_something(target: Target, topic: str) -> None:
    x = Exchange(target.address)
    try:
        make_topic(x, topic)
        append(x, topic, batch("a"))
    finally:
        x.close()


@pytest.mark.parametrize("name", ["kafka", "kohort"])
def test_a_restart_keeps_who_is_who(name: str, tmp_path: Path) -> None:
    if name == "kafka":
        need(Peer.KAFKA)
        with kafka_broker(home=tmp_path) as broker:
            first = Target(name, broker.bootstrap, broker.data)
            write_something(first, "kept")
            before = identity(first, "kept")
        with running(tmp_path) as broker:
            after = identity(Target(name, broker.bootstrap, broker.data), "kept")
    else:
        missing = kohort_missing()
        if missing is not None:
            pytest.skip(missing)
        with kohort_broker(tmp_path) as target:
            write_something(target, "kept")
            before = identity(target, "kept")
        with kohort_broker(tmp_path) as target:
            after = identity(target, "kept")
    assert after[:2] == before[:2]
    assert after[2] >= before[2]
