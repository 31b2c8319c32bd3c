"""What each API needs (security 5): each of these rights and nothing more. Repeats are refused before."""

from collections.abc import Iterable

import pytest
from tests.broker.exemplars import exemplar
from tests.broker.grouping import find, heartbeat_request
from tests.broker.raw import Raw
from tests.broker.security.test_acls import (
    CLUSTER,
    DENIALS,
    EVERY_RULE,
    GROUP,
    SILENT,
    TOPIC,
    Cluster,
    cluster,
    codes,
    locked,
    rule,
    send,
)

from kohort.broker.handlers import SERVED
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.security.acls import AclResourceType, Operation, Permission
from kohort.wire.apis import ApiKey
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kohort.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.delete_acls import DeleteAclsRequest
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

__all__ = ["cluster", "locked"]  # the fixtures

# Exactly what each API needs (security 5), for any name.
READS_GROUP, DESCRIBES_GROUP = (GROUP, Operation.READ), (GROUP, Operation.DESCRIBE)
READS, DESCRIBES = (TOPIC, Operation.READ), (TOPIC, Operation.DESCRIBE)
DESCRIBES_CLUSTER, ALTERS_CLUSTER = (CLUSTER, Operation.DESCRIBE), (CLUSTER, Operation.ALTER)
NEEDED: dict[ApiKey, tuple[tuple[AclResourceType, Operation], ...]] = {
    ApiKey.PRODUCE: ((TOPIC, Operation.WRITE),),
    ApiKey.FETCH: (READS,),
    ApiKey.LIST_OFFSETS: (DESCRIBES,),
    ApiKey.METADATA: (DESCRIBES,),
    ApiKey.OFFSET_COMMIT: (READS_GROUP, READS),
    ApiKey.OFFSET_FETCH: (DESCRIBES_GROUP, DESCRIBES),
    ApiKey.FIND_COORDINATOR: (DESCRIBES_GROUP,),
    ApiKey.JOIN_GROUP: (READS_GROUP,),
    ApiKey.HEARTBEAT: (READS_GROUP,),
    ApiKey.LEAVE_GROUP: (READS_GROUP,),
    ApiKey.SYNC_GROUP: (READS_GROUP,),
    ApiKey.DESCRIBE_GROUPS: (DESCRIBES_GROUP,),
    ApiKey.CREATE_TOPICS: ((CLUSTER, Operation.CREATE), (TOPIC, Operation.DESCRIBE_CONFIGS)),
    ApiKey.DELETE_TOPICS: ((TOPIC, Operation.DELETE),),
    ApiKey.DELETE_RECORDS: ((TOPIC, Operation.DELETE),),
    ApiKey.INIT_PRODUCER_ID: ((CLUSTER, Operation.IDEMPOTENT_WRITE),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (DESCRIBES,),
    ApiKey.DESCRIBE_ACLS: (DESCRIBES_CLUSTER,),
    ApiKey.CREATE_ACLS: (ALTERS_CLUSTER,),
    ApiKey.DELETE_ACLS: (ALTERS_CLUSTER,),
    ApiKey.DESCRIBE_CONFIGS: (
        (TOPIC, Operation.DESCRIBE_CONFIGS), (CLUSTER, Operation.DESCRIBE_CONFIGS),
    ),
    ApiKey.ALTER_CONFIGS: ((TOPIC, Operation.ALTER_CONFIGS),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ((TOPIC, Operation.ALTER_CONFIGS),),
    ApiKey.DESCRIBE_LOG_DIRS: (DESCRIBES_CLUSTER,),
    ApiKey.CREATE_PARTITIONS: ((TOPIC, Operation.ALTER),),
    ApiKey.DELETE_GROUPS: ((GROUP, Operation.DELETE),),
    ApiKey.ELECT_LEADERS: (ALTERS_CLUSTER,),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (DESCRIBES_CLUSTER,),
    ApiKey.OFFSET_DELETE: ((GROUP, Operation.DELETE), READS),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ((CLUSTER, Operation.DESCRIBE_CONFIGS),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (DESCRIBES_CLUSTER,),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (ALTERS_CLUSTER,),
    ApiKey.UPDATE_FEATURES: (ALTERS_CLUSTER,),
    ApiKey.DESCRIBE_PRODUCERS: (READS,),
    ApiKey.DESCRIBE_TRANSACTIONS: ((AclResourceType.TRANSACTIONAL_ID, Operation.DESCRIBE),),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (READS_GROUP, DESCRIBES),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (DESCRIBES_GROUP,),
    ApiKey.LIST_CONFIG_RESOURCES: ((CLUSTER, Operation.DESCRIBE_CONFIGS),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (DESCRIBES,),
    ApiKey.SHARE_GROUP_HEARTBEAT: (READS_GROUP, DESCRIBES),
    ApiKey.SHARE_GROUP_DESCRIBE: (DESCRIBES_GROUP,),
    ApiKey.SHARE_FETCH: (READS_GROUP,),
    ApiKey.SHARE_ACKNOWLEDGE: (READS_GROUP,),
}  # fmt: skip
OPEN = SILENT | {ApiKey.DESCRIBE_CLUSTER}  # they answer everyone, with what the user may see


def rules_for(rights: Iterable[tuple[AclResourceType, Operation]]) -> list[AclCreation]:
    return [rule(operation, kind, "kafka-cluster" if kind is CLUSTER else "*") for kind, operation in rights]


def test_what_each_served_api_needs_is_known() -> None:
    assert {*NEEDED, *OPEN} == {api.key for api in SERVED if api.rule != "free"}


@pytest.mark.parametrize("key", NEEDED, ids=lambda key: key.name.lower())
def test_an_api_needs_each_of_its_rights_and_nothing_more(cluster: Cluster, key: ApiKey) -> None:
    newest = next(api.newest for api in SERVED if api.key == key)
    with cluster.user("admin") as admin, cluster.user("alice") as alice:
        find(admin, "g")  # its coordinator answers from now on
        for left_out in (*NEEDED[key], None):
            rules = rules_for(one for one in NEEDED[key] if one != left_out)
            send(admin, CreateAclsRequest(creations=rules))
            denied = DENIALS & codes(alice.send(exemplar(key, cluster.topic_id), newest))
            assert bool(denied) is (left_out is not None), f"without {left_out}"
            send(admin, DeleteAclsRequest(filters=[EVERY_RULE]))


def named_twice(topic_id: bytes) -> dict[str, tuple[Message, str]]:
    """Requests that name something more than once, or wrongly, and where their replies say so."""
    configs = [AlterConfigsResource(resource_type=2, resource_name="t") for _ in range(2)]
    wanted = [CreatableTopic(name="new", num_partitions=1, replication_factor=1) for _ in range(2)]
    more = [CreatePartitionsTopic(name="t", count=9, assignments=None) for _ in range(2)]
    name, by_id = DeleteTopicState(name="t"), DeleteTopicState(name=None, topic_id=topic_id)
    return {
        "create topics": (CreateTopicsRequest(topics=wanted), "topics"),
        "create partitions": (CreatePartitionsRequest(topics=more), "results"),
        "alter configs": (IncrementalAlterConfigsRequest(resources=configs), "responses"),
        "delete groups": (DeleteGroupsRequest(groups_names=["g", "g"]), "results"),
        "delete topics by name": (DeleteTopicsRequest(topics=[name, name]), "responses"),
        "delete topics by id": (DeleteTopicsRequest(topics=[by_id, by_id]), "responses"),
        "delete topics by both": (
            DeleteTopicsRequest(topics=[DeleteTopicState(name="t", topic_id=topic_id)]), "responses",
        ),
        "delete topics by all": (DeleteTopicsRequest(topics=[name, name, by_id, by_id]), "responses"),
    }  # fmt: skip


def codes_of(raw: Raw, request: Message, answered: str) -> list[int]:
    if hasattr(request, "timeout_ms"):
        request.timeout_ms = 30_000
    return [one.error_code for one in getattr(send(raw, request), answered)]


def test_what_is_named_twice_is_refused_for_that_before_a_right_is_missed(locked: Cluster) -> None:
    with locked.user("alice") as alice:
        found = {what: codes_of(alice, *asked) for what, asked in named_twice(locked.topic_id).items()}
    assert found == {
        "create topics": [42],
        "create partitions": [42],
        "alter configs": [42, 42],
        "delete groups": [30],
        "delete topics by name": [42],
        "delete topics by id": [42],
        "delete topics by both": [42],
        "delete topics by all": [42, 42],
    }


def test_a_heartbeat_without_the_right_is_refused_however_often_it_is_sent(cluster: Cluster) -> None:
    beat = heartbeat_request("x", 1)
    with cluster.user("alice") as alice:
        replies = [alice.send(beat, 4).error_code for _ in range(3)]
        cluster.allow(Operation.READ, kind=GROUP, name="g")
        replies += [alice.send(beat, 4).error_code for _ in range(2)]
        cluster.allow(Operation.READ, kind=GROUP, name="g", permission=Permission.DENY)
        replies += [alice.send(beat, 4).error_code for _ in range(2)]
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert [code == refused for code in replies] == [True, True, True, False, False, True, True]
