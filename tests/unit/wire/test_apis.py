"""The table of APIs agrees with the declarations and covers what Kohort means to serve."""

import subprocess
import sys

import pytest

from kohort.wire.apis import APIS, ApiKey, ApiSpec, api_spec
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

# API → the versions Kohort means to serve, at most.
WANTED = {
    ApiKey.PRODUCE: (3, 13),
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 1),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 4),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.UPDATE_FEATURES: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.SHARE_FETCH: (1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
}


def test_every_key_has_a_row() -> None:
    assert list(APIS) == list(ApiKey) == list(WANTED)


@pytest.mark.parametrize("spec", APIS.values(), ids=lambda spec: spec.name)
def test_a_row_says_what_its_messages_say(spec: ApiSpec) -> None:
    row = (spec.key, spec.versions, spec.first_flexible)
    for message in (spec.request_class, spec.response_class):
        assert (message.api_key, message.versions, message.first_flexible) == row
    assert spec.request_class.__name__ == f"{spec.name}Request"
    assert spec.response_class.__name__ == f"{spec.name}Response"


@pytest.mark.parametrize(("key", "wanted"), WANTED.items(), ids=lambda value: str(value))
def test_the_versions_that_are_to_be_served_can_be_read(key: ApiKey, wanted: tuple[int, int]) -> None:
    spec = api_spec(key)
    assert spec.versions.first <= wanted[0]
    assert wanted[1] <= spec.versions.last


def test_the_classes_of_an_api_are_the_same_each_time() -> None:
    spec = api_spec(12)
    assert spec.request_class is spec.request_class is HeartbeatRequest
    assert spec.response_class is spec.response_class is HeartbeatResponse


def test_an_api_without_flexible_versions_has_none() -> None:
    assert not api_spec(ApiKey.OFFSET_DELETE).is_flexible(0)
    assert api_spec(ApiKey.DESCRIBE_CLUSTER).is_flexible(0)


def test_an_unknown_key_is_an_error_of_the_caller() -> None:
    with pytest.raises(KeyError):
        api_spec(71)


def test_a_spec_shows_its_name_key_and_versions() -> None:
    assert repr(api_spec(ApiKey.OFFSET_FOR_LEADER_EPOCH)) == "<OffsetForLeaderEpoch (23) 2-4>"


def test_the_table_imports_no_messages_until_they_are_used() -> None:
    script = (
        "import sys, kohort.wire.apis, kohort.wire.headers, kohort.wire.framing, kohort.codec.compiled;"
        "print([name for name in sys.modules if name.startswith('kohort.wire.messages')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
