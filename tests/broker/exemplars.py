"""One sensible request of every API that is served: what goes over the wire every day."""

from collections.abc import Callable, Iterator

from tests.broker.asking import (
    BROKER,
    T0,
    TOPIC,
    batch,
    fetch_request,
    metadata_request,
    part,
    produce_request,
)
from tests.broker.grouping import GROUP, commit_request, heartbeat_request, join_request, sync_request

from kohort.broker.handlers import SERVED
from kohort.codec.schema import Message
from kohort.wire.apis import ApiKey
from kohort.wire.messages import (
    alter_configs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    sasl_authenticate,
    sasl_handshake,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    update_features,
)

NAME = "t"


def versions() -> Iterator[tuple[ApiKey, int]]:
    """Every API with every version that is served."""
    for api in SERVED:
        for version in range(api.oldest, api.newest + 1):
            yield api.key, version


def exemplar(key: ApiKey, topic_id: bytes) -> Message:
    """A request about topic ``t`` and group ``g``; fields of all versions are filled in."""
    return EXEMPLARS[key](topic_id)


def _produce(topic_id: bytes) -> Message:
    request = produce_request(NAME, batch("a", "b"), batch("c"), acks=1)
    request.topic_data[0].topic_id = topic_id
    return request


def _fetch(topic_id: bytes) -> Message:
    request = fetch_request({NAME: [part(0), part(1)]})
    request.topics[0].topic_id = topic_id
    return request


def _commit(topic_id: bytes) -> Message:
    request = commit_request((0, 3), (1, 4), metadata="note", epoch=0)
    request.topics[0].topic_id = topic_id
    return request


def _offset_fetch(topic_id: bytes) -> Message:
    return offset_fetch.OffsetFetchRequest(
        group_id=GROUP,
        topics=[offset_fetch.OffsetFetchRequestTopic(name=NAME, partition_indexes=[0, 1])],
        groups=[
            offset_fetch.OffsetFetchRequestGroup(
                group_id=GROUP,
                topics=[
                    offset_fetch.OffsetFetchRequestTopics(
                        name=NAME, topic_id=topic_id, partition_indexes=[0, 1]
                    )
                ],
            )
        ],
        require_stable=True,
    )


def _list_offsets(_: bytes) -> Message:
    parts = [
        list_offsets.ListOffsetsPartition(partition_index=index, timestamp=when)
        for index, when in enumerate((-1, T0))
    ]
    return list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=NAME, partitions=parts)]
    )


def _create_topics(_: bytes) -> Message:
    return create_topics.CreateTopicsRequest(
        topics=[
            create_topics.CreatableTopic(
                name="new",
                num_partitions=2,
                replication_factor=1,
                configs=[create_topics.CreatableTopicConfig(name="retention.ms", value="60000")],
            ),
            create_topics.CreatableTopic(
                name="assigned",
                num_partitions=-1,
                replication_factor=-1,
                assignments=[create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
            ),
        ],
        validate_only=True,
    )


def _delete_topics(_: bytes) -> Message:
    return delete_topics.DeleteTopicsRequest(
        topics=[
            delete_topics.DeleteTopicState(name="nowhere"),
            delete_topics.DeleteTopicState(name=None, topic_id=bytes(range(16))),
        ],
        topic_names=["nowhere"],
    )


def _delete_records(_: bytes) -> Message:
    parts = [delete_records.DeleteRecordsPartition(partition_index=0, offset=0)]
    return delete_records.DeleteRecordsRequest(
        topics=[delete_records.DeleteRecordsTopic(name=NAME, partitions=parts)]
    )


def _create_partitions(_: bytes) -> Message:
    assignments = [create_partitions.CreatePartitionsAssignment(broker_ids=[1])]
    topic = create_partitions.CreatePartitionsTopic(name=NAME, count=3, assignments=assignments)
    return create_partitions.CreatePartitionsRequest(topics=[topic], validate_only=True)


def _epochs(_: bytes) -> Message:
    parts = [offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        topics=[offset_for_leader_epoch.OffsetForLeaderTopic(topic=NAME, partitions=parts)]
    )


def _describe_configs(_: bytes) -> Message:
    wanted = ((TOPIC, NAME, None), (BROKER, "1", ["num.partitions", "log.dirs"]), (TOPIC, "nowhere", None))
    return describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            )
            for kind, name, keys in wanted
        ],
        include_synonyms=True,
        include_documentation=True,
    )


def _alter_configs(_: bytes) -> Message:
    configs = [alter_configs.AlterableConfig(name="retention.ms", value="5")]
    resource = alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name=NAME, configs=configs)
    return alter_configs.AlterConfigsRequest(resources=[resource], validate_only=True)


def _incremental(_: bytes) -> Message:
    configs = [
        incremental_alter_configs.AlterableConfig(name="cleanup.policy", config_operation=2, value="compact"),
        incremental_alter_configs.AlterableConfig(name="retention.ms", config_operation=1),
    ]
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=TOPIC, resource_name=NAME, configs=configs
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def _log_dirs(_: bytes) -> Message:
    wanted = describe_log_dirs.DescribableLogDirTopic(topic=NAME, partitions=[0, 1])
    return describe_log_dirs.DescribeLogDirsRequest(topics=[wanted])


def _leave(_: bytes) -> Message:
    members = [leave_group.MemberIdentity(member_id="x", group_instance_id="y", reason="tired")]
    return leave_group.LeaveGroupRequest(group_id=GROUP, member_id="x", members=members)


def _offset_delete(_: bytes) -> Message:
    parts = [offset_delete.OffsetDeleteRequestPartition(partition_index=1)]
    topic = offset_delete.OffsetDeleteRequestTopic(name=NAME, partitions=parts)
    return offset_delete.OffsetDeleteRequest(group_id=GROUP, topics=[topic])


def _pages(_: bytes) -> Message:
    return describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=[describe_topic_partitions.TopicRequest(name=name) for name in (NAME, "nowhere")],
        response_partition_limit=1,
        cursor=describe_topic_partitions.Cursor(topic_name=NAME, partition_index=0),
    )


def _reassignments(_: bytes) -> Message:
    wanted = list_partition_reassignments.ListPartitionReassignmentsTopics(name=NAME, partition_indexes=[0])
    return list_partition_reassignments.ListPartitionReassignmentsRequest(topics=[wanted])


def _elections(_: bytes) -> Message:
    wanted = elect_leaders.TopicPartitions(topic=NAME, partitions=[0, 7])
    return elect_leaders.ElectLeadersRequest(topic_partitions=[wanted], timeout_ms=1_000)


EXEMPLARS: dict[ApiKey, Callable[[bytes], Message]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: lambda _: metadata_request(NAME, "nowhere"),
    ApiKey.OFFSET_COMMIT: _commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: lambda _: find_coordinator.FindCoordinatorRequest(
        key=GROUP, coordinator_keys=[GROUP, "other"]
    ),
    ApiKey.JOIN_GROUP: lambda _: join_request("x", instance="y"),
    ApiKey.HEARTBEAT: lambda _: heartbeat_request("x", 1),
    ApiKey.LEAVE_GROUP: _leave,
    ApiKey.SYNC_GROUP: lambda _: sync_request("x", 1, {"x": b"mine"}),
    ApiKey.DESCRIBE_GROUPS: lambda _: describe_groups.DescribeGroupsRequest(
        groups=[GROUP, "nobody"], include_authorized_operations=True
    ),
    ApiKey.LIST_GROUPS: lambda _: list_groups.ListGroupsRequest(
        states_filter=["Stable"], types_filter=["classic"]
    ),
    ApiKey.SASL_HANDSHAKE: lambda _: sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"),
    ApiKey.SASL_AUTHENTICATE: lambda _: sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0u\0p"),
    ApiKey.API_VERSIONS: lambda _: api_versions.ApiVersionsRequest(
        client_software_name="raw", client_software_version="1"
    ),
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.INIT_PRODUCER_ID: lambda _: init_producer_id.InitProducerIdRequest(transactional_id=None),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _epochs,
    ApiKey.DESCRIBE_ACLS: lambda _: describe_acls.DescribeAclsRequest(
        resource_type_filter=TOPIC,
        resource_name_filter=NAME,
        pattern_type_filter=1,
        operation=1,
        permission_type=1,
    ),
    ApiKey.CREATE_ACLS: lambda _: create_acls.CreateAclsRequest(
        creations=[
            create_acls.AclCreation(
                resource_type=TOPIC,
                resource_name=NAME,
                principal="User:u",
                host="*",
                operation=3,
                permission_type=3,
            )
        ]
    ),
    ApiKey.DELETE_ACLS: lambda _: delete_acls.DeleteAclsRequest(
        filters=[
            delete_acls.DeleteAclsFilter(
                resource_type_filter=TOPIC,
                resource_name_filter=NAME,
                pattern_type_filter=1,
                operation=1,
                permission_type=1,
            )
        ]
    ),
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.DESCRIBE_LOG_DIRS: _log_dirs,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DELETE_GROUPS: lambda _: delete_groups.DeleteGroupsRequest(groups_names=["nobody", "none"]),
    ApiKey.ELECT_LEADERS: _elections,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _reassignments,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda _: describe_client_quotas.DescribeClientQuotasRequest(
        components=[describe_client_quotas.ComponentData(entity_type="user", match_type=2, match=None)]
    ),
    ApiKey.DESCRIBE_CLUSTER: lambda _: describe_cluster.DescribeClusterRequest(
        include_cluster_authorized_operations=True
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda _: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="x", subscribed_topic_names=[NAME]
    ),
    # Its one array has bytes, and there are only 256 of them.
    ApiKey.LIST_CONFIG_RESOURCES: lambda _: list_config_resources.ListConfigResourcesRequest(),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda _: (
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
            users=[describe_user_scram_credentials.UserName(name="u")]
        )
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda _: (
        alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            deletions=[alter_user_scram_credentials.ScramCredentialDeletion(name="u", mechanism=1)],
            upsertions=[
                alter_user_scram_credentials.ScramCredentialUpsertion(
                    name="v", mechanism=1, iterations=4_096, salt=b"s", salted_password=bytes(32)
                )
            ],
        )
    ),
    ApiKey.UPDATE_FEATURES: lambda _: update_features.UpdateFeaturesRequest(
        feature_updates=[update_features.FeatureUpdateKey(feature="group.version", max_version_level=1)]
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _pages,
    ApiKey.DESCRIBE_PRODUCERS: lambda _: describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name=NAME, partition_indexes=[0, 1])]
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: lambda _: describe_transactions.DescribeTransactionsRequest(
        transactional_ids=["x"]
    ),
    ApiKey.LIST_TRANSACTIONS: lambda _: list_transactions.ListTransactionsRequest(state_filters=["Ongoing"]),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda _: consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=[GROUP]
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: lambda _: share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id="x", subscribed_topic_names=[NAME]
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: lambda _: share_group_describe.ShareGroupDescribeRequest(group_ids=[GROUP]),
    ApiKey.SHARE_FETCH: lambda _: share_fetch.ShareFetchRequest(group_id=GROUP, member_id="x"),
    ApiKey.SHARE_ACKNOWLEDGE: lambda _: share_acknowledge.ShareAcknowledgeRequest(
        group_id=GROUP, member_id="x"
    ),
}
