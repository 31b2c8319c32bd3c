"""The APIs this broker serves: one file each, listed here and nowhere else.

ApiVersions, the dispatch and the table in the documentation all read ``SERVED``. A handler's
module is imported when its API is first asked for, so that starting a broker stays cheap.

A handler module has two functions::

    handle(broker, request, context) -> response | awaitable of a response | None for no reply
    refuse(request, code) -> the response that says ``code`` everywhere the API can say it
"""

from typing import NamedTuple

from kohort.wire.apis import ApiKey


class Served(NamedTuple):
    """One API with the versions we answer; ``advertised_from`` where Kafka announces older ones.

    ``only_waits``: a request that is not answered yet changes nothing, and may be dropped when its
    client hangs up.
    """

    key: ApiKey
    oldest: int
    newest: int
    advertised_from: int | None = None
    only_waits: bool = False

    @property
    def module(self) -> str:
        return f"kohort.broker.handlers.{self.key.name.lower()}"


SERVED: tuple[Served, ...] = (
    # librdkafka up to 2.11.0 stops compressing when Produce 0 is not announced; Kafka announces it too.
    Served(ApiKey.PRODUCE, 3, 13, advertised_from=0),
    Served(ApiKey.FETCH, 4, 18, only_waits=True),
    Served(ApiKey.LIST_OFFSETS, 1, 11),
    Served(ApiKey.METADATA, 0, 13),
    Served(ApiKey.OFFSET_COMMIT, 2, 10),
    Served(ApiKey.OFFSET_FETCH, 1, 10),
    Served(ApiKey.FIND_COORDINATOR, 0, 6),
    Served(ApiKey.JOIN_GROUP, 0, 9),
    Served(ApiKey.HEARTBEAT, 0, 4),
    Served(ApiKey.LEAVE_GROUP, 0, 5),
    Served(ApiKey.SYNC_GROUP, 0, 5),
    Served(ApiKey.DESCRIBE_GROUPS, 0, 6),
    Served(ApiKey.LIST_GROUPS, 0, 5),
    Served(ApiKey.SASL_HANDSHAKE, 0, 1),
    Served(ApiKey.API_VERSIONS, 0, 4),
    Served(ApiKey.CREATE_TOPICS, 2, 7),
    Served(ApiKey.DELETE_TOPICS, 1, 6),
    Served(ApiKey.DELETE_RECORDS, 0, 2),
    Served(ApiKey.INIT_PRODUCER_ID, 0, 5),
    Served(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4),
    Served(ApiKey.DESCRIBE_ACLS, 1, 3),
    Served(ApiKey.CREATE_ACLS, 1, 3),
    Served(ApiKey.DELETE_ACLS, 1, 3),
    Served(ApiKey.DESCRIBE_CONFIGS, 1, 4),
    Served(ApiKey.ALTER_CONFIGS, 0, 2),
    Served(ApiKey.DESCRIBE_LOG_DIRS, 1, 4),
    Served(ApiKey.SASL_AUTHENTICATE, 0, 2),
    Served(ApiKey.CREATE_PARTITIONS, 0, 3),
    Served(ApiKey.DELETE_GROUPS, 0, 2),
    Served(ApiKey.ELECT_LEADERS, 0, 2),
    Served(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    Served(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0),
    Served(ApiKey.OFFSET_DELETE, 0, 0),
    Served(ApiKey.DESCRIBE_CLUSTER, 0, 2),
    Served(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0),
    Served(ApiKey.LIST_TRANSACTIONS, 0, 2),
    Served(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1),
    Served(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1),
    Served(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
    Served(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1),
    Served(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1),
    Served(ApiKey.SHARE_FETCH, 1, 2),
    Served(ApiKey.SHARE_ACKNOWLEDGE, 1, 2),
)
