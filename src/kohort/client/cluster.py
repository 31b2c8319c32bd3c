"""A cluster as its clients see it: who leads, who coordinates, who takes administrative writes.

Everything a client asks goes through here: it finds the right node, keeps the connections, and repeats what
failed for a passing reason until a deadline.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from enum import Enum
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from kohort.client.addresses import Address, parse_bootstrap
from kohort.client.connection import ClientConnection, Dial, dial_tcp, open_connection
from kohort.client.errors import (
    BrokerError,
    ClientClosedError,
    ConnectError,
    DisconnectedError,
    NoBrokerError,
    SecurityError,
    check,
)
from kohort.client.metadata import NO_NODE, Metadata, Node, coordinator_in, merge
from kohort.client.settings import DEFAULTS, ClientOptions, Dice, backoff_ms
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import NodeId, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


class ConnectionPurpose(Enum):
    """Why a connection exists. A JoinGroup or a long poll blocks its connection: others must not wait."""

    GENERAL = "general"
    COORDINATOR = "coordinator"
    FETCH = "fetch"


class Pool:
    """Opens connections when first asked for, and again after they broke."""

    def __init__(self, options: ClientOptions, dial: Dial) -> None:
        self._options = options
        self._dial = dial
        self._open: dict[tuple[NodeId, ConnectionPurpose], ClientConnection] = {}
        self._bootstrap: ClientConnection | None = None
        self._bootstrapping = asyncio.Lock()
        self._opening: defaultdict[tuple[NodeId, ConnectionPurpose], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._is_closed = False

    async def to_node(
        self, node: Node, purpose: ConnectionPurpose = ConnectionPurpose.GENERAL
    ) -> ClientConnection:
        """A live connection; ConnectError says so when it is the advertised address that leads nowhere."""
        key = (node.node_id, purpose)
        async with self._opening[key]:  # of several who ask at once, one connects
            found = self._open.get(key)
            if found is not None and found.is_open and found.address == node.address:
                return found
            if found is not None:
                found.close()
            connection = self._adopted(node, purpose) or await self._connect(node)
            self._open[key] = connection
            self._close_if_late(connection)
            return connection

    def _adopted(self, node: Node, purpose: ConnectionPurpose) -> ClientConnection | None:
        """The bootstrap connection, if it turned out to lead to this node: saves a round trip."""
        found = self._bootstrap
        if found is None or not found.is_open or found.address != node.address:
            return None
        if purpose is not ConnectionPurpose.GENERAL:
            return None
        self._bootstrap = None
        return found

    async def _connect(self, node: Node) -> ClientConnection:
        try:
            return await open_connection(node.address, self._options, dial=self._dial)
        except ConnectError as error:
            raise ConnectError(
                f"broker {node.node_id} says it is at {node.address}: {error.args[0]}",
                hint="it must advertise an address that works from here (`kohort serve --advertise`)",
            ) from error

    async def bootstrap(self, address: Address) -> ClientConnection:
        """A connection to an address of which only that is known; at most one is kept."""
        async with self._bootstrapping:
            found = self._bootstrap
            if found is not None and found.is_open and found.address == address:
                return found
            if found is not None:
                found.close()
            self._bootstrap = found = await open_connection(address, self._options, dial=self._dial)
            self._close_if_late(found)
            return found

    def live(self) -> ClientConnection | None:
        """Any open connection that no long poll blocks."""
        general = (
            found for (_, purpose), found in self._open.items() if purpose is ConnectionPurpose.GENERAL
        )
        candidates = [*general, *([self._bootstrap] if self._bootstrap is not None else [])]
        return next((found for found in candidates if found.is_open), None)

    def _close_if_late(self, connection: ClientConnection) -> None:
        """A pool that was closed while a task connected, or waited for that, keeps nothing open."""
        if self._is_closed:
            connection.close()
            raise ClientClosedError(f"the client was closed while it connected to {connection.address}")

    def reopen(self) -> None:
        """Be of use again after ``close``."""
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        if self._bootstrap is not None:
            self._bootstrap.close()
            self._bootstrap = None


def reason(error: KohortError) -> str:
    """Why a connection failed, without the address it failed at."""
    return str(error.args[0]).rsplit(": ", 1)[-1]


T = TypeVar("T")


class Deadline:
    """A moment after which nothing is tried any more. ``now`` is a clock in seconds."""

    def __init__(self, milliseconds: float, now: Callable[[], float] | None = None) -> None:
        self._now = now or asyncio.get_running_loop().time
        self._at = self._now() + milliseconds / 1_000

    @property
    def left_ms(self) -> float:
        return max(0.0, (self._at - self._now()) * 1_000)


class Retry:
    """Repeats an attempt as long as its failure is retriable and the deadline leaves room for a pause."""

    def __init__(
        self,
        options: ClientOptions,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        dice: Dice = random.random,
    ) -> None:
        self._options = options
        self._sleep = sleep
        self._dice = dice

    async def run(
        self, attempt: Callable[[], Awaitable[T]], deadline: Deadline, recover: Callable[[KohortError], None]
    ) -> T:
        """The result of the first attempt that succeeds, else the last failure.

        ``recover`` hears of each failure that is followed by another attempt, to forget what was wrong.
        """
        failures = 0
        while True:
            try:
                return await attempt()
            except KohortError as error:
                pause = backoff_ms(failures, self._options, self._dice)
                if not error.retriable or deadline.left_ms <= pause:
                    raise
                recover(error)
            failures += 1
            await self._sleep(pause / 1_000)


R = TypeVar("R", bound=Message)


class Role(Enum):
    """A node named by what it does rather than by its number."""

    ANY = "any broker"
    CONTROLLER = "the controller"


class KeyType(Enum):
    """What a coordinator coordinates; the values are those of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


class CoordinatorOf(NamedTuple):
    """The node that keeps the state of one group or transactional id."""

    key: str
    kind: KeyType = KeyType.GROUP


Target = Role | CoordinatorOf | int
"""Where a request goes: a role, a coordinator, or a node by its id."""


def accept(_reply: Message) -> None:
    """Take any reply; error codes in it are the caller's business."""


class ClusterClient:
    """One cluster. ``async with ClusterClient("host:9092") as cluster`` connects; the end closes all.

    Entering fails at once with NoBrokerError if no broker answers; later losses are retried.
    """

    def __init__(
        self,
        bootstrap: str,
        options: ClientOptions = DEFAULTS,
        *,
        dial: Dial = dial_tcp,
        retry: Retry | None = None,
    ) -> None:
        self.bootstrap = parse_bootstrap(bootstrap)
        self.options = options
        self.metadata = Metadata()
        self._pool = Pool(options, dial)
        self._retry = retry or Retry(options)
        self._coordinators: dict[CoordinatorOf, Node] = {}
        self._stale = False
        self._closed = False

    async def __aenter__(self) -> Self:
        self._closed = False
        self._pool.reopen()
        try:
            await self.refresh(())
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; requests in flight fail, and are not repeated."""
        self._closed = True
        self._pool.close()

    def deadline(self) -> Deadline:
        """The end of the time one call may take with all its retries."""
        return Deadline(self.options.api_timeout_ms)

    # Asking

    async def ask(
        self,
        target: Target,
        request: Message,
        expect: type[R],
        *,
        check: Callable[[R], None] = accept,
        highest: int | None = None,
    ) -> R:
        """The reply of the right node, once ``check`` accepts it; in no version above ``highest``.

        What fails for a passing reason (a lost connection, a BrokerError of ``check`` that is retriable) is
        repeated until the deadline: only ask this way for what may be carried out twice.
        """
        deadline = self.deadline()

        async def attempt() -> R:
            connection = await self.connection(target)
            patience = self.options.request_timeout_ms
            reply = await connection.send(
                request, expect, highest=highest, timeout_ms=int(min(patience, deadline.left_ms + 1))
            )
            check(reply)
            return reply

        return await self._retry.run(attempt, deadline, lambda error: self._forget(target, error))

    async def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[NodeId, list[TopicPartition]], Awaitable[Mapping[TopicPartition, T | BrokerError]]],
    ) -> dict[TopicPartition, T | BrokerError]:
        """Ask the leader of each partition, all leaders at once, and again for what a passing error hit.

        A partition that is refused for good has its BrokerError as its result. Raises what still hinders
        the others at the deadline.
        """
        missing = dict.fromkeys(partitions)
        results: dict[TopicPartition, T | BrokerError] = {}

        async def attempt() -> None:
            names = {partition.topic for partition in missing}
            metadata = await self.topics(names)
            if not all(map(metadata.knows, missing)):
                metadata = await self.refresh(names)  # a partition may be newer than what we know
            asked = metadata.by_leader(missing)
            answers = await asyncio.gather(*(ask(*item) for item in asked.items()), return_exceptions=True)
            failures = [answer for answer in answers if isinstance(answer, BaseException)]
            for answer in answers:
                if isinstance(answer, BaseException):
                    continue
                passing = {tp: why for tp, why in answer.items() if _is_passing(why)}
                failures += [why for why in passing.values() if isinstance(why, BrokerError)]
                results.update((tp, answer[tp]) for tp in answer if tp not in passing)
            for partition in results:
                missing.pop(partition, None)
            if failures:
                raise failures[0]
            if missing:
                raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"ask about {_some(missing)}", "no answer")

        await self._retry.run(attempt, self.deadline(), lambda error: self._forget(Role.ANY, error))
        return results

    async def retry(self, attempt: Callable[[], Awaitable[T]], deadline: Deadline | None = None) -> T:
        """Repeat ``attempt`` while it fails for passing reasons, with fresh metadata each time."""
        return await self._retry.run(
            attempt, deadline or self.deadline(), lambda error: self._forget(Role.ANY, error)
        )

    def _forget(self, target: Target, error: KohortError) -> None:
        """What an error proves wrong is asked for again before the next attempt."""
        self._stale = True
        if isinstance(target, CoordinatorOf):
            loading = isinstance(error, BrokerError) and error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            if not loading:
                self._coordinators.pop(target, None)

    # Finding nodes

    async def connection(
        self, target: Target, purpose: ConnectionPurpose = ConnectionPurpose.GENERAL
    ) -> ClientConnection:
        """A live connection to where the target is now. One attempt: errors say whether to try again."""
        self._check_open()
        if self._stale:
            await self.refresh()
        match target:
            case Role.ANY:
                return await self._anyone()
            case Role.CONTROLLER:
                return await self._pool.to_node(self._node(self.metadata.controller_id), purpose)
            case CoordinatorOf():
                node = self._coordinators.get(target) or await self.find_coordinator(target)
                return await self._pool.to_node(node, ConnectionPurpose.COORDINATOR)
            case _:
                return await self._pool.to_node(self._node(NodeId(target)), purpose)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError(f"the client of {self.bootstrap[0]} is closed")

    def _node(self, node_id: NodeId) -> Node:
        node = self.metadata.nodes.get(node_id)
        if node is None:
            what = "find the controller" if node_id == NO_NODE else f"find broker {node_id}"
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, what, "it is not among the brokers right now")
        return node

    async def _ask_anyone(self, request: Message, expect: type[R]) -> R:
        """The reply of the first that gives one: a node that has lost its cluster hangs up on who asks."""
        avoid: set[Address] = set()
        while True:
            connection = await self._anyone(avoid)
            try:
                return await connection.send(request, expect)
            except DisconnectedError:
                avoid.add(connection.address)
                if avoid.issuperset(self._tried()):
                    raise

    async def _anyone(self, avoid: Collection[Address] = ()) -> ClientConnection:
        """The first that answers: an open connection, a known broker, in the end a bootstrap address."""
        self._check_open()
        live = self._pool.live()
        if live is not None:
            return live
        reasons: list[str] = []
        for node in self.metadata.nodes.values():
            if node.address in avoid:
                continue
            try:
                return await self._pool.to_node(node)
            except SecurityError:
                raise  # another broker would refuse as well, and some lock the account
            except KohortError as error:
                reasons.append(reason(error))
        for address in self.bootstrap:
            if address in avoid:
                continue
            try:
                return await self._pool.bootstrap(address)
            except ConnectError as error:
                reasons.append(reason(error))
        raise NoBrokerError(self._tried(), reasons)

    def _tried(self) -> list[Address]:
        known = (node.address for node in self.metadata.nodes.values())
        return list(dict.fromkeys([*self.bootstrap, *known]))

    async def find_coordinator(self, target: CoordinatorOf) -> Node:
        """Who coordinates; asked each time, and kept for ``connection``. One attempt."""
        response = await self._ask_anyone(
            FindCoordinatorRequest(key=target.key, key_type=target.kind.value, coordinator_keys=[target.key]),
            FindCoordinatorResponse,
        )
        found = coordinator_in(response)
        check(
            found.error_code, f"find the coordinator of {target.kind.name.lower()} {target.key!r}",
            found.error_message,
        )  # fmt: skip
        node = Node(NodeId(found.node_id), found.host, found.port)
        self._coordinators[target] = node
        return node

    # Knowing topics

    async def topics(self, names: Collection[str], *, create: bool = False) -> Metadata:
        """Metadata that covers these topics: what is known, or asked for if something is missing or doubtful.

        A topic that does not exist shows in ``Metadata.problems``; ``create`` lets the broker make it, if it
        is set up to.
        """
        if self._stale or any(TopicName(name) not in self.metadata.topics for name in names):
            return await self.refresh(names, create=create)
        return self.metadata

    async def refresh(self, names: Collection[str] | None = None, *, create: bool = False) -> Metadata:
        """Ask for these topics, or for all that are known if none are named. One attempt."""
        asked = list(self.metadata.topics) if names is None else list(names)
        return await self._load([MetadataRequestTopic(name=name) for name in asked], create=create)

    async def refresh_all(self) -> Metadata:
        """Ask for every topic of the cluster. One attempt."""
        return await self._load(None)

    async def _load(self, topics: list[MetadataRequestTopic] | None, *, create: bool = False) -> Metadata:
        response = await self._ask_anyone(
            MetadataRequest(topics=topics, allow_auto_topic_creation=create), MetadataResponse
        )
        check(response.error_code, "ask for metadata")
        self.metadata = merge(self.metadata, response, whole=topics is None)
        self._stale = False
        return self.metadata


def _is_passing(result: object) -> bool:
    return isinstance(result, BrokerError) and result.retriable


def _some(partitions: Collection[TopicPartition]) -> str:
    first = [str(partition) for partition in partitions][:3]
    return ", ".join(first) + (" …" if len(partitions) > len(first) else "")
