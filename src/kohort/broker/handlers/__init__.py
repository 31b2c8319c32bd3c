"""The APIs this broker serves: one row and one file each, listed here and nowhere else.

ApiVersions, the dispatch, the frames of a connection and the table in the documentation all read ``SERVED``.
A handler's module is imported when its API is first asked for, so that starting a broker stays cheap.

A handler module has two functions::

    handle(broker, request, context) -> response | awaitable of a response | None for no reply
    refuse(request, code) -> the response that says ``code`` everywhere the API can say it
"""

from enum import Enum
from functools import partial
from typing import Final, NamedTuple

from kohort.broker import reply_prices as prices
from kohort.wire.apis import ApiKey
from kohort.wire.framing import DEFAULT_LIMIT

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB

DEFAULT_ELEMENTS: Final = 10_000
MANY: Final = 25_000
"""For requests that name partitions or groups: several times those that one broker of Kafka is given."""


class AnswerSource(Enum):
    """What an answer tells, where another node may know it better."""

    LOG = "log"
    """What is in partitions that this node leads."""
    GROUPS = "groups"
    """What is in groups that it coordinates."""
    LEADERS = "leaders"
    """Which node leads what."""
    COORDINATORS = "coordinators"
    """Which node coordinates which group."""


class Wait(Enum):
    """Whether a request may wait for minutes before it is answered."""

    NO = "no"
    LONG = "long"
    ONLY = "only"
    """It changes nothing before it is answered, and is dropped when its client hangs up."""


class Served(NamedTuple):
    """One API: the versions we answer, what it needs, the limits of a request, and of which kind it is.

    ``rule``: a name in ``RULES`` (``authorization.py``), which only a broker with an authorizer loads.
    ``advertised_from``: where Kafka announces older versions.
    ``max_bytes``, ``max_elements``: of one request, and of its arrays together; a larger one closes its
    connection. Decoding 100 MB of tiny array entries takes half a minute and gigabytes, so only Produce,
    whose bulk is never looked into one by one, may be that large.
    ``source``: such an answer may leave only while this node's lease lasts. ``is_stored``: an answer that has
    waited has waited for the log alone. What is stored stays so if another node leads now.
    ``price``: what the reply costs, if that may be much larger than the request.
    """

    key: ApiKey
    oldest: int
    newest: int
    rule: str
    advertised_from: int | None = None
    max_bytes: int = DEFAULT_LIMIT
    max_elements: int = DEFAULT_ELEMENTS
    source: AnswerSource | None = None
    is_stored: bool = False
    wait: Wait = Wait.NO
    price: prices.Price | None = None

    @property
    def of_groups(self) -> bool:
        """A machine that fails is COORDINATOR_NOT_AVAILABLE here, KAFKA_STORAGE_ERROR elsewhere."""
        return self.source is AnswerSource.GROUPS or self.source is AnswerSource.COORDINATORS

    @property
    def of_the_view(self) -> bool:
        """Whether it tells which node to ask."""
        return self.source is AnswerSource.LEADERS or self.source is AnswerSource.COORDINATORS

    @property
    def module(self) -> str:
        return f"kohort.broker.handlers.{self.key.name.lower()}"


def request_limits(max_produce: int) -> dict[int, int]:
    """The largest request of each API; the one of Produce is a setting."""
    return {int(api.key): api.max_bytes for api in SERVED} | {int(ApiKey.PRODUCE): max_produce}


_log = partial(Served, source=AnswerSource.LOG)
_groups = partial(Served, source=AnswerSource.GROUPS)
_leaders = partial(Served, source=AnswerSource.LEADERS)

SERVED: tuple[Served, ...] = (
    # librdkafka up to 2.11.0 stops compressing when Produce 0 is not announced; Kafka announces it too.
    _log(ApiKey.PRODUCE, 3, 13, "produce", advertised_from=0, max_bytes=100 * _MIB, is_stored=True),
    _log(
        ApiKey.FETCH,
        4,
        18,
        "fetch",
        max_bytes=8 * _MIB,
        max_elements=MANY,
        wait=Wait.ONLY,
        price=prices.fetch,
    ),
    _log(ApiKey.LIST_OFFSETS, 1, 11, "list offsets", max_bytes=4 * _MIB, max_elements=MANY),
    # 4 MiB: 10,000 topic names of full length, or 100,000 partitions by number. 8 MiB: the same with some
    # 50 bytes for each partition; a commit may carry metadata of 4 KB with each.
    _leaders(
        ApiKey.METADATA, 0, 13, "metadata", max_bytes=4 * _MIB, max_elements=MANY, price=prices.metadata
    ),
    _groups(
        ApiKey.OFFSET_COMMIT, 2, 10, "offset commit", max_bytes=8 * _MIB, max_elements=MANY, is_stored=True
    ),
    _groups(
        ApiKey.OFFSET_FETCH,
        1,
        10,
        "offset fetch",
        max_bytes=4 * _MIB,
        max_elements=MANY,
        price=prices.offset_fetch,
    ),
    Served(
        ApiKey.FIND_COORDINATOR,
        0,
        6,
        "find coordinator",
        max_elements=20_000,
        source=AnswerSource.COORDINATORS,
    ),
    # A member's subscription under a handful of assignors; Kafka Streams adds its own state of some MB.
    _groups(ApiKey.JOIN_GROUP, 0, 9, "join group", max_bytes=8 * _MIB, max_elements=1_000, wait=Wait.LONG),
    # 64 KiB: a few short strings and numbers, from many clients, often.
    _groups(ApiKey.HEARTBEAT, 0, 4, "READ the group", max_bytes=64 * _KIB),
    _groups(ApiKey.LEAVE_GROUP, 0, 5, "READ the group"),
    # The leader's: assignments for all members, 10,000 of them with 1.6 KB each.
    _groups(
        ApiKey.SYNC_GROUP, 0, 5, "READ the group", max_bytes=16 * _MIB, max_elements=MANY, wait=Wait.LONG
    ),
    _groups(ApiKey.DESCRIBE_GROUPS, 0, 6, "describe groups", max_elements=MANY, price=prices.describe_groups),
    # Names of states and types: there are a handful.
    _groups(ApiKey.LIST_GROUPS, 0, 5, "list groups", max_elements=1_000, price=prices.list_groups),
    Served(ApiKey.SASL_HANDSHAKE, 0, 1, "free", max_bytes=64 * _KIB),
    Served(ApiKey.API_VERSIONS, 0, 4, "free", max_bytes=64 * _KIB),
    Served(ApiKey.CREATE_TOPICS, 2, 7, "create topics", max_bytes=4 * _MIB),
    Served(ApiKey.DELETE_TOPICS, 1, 6, "delete topics"),
    _log(ApiKey.DELETE_RECORDS, 0, 2, "delete records"),
    Served(ApiKey.INIT_PRODUCER_ID, 0, 5, "init producer id", max_bytes=64 * _KIB),
    _log(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, "offset for leader epoch", max_elements=MANY),
    Served(ApiKey.DESCRIBE_ACLS, 1, 3, "DESCRIBE the cluster", price=prices.describe_acls),
    Served(ApiKey.CREATE_ACLS, 1, 3, "ALTER the cluster"),
    Served(ApiKey.DELETE_ACLS, 1, 3, "ALTER the cluster"),
    Served(ApiKey.DESCRIBE_CONFIGS, 1, 4, "describe configs", price=prices.describe_configs),
    Served(ApiKey.ALTER_CONFIGS, 0, 2, "alter configs"),
    Served(ApiKey.DESCRIBE_LOG_DIRS, 1, 4, "DESCRIBE the cluster", price=prices.log_dirs),
    # Kafka's bound while a peer is not yet authenticated.
    Served(ApiKey.SASL_AUTHENTICATE, 0, 2, "free", max_bytes=512 * _KIB),
    Served(ApiKey.CREATE_PARTITIONS, 0, 3, "create partitions"),
    _groups(ApiKey.DELETE_GROUPS, 0, 2, "delete groups"),
    Served(ApiKey.ELECT_LEADERS, 0, 2, "ALTER the cluster"),
    Served(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, "alter configs"),
    Served(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, "DESCRIBE the cluster"),
    _groups(ApiKey.OFFSET_DELETE, 0, 0, "offset delete"),
    Served(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, "DESCRIBE_CONFIGS of the cluster"),
    Served(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, "DESCRIBE the cluster"),
    Served(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, "ALTER the cluster"),
    Served(ApiKey.UPDATE_FEATURES, 0, 2, "ALTER the cluster"),
    _leaders(ApiKey.DESCRIBE_CLUSTER, 0, 2, "describe cluster"),
    _log(ApiKey.DESCRIBE_PRODUCERS, 0, 0, "describe producers", price=prices.describe_producers),
    Served(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, "describe transactions"),
    Served(ApiKey.LIST_TRANSACTIONS, 0, 2, "list transactions"),
    # The first member of a large group owns, and reports, every partition.
    _groups(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        0,
        1,
        "consumer group heartbeat",
        max_bytes=4 * _MIB,
        max_elements=100_000,
        is_stored=True,
    ),
    _groups(
        ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, "consumer group describe", price=prices.describe_consumer_groups
    ),
    Served(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, "DESCRIBE_CONFIGS of the cluster"),
    _leaders(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, "describe topic partitions"),
    Served(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, "consumer group heartbeat"),
    Served(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, "share group describe"),
    Served(ApiKey.SHARE_FETCH, 1, 2, "READ the group"),
    Served(ApiKey.SHARE_ACKNOWLEDGE, 1, 2, "READ the group"),
)
