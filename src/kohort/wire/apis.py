"""The table of APIs: key, name, versions that have a declaration here, first flexible version, classes.

What the broker *serves* is its own affair (a registry of handlers); this is what can be read and written.
"""

from collections.abc import Mapping
from enum import IntEnum
from importlib import import_module
from types import MappingProxyType
from typing import Final, cast

from kohort.codec.schema import Message, Versions


class ApiKey(IntEnum):
    """The number of an API on the wire. Lower-case names are the modules of ``kohort.wire.messages``."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79


class ApiSpec:
    """One API. Its message classes are imported when first asked for: a broker uses a handful."""

    __slots__ = ("_request_class", "_response_class", "first_flexible", "key", "name", "versions")

    def __init__(self, key: ApiKey, versions: Versions, first_flexible: int | None) -> None:
        self.key = key
        self.name = key.name.title().replace("_", "")
        self.versions = versions
        self.first_flexible = first_flexible
        self._request_class: type[Message] | None = None
        self._response_class: type[Message] | None = None

    def __repr__(self) -> str:
        return f"<{self.name} ({self.key.value}) {self.versions}>"

    @property
    def request_class(self) -> type[Message]:
        if self._request_class is None:
            self._request_class = self._load("Request")
        return self._request_class

    @property
    def response_class(self) -> type[Message]:
        if self._response_class is None:
            self._response_class = self._load("Response")
        return self._response_class

    def is_flexible(self, version: int) -> bool:
        """Whether that version has compact lengths, tag sections, and request header 2."""
        return self.first_flexible is not None and version >= self.first_flexible

    def response_header_is_flexible(self, version: int) -> bool:
        """Whether the reply starts with response header 1.

        Never for ApiVersions: a client that reads this reply does not yet know what the broker speaks.
        """
        return self.key is not ApiKey.API_VERSIONS and self.is_flexible(version)

    def _load(self, kind: str) -> type[Message]:
        module = import_module(f"kohort.wire.messages.{self.key.name.lower()}")
        return cast(type[Message], getattr(module, self.name + kind))


def _spec(key: ApiKey, first: int, last: int, first_flexible: int | None) -> tuple[int, ApiSpec]:
    return int(key), ApiSpec(key, Versions(first, last), first_flexible)


APIS: Final[Mapping[int, ApiSpec]] = MappingProxyType(
    dict(
        (
            _spec(ApiKey.PRODUCE, 3, 13, 9),
            _spec(ApiKey.FETCH, 4, 18, 12),
            _spec(ApiKey.LIST_OFFSETS, 1, 11, 6),
            _spec(ApiKey.METADATA, 0, 13, 9),
            _spec(ApiKey.OFFSET_COMMIT, 2, 10, 8),
            _spec(ApiKey.OFFSET_FETCH, 1, 10, 6),
            _spec(ApiKey.FIND_COORDINATOR, 0, 6, 3),
            _spec(ApiKey.JOIN_GROUP, 0, 9, 6),
            _spec(ApiKey.HEARTBEAT, 0, 4, 4),
            _spec(ApiKey.LEAVE_GROUP, 0, 5, 4),
            _spec(ApiKey.SYNC_GROUP, 0, 5, 4),
            _spec(ApiKey.DESCRIBE_GROUPS, 0, 6, 5),
            _spec(ApiKey.LIST_GROUPS, 0, 5, 3),
            _spec(ApiKey.SASL_HANDSHAKE, 0, 1, None),
            _spec(ApiKey.API_VERSIONS, 0, 4, 3),
            _spec(ApiKey.CREATE_TOPICS, 2, 7, 5),
            _spec(ApiKey.DELETE_TOPICS, 1, 6, 4),
            _spec(ApiKey.DELETE_RECORDS, 0, 2, 2),
            _spec(ApiKey.INIT_PRODUCER_ID, 0, 6, 2),
            _spec(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, 4),
            _spec(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, 3),
            _spec(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, 3),
            _spec(ApiKey.END_TXN, 0, 5, 3),
            _spec(ApiKey.WRITE_TXN_MARKERS, 1, 2, 1),
            _spec(ApiKey.TXN_OFFSET_COMMIT, 0, 5, 3),
            _spec(ApiKey.DESCRIBE_ACLS, 1, 3, 2),
            _spec(ApiKey.CREATE_ACLS, 1, 3, 2),
            _spec(ApiKey.DELETE_ACLS, 1, 3, 2),
            _spec(ApiKey.DESCRIBE_CONFIGS, 1, 4, 4),
            _spec(ApiKey.ALTER_CONFIGS, 0, 2, 2),
            _spec(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, 2),
            _spec(ApiKey.SASL_AUTHENTICATE, 0, 2, 2),
            _spec(ApiKey.CREATE_PARTITIONS, 0, 3, 2),
            _spec(ApiKey.DELETE_GROUPS, 0, 2, 2),
            _spec(ApiKey.ELECT_LEADERS, 0, 2, 2),
            _spec(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, 1),
            _spec(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, 0),
            _spec(ApiKey.OFFSET_DELETE, 0, 0, None),
            _spec(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, 1),
            _spec(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, 0),
            _spec(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, 0),
            _spec(ApiKey.UPDATE_FEATURES, 0, 2, 0),
            _spec(ApiKey.DESCRIBE_CLUSTER, 0, 2, 0),
            _spec(ApiKey.DESCRIBE_PRODUCERS, 0, 0, 0),
            _spec(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, 0),
            _spec(ApiKey.LIST_TRANSACTIONS, 0, 2, 0),
            _spec(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, 0),
            _spec(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, 0),
            _spec(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, 0),
            _spec(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, 0),
            _spec(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, 1),
            _spec(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, 1),
            _spec(ApiKey.SHARE_FETCH, 1, 2, 1),
            _spec(ApiKey.SHARE_ACKNOWLEDGE, 1, 2, 1),
        )
    )
)


def api_spec(key: int) -> ApiSpec:
    """The API with that key; a KeyError if there is none (``read_request_header`` has checked a peer's)."""
    return APIS[key]
