"""The shell of ``Membership``: carries out its effects, brings back what comes of them."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from kohort.client.addresses import Address
from kohort.client.cluster import ClusterClient, Role
from kohort.client.connection import ClientConnection, Dial, open_connection
from kohort.client.consumer.background import MetadataWatch, Tasks, Topics
from kohort.client.errors import (
    ApiNotServedError,
    ConcurrentUseError,
    DisconnectedError,
    SecurityError,
    WakeupError,
)
from kohort.client.membership.commands import (
    CallbackDone,
    Close,
    Closed,
    Command,
    Commit,
    CommitDone,
    CommitId,
    CommittedFetched,
    ConnectCoordinator,
    ConnectionLost,
    CoordinatorNode,
    Destination,
    DisconnectCoordinator,
    Effect,
    FetchCommitted,
    FetchId,
    MetadataUpdated,
    Noted,
    Poll,
    Polled,
    Raised,
    RefreshMetadata,
    ReplyReceived,
    RequestFailed,
    RunCallback,
    Send,
    Unsubscribe,
    Unsubscribed,
    WakePoll,
    method_for,
)
from kohort.client.membership.machine import Membership
from kohort.client.membership.state import cluster_topics
from kohort.client.subscription import OffsetAndMetadata, RebalanceListener
from kohort.codec.schema import Message, Versions
from kohort.model.errors import KohortError
from kohort.model.ids import Instant
from kohort.model.topics import TopicPartition
from kohort.wire.apis import APIS

_log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback = Callable[[Offsets, KohortError | None], object]
"""Hears how an asynchronous commit ended; may be a coroutine function in an ``AsyncConsumer``."""

Invoke = Callable[[Callable[[], object]], Awaitable[object]]
"""Runs a call in the application's context and waits for it."""


async def invoke_here(call: Callable[[], object]) -> object:
    """In the task that polls; what can be awaited is awaited."""
    result = call()
    return await result if inspect.isawaitable(result) else result


class Interceptors:
    """Objects with ``on_consume(records)`` (returns records, or None for the same) or ``on_commit(offsets)``.

    What they raise is logged and goes no further.
    """

    def __init__(self, interceptors: Sequence[object]) -> None:
        self._consuming = [each for each in interceptors if hasattr(each, "on_consume")]
        self._committing = [each for each in interceptors if hasattr(each, "on_commit")]

    @property
    def consume(self) -> bool:
        """Whether any wants to see records."""
        return bool(self._consuming)

    def on_consume(self, records: dict[TopicPartition, list[Any]]) -> dict[TopicPartition, list[Any]]:
        for each in self._consuming:
            try:
                seen = getattr(each, "on_consume")(records)  # noqa: B009 - not every interceptor has it
            except Exception:
                _log.exception("an interceptor failed in on_consume")
            else:
                records = records if seen is None else seen
        return records

    def on_commit(self, offsets: Offsets) -> None:
        for each in self._committing:
            try:
                getattr(each, "on_commit")(offsets)  # noqa: B009 - not every interceptor has it
            except Exception:
                _log.exception("an interceptor failed in on_commit")


def log_commit(offsets: Offsets, error: KohortError | None) -> None:
    """The callback of a commit that was given none."""
    if error is not None:
        _log.error("an asynchronous commit of %d partitions failed: %s", len(offsets), error)


class CoordinatorLink:
    """A socket of its own: a fetch that waits for records must not delay a heartbeat."""

    def __init__(
        self, cluster: ClusterClient, dial: Dial, lost: Callable[[SecurityError | None], None]
    ) -> None:
        self._cluster = cluster
        self._dial = dial
        self._lost = lost
        self._opening: asyncio.Task[ClientConnection] | None = None

    def connect(self, node: CoordinatorNode) -> None:
        """Begin to connect; ``lost`` is called if that fails."""
        self.close()
        address = Address(node.host, node.port)
        opening = asyncio.get_running_loop().create_task(
            open_connection(address, self._cluster.options, dial=self._dial)
        )
        self._opening = opening
        opening.add_done_callback(self._opened)

    def _opened(self, opening: asyncio.Task[ClientConnection]) -> None:
        if opening.cancelled():
            return
        error = opening.exception()
        if error is not None:
            if opening is self._opening:
                self._opening = None
                self._lost(error if isinstance(error, SecurityError) else None)
        elif opening is not self._opening:
            opening.result().close()  # given up while it was being opened

    def close(self) -> None:
        opening, self._opening = self._opening, None
        if opening is None:
            return
        if not opening.done():
            opening.cancel()
        elif not opening.cancelled() and opening.exception() is None:
            opening.result().close()

    async def send(self, effect: Send) -> Message:
        """The reply. Raises KohortError, retriable if the way there is broken."""
        connection = await self._connection(effect.destination)
        api_key = effect.request.api_key
        assert api_key is not None
        version = connection.version_of(api_key, effect.highest)
        spec = APIS[api_key]
        if version < effect.lowest:
            wanted = Versions(effect.lowest, effect.highest or spec.versions.last)
            raise ApiNotServedError(spec, wanted, connection.api_versions[api_key], connection.address)
        return await connection.send(
            effect.request, spec.response_class, highest=effect.highest, timeout_ms=effect.timeout_ms
        )

    async def _connection(self, destination: Destination) -> ClientConnection:
        if destination is Destination.LEAST_LOADED:
            return await self._cluster.connection(Role.ANY)
        opening = self._opening
        if opening is None:
            raise DisconnectedError("there is no connection to the coordinator")
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            assert waiting is not None
            if opening.cancelled() and not waiting.cancelling():
                raise DisconnectedError("the connection to the coordinator was given up") from None
            raise
        except KohortError as error:
            raise DisconnectedError(f"cannot reach the coordinator: {error}") from error


Turn = Polled | Raised | RunCallback | Unsubscribed | Closed


class MemberInputs(NamedTuple):
    """What a member is given besides its machine."""

    cluster: ClusterClient
    dial: Dial
    invoke: Invoke
    interceptors: Interceptors


class GroupMember:
    """One member of one group, on the running loop."""

    def __init__(
        self, membership: Membership, tasks: Tasks, watch: MetadataWatch, given: MemberInputs
    ) -> None:
        self.membership = membership
        self.listener: RebalanceListener | None = None
        self._tasks = tasks
        self._watch = watch
        self._link = CoordinatorLink(
            given.cluster, given.dial, lambda refusal: self.do(ConnectionLost(refusal))
        )
        self._given = given
        self._ids = count(1)
        self._turn: asyncio.Queue[Turn] = asyncio.Queue()
        self._timer: asyncio.TimerHandle | None = None
        self._commits: dict[CommitId, asyncio.Future[CommitDone]] = {}
        self._callbacks: dict[CommitId, CommitCallback] = {}
        self._completed: list[tuple[CommitCallback, CommitDone]] = []
        self._fetches: dict[FetchId, asyncio.Future[CommittedFetched]] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.is_calling_back = False

    # --- calls of the application -------------------------------------------------------------

    async def poll(self) -> bool:
        """One turn; whether the group is active. Callbacks run in here."""
        if self._completed:
            await self.deliver()
        if not self.is_calling_back and self.membership.poll_calmly(self._tasks.now()):
            return True
        return await self._run(Poll())

    async def unsubscribe(self) -> None:
        """Leave. A call that is cancelled meanwhile leaves too: heartbeats would keep the member for ever."""
        try:
            await self._run(Unsubscribe())
        except asyncio.CancelledError:
            await self._run(Unsubscribe())
            raise

    async def close(self, deadline: Instant) -> None:
        """Leave. Raises what a callback raised, when everything is over.

        A call that is cancelled meanwhile waits for no commit any more, but leaves: the others of the group
        are not to wait for the end of a session.
        """
        try:
            await self._run(Close(deadline))
        except asyncio.CancelledError:
            if not self.membership.is_closed:
                await self._run(Close(self._tasks.now()))
            raise
        finally:
            try:
                await self.deliver()
            finally:
                self._is_closed = True
                if self._timer is not None:
                    self._timer.cancel()

    async def finish(self, millis: float) -> None:
        """Let what was sent (LeaveGroup) be answered."""
        if self._sending:
            await asyncio.wait(self._sending, timeout=millis / 1_000)

    def hang_up(self) -> None:
        self._link.close()

    async def commit(self, offsets: Offsets | None, deadline: Instant) -> None:
        """Commit and wait; callbacks of earlier asynchronous commits come first."""
        await self.deliver()
        commit_id = CommitId(next(self._ids))
        future: asyncio.Future[CommitDone] = asyncio.get_running_loop().create_future()
        self._commits[commit_id] = future
        self.do(Commit(commit_id, offsets, deadline))
        try:
            done = await future
        finally:
            self._commits.pop(commit_id, None)
        await self.deliver()
        if done.error is not None:
            raise done.error
        self._given.interceptors.on_commit(done.offsets)

    def commit_async(self, offsets: Offsets | None, callback: CommitCallback | None) -> None:
        """Commit once; ``callback`` runs inside a later call of the application."""
        commit_id = CommitId(next(self._ids))
        self._callbacks[commit_id] = callback or log_commit
        self.do(Commit(commit_id, offsets))

    async def committed(
        self, partitions: tuple[TopicPartition, ...], deadline: Instant
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        fetch_id = FetchId(next(self._ids))
        future: asyncio.Future[CommittedFetched] = asyncio.get_running_loop().create_future()
        self._fetches[fetch_id] = future
        self.do(FetchCommitted(fetch_id, partitions, deadline))
        try:
            found = await future
        finally:
            self._fetches.pop(fetch_id, None)
        if found.error is not None:
            raise found.error
        return found.offsets

    async def deliver(self) -> None:
        """Run the callbacks of asynchronous commits that are over, in the order they ended."""
        while self._completed:
            callback, done = self._completed.pop(0)
            if done.error is None:
                self._given.interceptors.on_commit(done.offsets)
            await self._given.invoke(partial(callback, done.offsets, done.error))

    async def _run(self, command: Poll | Unsubscribe | Close) -> bool:
        if self.is_calling_back:
            raise ConcurrentUseError("callback")
        self._turn = turn = asyncio.Queue[Turn]()
        self.do(command)
        while True:
            effect = await turn.get()
            match effect:
                case RunCallback():
                    await self._call_back(effect)
                case Polled(active):
                    return active
                case Raised(error):
                    raise error
                case Unsubscribed(failure) | Closed(failure):
                    if failure is not None:
                        raise failure
                    return True

    async def _call_back(self, effect: RunCallback) -> None:
        done = CallbackDone(effect.callback_id)
        if self.listener is not None:
            self.is_calling_back = True
            try:
                await self._given.invoke(partial(method_for(self.listener, effect.kind), effect.partitions))
            except WakeupError as error:
                done = CallbackDone(effect.callback_id, error, interrupted=True)
            except Exception as error:
                done = CallbackDone(effect.callback_id, error)
            finally:
                self.is_calling_back = False
        self.do(done)

    # --- the machine --------------------------------------------------------------------------

    def do(self, command: Command) -> None:
        """Tell the machine, and carry out what it wants."""
        self._carry_out(self.membership.handle(command, self._tasks.now()))

    def metadata_updated(self, asked: Topics) -> None:
        self.do(MetadataUpdated(cluster_topics(self._watch.metadata, self._watch.version, asked)))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._act(effect)
        self._set_timer()

    def _act(self, effect: Effect) -> None:
        match effect:
            case Send():
                task = self._tasks.spawn(self._send(effect))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)
            case RunCallback() | Polled() | Raised() | Unsubscribed() | Closed():
                self._turn.put_nowait(effect)
            case WakePoll():
                self._tasks.bell.set()
            case ConnectCoordinator(node):
                self._link.connect(node)
            case DisconnectCoordinator():
                self._link.close()
            case RefreshMetadata(topics):
                self._watch.request(topics or frozenset())
            case Noted(text, is_warning):
                _log.log(logging.WARNING if is_warning else logging.INFO, "%s", text)
            case CommitDone() | CommittedFetched():
                self._answer(effect)

    def _answer(self, done: CommitDone | CommittedFetched) -> None:
        self._tasks.bell.set()
        if isinstance(done, CommittedFetched):
            asked = self._fetches.get(done.fetch_id)
            if asked is not None and not asked.done():
                asked.set_result(done)
            return
        callback = self._callbacks.pop(done.commit_id, None)
        if callback is not None:
            self._completed.append((callback, done))
            return
        waiting = self._commits.get(done.commit_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(done)

    async def _send(self, effect: Send) -> None:
        try:
            response = await self._link.send(effect)
        except KohortError as error:
            self.do(RequestFailed(effect.request_id, error))
        else:
            self.do(ReplyReceived(effect.request_id, response))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.membership.next_deadline()
        if due is not None and not self._is_closed:
            # A millisecond later, because the loop's clock has fractions that the machine's has not.
            self._timer = asyncio.get_running_loop().call_at((due + 1) / 1_000, self._advance)

    def _advance(self) -> None:
        self._timer = None
        self._carry_out(self.membership.advance(self._tasks.now()))
