"""How patient a client is, and how it introduces itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Kafka's settings of the same names, with Kafka's defaults unless a line says otherwise."""

    client_id: str = "kohort"
    connect_timeout_ms: int = 10_000  # socket.connection.setup.timeout.ms
    request_timeout_ms: int = 30_000  # request.timeout.ms: one request on one connection
    api_timeout_ms: int = 60_000  # default.api.timeout.ms: a call with all its retries
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


DEFAULTS = ClientOptions()
