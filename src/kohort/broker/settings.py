"""What is fixed when a broker starts. What can change while it runs lives in the catalog."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kohort.log.log import SyncPolicy
from kohort.security.listeners import Listener, SecurityProtocol
from kohort.security.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one broker process, read once at its start.

    ``data`` is the directory of the logs, or ``None`` for a broker that lives in memory.
    ``cluster`` is the URL of a PostgreSQL that several nodes share; then there is no ``data``.
    ``overrides`` are Kafka's own broker settings by their Kafka names (``num.partitions`` …).
    ``listeners`` replace ``host``, ``port`` and the advertised address, which describe one listener
    without TLS and SASL.
    """

    host: str = "127.0.0.1"
    port: int = 9092  # 0 picks a free one
    advertised_host: str | None = None  # for clients; the bound address when absent
    advertised_port: int | None = None
    listeners: tuple[Listener, ...] = ()
    insecure: bool = False  # allow combinations of listeners and settings that expose data or passwords
    users: Mapping[str, Secret] = field(default_factory=dict)  # made at the start if they are not there yet
    node_id: int | None = 1  # of a cluster's node ``None``: the lowest that is free
    data: Path | None = None
    cluster: str | None = field(default=None, repr=False)  # may hold a password
    fsync: SyncPolicy = SyncPolicy.INTERVAL
    fsync_internal: SyncPolicy = SyncPolicy.COMMIT
    fsync_interval_ms: int = 1_000
    max_produce_frame: int = 104_857_600  # Kafka's socket.request.max.bytes
    max_connections: int = 100_000  # the files the process may open usually bound it before
    overrides: Mapping[str, str] = field(default_factory=dict, repr=False)  # some are secrets

    def endpoints(self) -> tuple[Listener, ...]:
        """The listeners to open, at least one."""
        return self.listeners or (
            Listener(
                SecurityProtocol.PLAINTEXT.value,
                SecurityProtocol.PLAINTEXT,
                self.host,
                self.port,
                self.advertised_host or self.host,
                self.advertised_port or 0,
                is_bare=True,
            ),
        )
