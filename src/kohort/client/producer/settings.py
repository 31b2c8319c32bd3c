"""The settings of a producer: names, defaults, and what makes no sense together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, Unpack

from kohort.client.addresses import parse_bootstrap
from kohort.client.security.entry import client_security
from kohort.client.security.names import is_security_name, security_arguments
from kohort.client.security.settings import SecurityOptions, SecuritySettings
from kohort.client.settings import (
    LARGEST,
    ClientOptions,
    SettingError,
    bootstrap_text,
    check_choice,
    check_kinds,
    check_names,
)
from kohort.records.compression import Codec

Serializer = Callable[[Any], bytes | None]
ChoosePartition = Callable[[str, bytes | None, int], int]
"""Topic, key and number of partitions in; the number of a partition out."""

Acks = Literal["all", -1, 0, 1]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

_REMEMBERED_BATCHES = 5  # a broker recognises a repeated batch among the last five of a partition
_INSTEAD = {  # what other libraries have, and its name here or what to do instead of it
    "buffer_memory": "max_buffered_bytes",
    "max_batch_size": "batch_size",
    "queue_buffering_max_ms": "linger_ms",
    "queue_buffering_max_kbytes": "max_buffered_bytes",
    "message_timeout_ms": "delivery_timeout_ms",
    "message_max_bytes": "max_request_size",
    "compression_codec": "compression_type",
    "compression": "compression_type",
    "idempotence": "enable_idempotence",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "bootstrap": "bootstrap_servers",
    "api_version": "versions are agreed upon with each broker",
    "interceptors": "look at what `send` returns; key_serializer and value_serializer see each record",
    "interceptor_classes": "look at what `send` returns; key_serializer and value_serializer see each record",
    "loop": "an AsyncProducer works on the loop it is started on",
    "retries": "delivery_timeout_ms limits all attempts together",
    "transactional_id": "there are no transactions; with enable_idempotence no record is stored twice",
}


class SettingNames(SecurityOptions, total=False):
    """The settings of :class:`ProducerSettings` as keyword arguments, for type checkers and editors."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    acks: Acks
    enable_idempotence: bool | None
    compression_type: Compression
    batch_size: int
    linger_ms: int
    max_in_flight_requests_per_connection: int
    max_request_size: int
    max_buffered_bytes: int
    max_block_ms: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    connect_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    partitioner: ChoosePartition | None
    key_serializer: Serializer | None
    value_serializer: Serializer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(SecuritySettings):
    """Kafka's settings of the same names, with Kafka's defaults unless a line says otherwise."""

    bootstrap_servers: str | Sequence[str] = "localhost:9092"  # host:port, several separated by commas
    client_id: str = "kohort-producer"
    acks: Acks = "all"  # who must have a record before it counts: all replicas, the leader (1), none (0)
    enable_idempotence: bool | None = None  # no record twice, order kept. None: if acks is "all"
    compression_type: Compression = "none"
    batch_size: int = 64 * 1024  # records of one partition that travel together; Kafka: 16 KiB
    linger_ms: int = 5  # how long a batch waits for more records
    max_in_flight_requests_per_connection: int = 5
    max_request_size: int = 1024 * 1024
    max_buffered_bytes: int = 32 * 1024 * 1024  # buffer.memory: `send` waits for room beyond it
    max_block_ms: int = 60_000  # how long `send` waits for room, or for the topic
    delivery_timeout_ms: int = 120_000  # from `send` to the acknowledgement, with all retries
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000  # socket.connection.setup.timeout.ms
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000  # how soon new partitions and leaders are noticed without an error
    partitioner: ChoosePartition | None = None  # None: murmur2 of the key; without one, batch by batch
    key_serializer: Serializer | None = None  # None: keys are bytes already
    value_serializer: Serializer | None = None  # None: values are bytes already

    @classmethod
    def from_kwargs(cls, **settings: Unpack[SettingNames]) -> Self:
        """From keyword arguments; one that does not exist is refused with the name that was meant."""
        given: dict[str, Any] = dict(settings)
        security = {name: given.pop(name) for name in tuple(given) if is_security_name(name)}
        check_names("producer", given, [one.name for one in fields(cls)], _INSTEAD)
        return cls(**given, **security_arguments(security, is_text=False))

    def __post_init__(self) -> None:
        self.check_security()
        self._check_choices()
        self._check_numbers()
        check_kinds(self)
        parse_bootstrap(self.bootstrap)
        self._check_idempotence()
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise SettingError(
                f"delivery_timeout_ms ({self.delivery_timeout_ms}) must be at least linger_ms + "
                f"request_timeout_ms ({self.linger_ms + self.request_timeout_ms})",
                hint="it is the time for all attempts; lower request_timeout_ms with it",
            )

    @property
    def is_idempotent(self) -> bool:
        if self.enable_idempotence is None:
            return self.acks_on_wire == -1 and self._few_in_flight
        return self.enable_idempotence

    @property
    def acks_on_wire(self) -> int:
        return -1 if self.acks == "all" else self.acks

    @property
    def codec(self) -> Codec:
        return Codec[self.compression_type.upper()]

    @property
    def bootstrap(self) -> str:
        return bootstrap_text(self.bootstrap_servers)

    @property
    def client_options(self) -> ClientOptions:
        """What the connections of this producer need to know."""
        return ClientOptions(
            client_id=self.client_id,
            connect_timeout_ms=self.connect_timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
            api_timeout_ms=self.max_block_ms,
            retry_backoff_ms=self.retry_backoff_ms,
            retry_backoff_max_ms=self.retry_backoff_max_ms,
            security=client_security(self),
        )

    @property
    def _few_in_flight(self) -> bool:
        return self.max_in_flight_requests_per_connection <= _REMEMBERED_BATCHES

    def _check_choices(self) -> None:
        if self.acks not in ("all", -1, 0, 1) or isinstance(self.acks, bool):
            raise SettingError(f"acks cannot be {self.acks!r}", hint='it is "all" (or -1), 1 or 0')
        check_choice("compression_type", self.compression_type, [codec.name.lower() for codec in Codec])

    def _check_numbers(self) -> None:
        for one in fields(self):
            if one.type is not int:
                continue
            value = getattr(self, one.name)
            least = 0 if one.name in ("linger_ms", "max_block_ms", "retry_backoff_ms") else 1
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LARGEST:
                raise SettingError(
                    f"{one.name} cannot be {value!r}", hint=f"it is a whole number from {least} to {LARGEST}"
                )

    def _check_idempotence(self) -> None:
        if not self.enable_idempotence:
            return
        if self.acks_on_wire != -1:
            raise SettingError(
                f'enable_idempotence needs acks="all", and acks is {self.acks!r}',
                hint="leave enable_idempotence out to do without it",
            )
        if not self._few_in_flight:
            raise SettingError(
                f"enable_idempotence needs max_in_flight_requests_per_connection of at most "
                f"{_REMEMBERED_BATCHES}, and it is {self.max_in_flight_requests_per_connection}",
                hint="brokers recognise repeats among the last five batches of a partition only",
            )
