"""The APIs this broker serves: one row and one file each, listed here and nowhere else.

ApiVersions, the dispatch, the frames of a connection and the table in the documentation all read ``SERVED``.
A handler's module is imported when its API is first asked for, so that starting a broker stays cheap.

A handler module has two functions::

    handle(broker, request, context) -> response | awaitable of a response | None for no reply
    refuse(request, code) -> the response that says ``code`` everywhere the API can say it
"""

from enum import Enum
from typing import Final, NamedTuple

from kohort.wire.apis import ApiKey
from kohort.wire.framing import DEFAULT_LIMIT

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB

DEFAULT_ELEMENTS: Final = 10_000
MANY_ELEMENTS: Final = 25_000
"""For requests that name partitions or groups: several times those that one broker of Kafka is given."""


_OF_LOGS = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.DELETE_RECORDS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
    }
)


OF_THE_VIEW = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }
)


class Wait(Enum):
    """Whether a request may wait for minutes before it is answered."""

    NO = "no"
    LONG = "long"
    ONLY = "only"
    """It changes nothing before it is answered, and is dropped when its client hangs up."""


class Served(NamedTuple):
    """One API: the versions we answer, the limits of a request, and of which kind it is.

    ``advertised_from``: where Kafka announces older versions.
    ``max_bytes``, ``max_elements``: of one request, and of its arrays together; a larger one closes its
    connection. Decoding 100 MB of tiny array entries takes half a minute and gigabytes, so only Produce,
    whose bulk is never looked into one by one, may be that large.
    ``of_groups``: a machine that fails is COORDINATOR_NOT_AVAILABLE here, KAFKA_STORAGE_ERROR elsewhere.
    """

    key: ApiKey
    oldest: int
    newest: int
    advertised_from: int | None = None
    max_bytes: int = DEFAULT_LIMIT
    max_elements: int = DEFAULT_ELEMENTS
    of_groups: bool = False
    wait: Wait = Wait.NO

    @property
    def is_from_memory(self) -> bool:
        """Whether it tells what this node knows of partitions that it leads, or which node leads what."""
        return self.of_groups or self.key in _OF_LOGS or self.key in OF_THE_VIEW

    @property
    def module(self) -> str:
        return f"kohort.broker.handlers.{self.key.name.lower()}"


def request_limits(max_produce: int) -> dict[int, int]:
    """The largest request of each API; the one of Produce is a setting."""
    return {int(api.key): api.max_bytes for api in SERVED} | {int(ApiKey.PRODUCE): max_produce}


SERVED: tuple[Served, ...] = (
    # librdkafka up to 2.11.0 stops compressing when Produce 0 is not announced; Kafka announces it too.
    Served(ApiKey.PRODUCE, 3, 13, advertised_from=0, max_bytes=100 * _MIB),
    Served(ApiKey.FETCH, 4, 18, max_bytes=8 * _MIB, max_elements=MANY_ELEMENTS, wait=Wait.ONLY),
    Served(ApiKey.LIST_OFFSETS, 1, 11, max_bytes=4 * _MIB, max_elements=MANY_ELEMENTS),
    # 4 MiB: 10,000 topic names of full length, or 100,000 partitions by number. 8 MiB: the same with some
    # 50 bytes for each partition; a commit may carry metadata of 4 KB with each.
    Served(ApiKey.METADATA, 0, 13, max_bytes=4 * _MIB, max_elements=MANY_ELEMENTS),
    Served(ApiKey.OFFSET_COMMIT, 2, 10, max_bytes=8 * _MIB, max_elements=MANY_ELEMENTS, of_groups=True),
    Served(ApiKey.OFFSET_FETCH, 1, 10, max_bytes=4 * _MIB, max_elements=MANY_ELEMENTS, of_groups=True),
    Served(ApiKey.FIND_COORDINATOR, 0, 6, max_elements=20_000, of_groups=True),
    # A member's subscription under a handful of assignors; Kafka Streams adds its own state of some MB.
    Served(ApiKey.JOIN_GROUP, 0, 9, max_bytes=8 * _MIB, max_elements=1_000, of_groups=True, wait=Wait.LONG),
    # 64 KiB: a few short strings and numbers, from many clients, often.
    Served(ApiKey.HEARTBEAT, 0, 4, max_bytes=64 * _KIB, of_groups=True),
    Served(ApiKey.LEAVE_GROUP, 0, 5, of_groups=True),
    # The leader's: assignments for all members, 10,000 of them with 1.6 KB each.
    Served(
        ApiKey.SYNC_GROUP,
        0,
        5,
        max_bytes=16 * _MIB,
        max_elements=MANY_ELEMENTS,
        of_groups=True,
        wait=Wait.LONG,
    ),
    Served(ApiKey.DESCRIBE_GROUPS, 0, 6, max_elements=MANY_ELEMENTS, of_groups=True),
    # Names of states and types: there are a handful.
    Served(ApiKey.LIST_GROUPS, 0, 5, max_elements=1_000, of_groups=True),
    Served(ApiKey.SASL_HANDSHAKE, 0, 1, max_bytes=64 * _KIB),
    Served(ApiKey.API_VERSIONS, 0, 4, max_bytes=64 * _KIB),
    Served(ApiKey.CREATE_TOPICS, 2, 7, max_bytes=4 * _MIB),
    Served(ApiKey.DELETE_TOPICS, 1, 6),
    Served(ApiKey.DELETE_RECORDS, 0, 2),
    Served(ApiKey.INIT_PRODUCER_ID, 0, 5, max_bytes=64 * _KIB),
    Served(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, max_elements=MANY_ELEMENTS),
    Served(ApiKey.DESCRIBE_ACLS, 1, 3),
    Served(ApiKey.CREATE_ACLS, 1, 3),
    Served(ApiKey.DELETE_ACLS, 1, 3),
    Served(ApiKey.DESCRIBE_CONFIGS, 1, 4),
    Served(ApiKey.ALTER_CONFIGS, 0, 2),
    Served(ApiKey.DESCRIBE_LOG_DIRS, 1, 4),
    # Kafka's bound while a peer is not yet authenticated.
    Served(ApiKey.SASL_AUTHENTICATE, 0, 2, max_bytes=512 * _KIB),
    Served(ApiKey.CREATE_PARTITIONS, 0, 3),
    Served(ApiKey.DELETE_GROUPS, 0, 2, of_groups=True),
    Served(ApiKey.ELECT_LEADERS, 0, 2),
    Served(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    Served(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0),
    Served(ApiKey.OFFSET_DELETE, 0, 0, of_groups=True),
    Served(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1),
    Served(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0),
    Served(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0),
    Served(ApiKey.DESCRIBE_CLUSTER, 0, 2),
    Served(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0),
    Served(ApiKey.LIST_TRANSACTIONS, 0, 2),
    # The first member of a large group owns, and reports, every partition.
    Served(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, max_bytes=4 * _MIB, max_elements=100_000, of_groups=True),
    Served(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, of_groups=True),
    Served(ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
    Served(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
    Served(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1),
    Served(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1),
    Served(ApiKey.SHARE_FETCH, 1, 2),
    Served(ApiKey.SHARE_ACKNOWLEDGE, 1, 2),
)
