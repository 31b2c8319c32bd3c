"""Ask an address whether a Kafka broker answers there. Only the socket and ten bytes: no codec, no client."""

import socket
import struct
import time

API_VERSIONS = 18
CLIENT_ID = b"probe"
RETRY_SECONDS = 0.05


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise ConnectionError("closed before the answer was complete")
        received += chunk
    return received


def ask_api_versions(host: str, port: int, timeout: float = 2.0) -> int:
    """Send ApiVersions v0 and return how many APIs are listed; raises OSError when there is no answer."""
    request = struct.pack(">hhih", API_VERSIONS, 0, 1, len(CLIENT_ID)) + CLIENT_ID
    with socket.create_connection((host, port), timeout=timeout) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        answer = _exactly(connection, size)
    correlation, error, count = struct.unpack(">ihi", answer[:10])
    if correlation != 1 or error != 0:
        raise ConnectionError(f"odd answer to ApiVersions: correlation {correlation}, error {error}")
    return int(count)


def answers(host: str, port: int) -> bool:
    """Whether a broker answers ApiVersions at this address right now."""
    try:
        return ask_api_versions(host, port) > 0
    except OSError:
        return False


def pause() -> None:
    """The time between two probes of something that is starting."""
    time.sleep(RETRY_SECONDS)
