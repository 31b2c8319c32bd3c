"""Brokers that live in a test: they answer what the test tells them to, over memory instead of sockets."""

import asyncio
import struct
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import wraps
from typing import Any, NamedTuple, ParamSpec

from kohort.client.addresses import Address
from kohort.client.cluster import ClusterClient, Retry
from kohort.client.settings import ClientOptions
from kohort.codec.compiled import decode, encode
from kohort.codec.schema import Message, Versions
from kohort.model.errors import ErrorCode
from kohort.wire.apis import APIS, ApiKey
from kohort.wire.headers import RequestHeader, read_request_header, response_header
from kohort.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

P = ParamSpec("P")
HASTY = ClientOptions(
    connect_timeout_ms=2_000, request_timeout_ms=5_000, api_timeout_ms=4_000, retry_backoff_ms=1
)


def on_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an asynchronous test on a loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Hangup:
    """Returned by a script: close the connection instead of answering."""


class Silence:
    """Returned by a script: do not answer."""


class Raw(NamedTuple):
    """Returned by a script: bytes for the wire, as they are."""

    content: bytes


Answer = Message | Hangup | Silence | Raw
Script = Callable[[Any], Answer]


class Received(NamedTuple):
    """One request as a peer saw it."""

    node_id: int
    header: RequestHeader
    request: Message


class _MemoryTransport(asyncio.Transport):
    """The client's end of a connection; what is written goes to the peer, in a later turn of the loop."""

    def __init__(self, peer: "ScriptedPeer", protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._peer = peer
        self._protocol = protocol
        self._buffer = b""
        self._closed = False
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._buffer += bytes(data)
        while len(self._buffer) >= 4:
            (size,) = struct.unpack_from(">i", self._buffer)
            if len(self._buffer) < 4 + size:
                return
            frame, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
            self._loop.call_soon(self._serve, frame)

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(map(bytes, parts)))

    def _serve(self, frame: bytes) -> None:
        if self._closed:
            return
        answer = self._peer.answer(frame)
        if isinstance(answer, Hangup):
            self._close()
        elif isinstance(answer, bytes):
            self._protocol.data_received(answer)

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self._peer.open.discard(self)
            self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self._close()

    def close(self) -> None:
        self._close()


class ScriptedPeer:
    """One broker. Scripts by request class; what it serves can be narrowed."""

    def __init__(self, node_id: int, scripts: dict[str, Script], received: list[Received]) -> None:
        self.node_id = node_id
        self.served: dict[int, Versions] = {key: spec.versions for key, spec in APIS.items()}
        self.highest_api_versions = 4
        self.open: set[asyncio.Transport] = set()
        self._scripts = scripts
        self._received = received

    def connect(self, protocol: asyncio.Protocol) -> None:
        transport = _MemoryTransport(self, protocol)
        self.open.add(transport)
        protocol.connection_made(transport)

    def answer(self, frame: bytes) -> bytes | Hangup | Silence:
        header, position = read_request_header(frame)
        if header.api_key == ApiKey.API_VERSIONS and header.api_version > self.highest_api_versions:
            return self._refuse_version(header)
        spec = APIS[header.api_key]
        request = decode(spec.request_class, header.api_version, frame, position)
        self._received.append(Received(self.node_id, header, request))
        script = self._scripts.get(type(request).__name__)
        if header.api_key == ApiKey.API_VERSIONS and script is None:
            answer: Answer = self._api_versions()
        else:
            assert script is not None, f"nobody said how to answer {request!r}"
            answer = script(request)
        if isinstance(answer, Hangup | Silence):
            return answer
        if isinstance(answer, Raw):
            return answer.content
        start = response_header(header.correlation_id, spec.response_header_is_flexible(header.api_version))
        return frame_of(start + encode(answer, header.api_version))

    def _api_versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=versions.first, max_version=versions.last)
                for key, versions in self.served.items()
            ]
        )

    def _refuse_version(self, header: RequestHeader) -> bytes:
        own = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=self.highest_api_versions)
        refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
        return frame_of(response_header(header.correlation_id, False) + encode(refusal, 0))


def frame_of(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


class ScriptedCluster:
    """Brokers 1, 2 … at host:9001, host:9002 …; topics say who leads each partition."""

    def __init__(self, nodes: int = 1, topics: Mapping[str, list[int]] | None = None) -> None:
        self.received: list[Received] = []
        self.scripts: dict[str, Script] = {
            "MetadataRequest": self._metadata,
            "FindCoordinatorRequest": self._coordinator,
        }
        self.peers = {
            number: ScriptedPeer(number, self.scripts, self.received) for number in range(1, nodes + 1)
        }
        self.topics = dict(topics or {})
        self.controller = 1
        self.coordinator = 1
        self.down: set[int] = set()
        self.dialled: list[Address] = []

    @property
    def open(self) -> set[asyncio.Transport]:
        """Connections that nobody has closed."""
        return {one for peer in self.peers.values() for one in peer.open}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"host:{9000 + number}" for number in self.peers)

    def on(self, request: type[Message], script: Script) -> None:
        """Say how every broker answers this kind of request."""
        self.scripts[request.__name__] = script

    def asked(self, request: type[Message]) -> list[Received]:
        return [one for one in self.received if isinstance(one.request, request)]

    async def dial(self, protocol: asyncio.Protocol, address: Address) -> None:
        self.dialled.append(address)
        number = address.port - 9000
        if number not in self.peers or number in self.down:
            raise ConnectionRefusedError(111, "Connection refused")
        self.peers[number].connect(protocol)

    def client(self, options: ClientOptions = HASTY) -> ClusterClient:
        """A client of these brokers whose pauses take no time."""

        async def no_pause(_seconds: float) -> None:
            await asyncio.sleep(0)

        return ClusterClient(self.bootstrap, options, dial=self.dial, retry=Retry(options, no_pause))

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        names = list(self.topics) if request.topics is None else [topic.name for topic in request.topics]
        return MetadataResponse(
            cluster_id="scripted",
            controller_id=self.controller,
            brokers=[
                MetadataResponseBroker(node_id=number, host="host", port=9000 + number)
                for number in self.peers
            ],
            topics=[self._topic(name or "") for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        leaders = self.topics.get(name)
        if leaders is None:
            return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return MetadataResponseTopic(
            name=name,
            topic_id=topic_id_of(name),
            partitions=[
                MetadataResponsePartition(
                    partition_index=number,
                    leader_id=leader,
                    leader_epoch=0,
                    replica_nodes=[leader],
                    isr_nodes=[leader],
                    error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader < 0 else 0,
                )
                for number, leader in enumerate(leaders)
            ],
        )

    def _coordinator(self, request: Any) -> FindCoordinatorResponse:  # noqa: ANN401 (any script's argument)
        number, port = self.coordinator, 9000 + self.coordinator
        return FindCoordinatorResponse(
            node_id=number,
            host="host",
            port=port,
            coordinators=[
                Coordinator(key=key, node_id=number, host="host", port=port)
                for key in request.coordinator_keys
            ],
        )


def topic_id_of(name: str) -> bytes:
    """The id a scripted topic has."""
    return name.encode().rjust(16, b"#")[:16]


def in_turn(*answers: Answer | Script) -> Script:
    """Answer the first request with the first, and so on; the last one stays."""
    left = list(answers)

    def script(request: Any) -> Answer:  # noqa: ANN401 (any script's argument)
        now = left.pop(0) if len(left) > 1 else left[0]
        return now(request) if callable(now) else now

    return script
