"""A network that fails on demand: a TCP proxy between clients and a broker.

Clients go where a broker says it is, not where they found it first. So the broker has to advertise the
proxy, and every connection passes through it::

    async with AsyncProxy() as proxy, AsyncBroker(advertised=proxy.bootstrap) as broker:
        proxy.upstream = broker.bootstrap
        ...                       # clients connect to proxy.bootstrap
        proxy.hold(Direction.BACK)      # replies do not arrive
        proxy.release()           # ... until now, in order and complete
        proxy.cut()               # connections break
        await proxy.refuse()      # and there is no listener any more
        await proxy.heal()

Bytes are never reordered, repeated or invented: TCP does none of that. ``Proxy`` is the same for tests
without an event loop.
"""

import asyncio
from collections.abc import Callable
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from kohort.client.addresses import parse_address
from kohort.client.loop_thread import LoopThread
from kohort.testing.ports import HeldPort

T = TypeVar("T")
_HOST = "127.0.0.1"
_CHUNK = 65_536


class Direction(Enum):
    """A direction, as the client sees it."""

    THERE = "to the broker"
    BACK = "to the client"


BOTH = (Direction.THERE, Direction.BACK)


class _Passage:
    """One connection of a client, and the one to the broker it is joined to."""

    def __init__(self, client: asyncio.StreamWriter, broker: asyncio.StreamWriter | None) -> None:
        self.client = client
        self.broker = broker  # None: a client without a connection
        self.is_spoiled = broker is None  # bytes were lost: what follows would make no sense to the peer

    def cut(self) -> None:
        self.client.transport.abort()
        self.leave_broker()

    def leave_broker(self) -> None:
        if self.broker is not None:
            self.broker.transport.abort()


class AsyncProxy:
    """A proxy on the caller's event loop. Faults hold for all connections, those to come included."""

    def __init__(self, upstream: str = "") -> None:
        self.upstream = upstream  # ``host:port`` of the broker
        self.bootstrap = ""  # ``host:port`` clients connect to, and what the broker is to advertise
        self.delay_s = 0.0  # how much later every piece of data arrives, in order
        self.bytes_per_s: float | None = None  # in each direction of a connection, at most
        self.opened = 0  # connections that ever were
        self.lost = 0  # bytes that were dropped
        self._passages: set[_Passage] = set()
        self._dropped: set[Direction] = set()
        self._leads_nowhere = False
        self._open = {way: asyncio.Event() for way in Direction}
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._held: HeldPort | None = None  # ours, also while connections are refused
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self.release()
        self._held = HeldPort(_HOST)
        self.bootstrap = f"{_HOST}:{self._held.number}"
        await self._listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._held is not None:
            self._held.close()

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._passages)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds; asked again whenever a connection comes or goes, or bytes are lost."""
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    # --- faults -------------------------------------------------------------------------------

    def cut(self) -> int:
        """Break every connection; how many there were."""
        passages = list(self._passages)
        for passage in passages:
            passage.cut()
        return len(passages)

    async def refuse(self) -> None:
        """Break every connection and refuse new ones, as a host does without a listener."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    def hold(self, *ways: Direction) -> None:
        """Keep what is sent these ways (both, if none are named) until ``release``: nothing is lost."""
        for way in ways or BOTH:
            self._open[way].clear()

    def release(self) -> None:
        """Let go what was held."""
        for event in self._open.values():
            event.set()

    def drop(self, *ways: Direction) -> None:
        """Lose what is sent these ways (both, if none are named); connections stay open."""
        self._dropped.update(ways or BOTH)

    def half_open(self) -> None:
        """Let the broker vanish without a word: clients keep open, or open, connections without a peer."""
        self._leads_nowhere = True
        for passage in self._passages:
            passage.is_spoiled = True
            passage.leave_broker()

    async def heal(self) -> None:
        """No more faults. Connections that lost bytes are cut: no client could use them again."""
        self.delay_s, self.bytes_per_s = 0.0, None
        self._dropped.clear()
        self._leads_nowhere = False
        for passage in list(self._passages):
            if passage.is_spoiled:
                passage.cut()
        self.release()
        if self._server is None:
            await self._listen()

    # --- passing on ---------------------------------------------------------------------------

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, _HOST, parse_address(self.bootstrap).port)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        source: asyncio.StreamReader | None = None
        broker: asyncio.StreamWriter | None = None
        try:
            if not self._leads_nowhere:
                address = parse_address(self.upstream)
                source, broker = await asyncio.open_connection(address.host, address.port)
        except OSError:
            client.transport.abort()
            return
        passage = _Passage(client, broker)
        self._passages.add(passage)
        self.opened += 1
        self._changed.set()
        pumps = [asyncio.create_task(self._pump(reader, passage, Direction.THERE))]
        if source is not None:
            pumps.append(asyncio.create_task(self._pump(source, passage, Direction.BACK)))
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            if passage.is_spoiled and not pumps[0].done():
                await pumps[0]  # the broker is gone; the client does not know
        finally:
            passage.cut()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._passages.discard(passage)
            self._changed.set()

    async def _pump(self, source: asyncio.StreamReader, passage: _Passage, way: Direction) -> None:
        """Until the source ends or breaks."""
        try:
            while data := await source.read(self._piece()):
                await self._wait(len(data), way)
                target = passage.broker if way is Direction.THERE else passage.client
                if way in self._dropped or passage.is_spoiled or target is None:
                    passage.is_spoiled = True
                    self.lost += len(data)
                    self._changed.set()
                    continue
                target.write(data)
                await target.drain()
        except ConnectionError:
            return

    def _piece(self) -> int:
        """Small pieces when bytes are few: else the first would come late and all at once."""
        return _CHUNK if self.bytes_per_s is None else max(1, min(_CHUNK, int(self.bytes_per_s / 100)))

    async def _wait(self, size: int, way: Direction) -> None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if self.bytes_per_s is not None:
            await asyncio.sleep(size / self.bytes_per_s)
        await self._open[way].wait()


class Proxy:
    """A proxy on a thread and an event loop of its own."""

    def __init__(self, upstream: str = "") -> None:
        self._upstream = upstream

    def __enter__(self) -> Self:
        self._loop = LoopThread("kohort proxy")
        self._proxy = self._loop.run(self._start())
        return self

    async def _start(self) -> AsyncProxy:
        return await AsyncProxy(self._upstream).__aenter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self._proxy.__aexit__(kind, error, trace))
        self._loop.stop()

    @property
    def bootstrap(self) -> str:
        """``host:port`` clients connect to, and what the broker is to advertise."""
        return self._proxy.bootstrap

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return self._proxy.connections

    def lead_to(self, upstream: str) -> None:
        """Pass new connections on to this broker."""
        self._proxy.upstream = upstream

    def until(self, holds: Callable[[], bool]) -> None:
        """As :meth:`AsyncProxy.until`."""
        self._loop.run(self._proxy.until(holds))

    def cut(self) -> int:
        """Break every connection; how many there were."""
        return self._loop.do(self._proxy.cut)

    def hold(self, *ways: Direction) -> None:
        """As :meth:`AsyncProxy.hold`."""
        self._loop.do(partial(self._proxy.hold, *ways))

    def release(self) -> None:
        """Let go what was held."""
        self._loop.do(self._proxy.release)

    def drop(self, *ways: Direction) -> None:
        """As :meth:`AsyncProxy.drop`."""
        self._loop.do(partial(self._proxy.drop, *ways))

    def half_open(self) -> None:
        """As :meth:`AsyncProxy.half_open`."""
        self._loop.do(self._proxy.half_open)

    def refuse(self) -> None:
        """As :meth:`AsyncProxy.refuse`."""
        self._loop.run(self._proxy.refuse())

    def heal(self) -> None:
        """As :meth:`AsyncProxy.heal`."""
        self._loop.run(self._proxy.heal())

    def slow_down(self, *, delay_s: float = 0.0, bytes_per_s: float | None = None) -> None:
        """Delay and throttle, from now on."""
        self._proxy.delay_s, self._proxy.bytes_per_s = delay_s, bytes_per_s
