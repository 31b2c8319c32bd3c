"""FIND_COORDINATOR: which broker coordinates the group, and what happens while it is unknown.

At most one lookup is in flight; poll, heartbeats and commits share it. Kafka's ``ensureCoordinatorReady``,
``lookupCoordinator`` and ``sendFindCoordinatorRequest``.
"""

from abc import ABC, abstractmethod

from kohort.client.errors import (
    STALLED_HINT,
    BrokerError,
    CoordinatorDeniedError,
    CoordinatorNotFoundError,
    DisconnectedError,
)
from kohort.client.membership.commands import (
    ConnectCoordinator,
    CoordinatorNode,
    Destination,
    DisconnectCoordinator,
)
from kohort.client.membership.context import MemberContext
from kohort.client.membership.reactions import NextStep, reaction_to, reaction_to_silence
from kohort.client.metadata import coordinator_in
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import Instant, NodeId
from kohort.wire.apis import ApiKey
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_GROUP = 0


class Discovery:
    """The coordinator, or the search for it."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self.node: CoordinatorNode | None = None
        self.not_before = context.now  # when the next lookup may start
        self._is_looking = False
        self._failures = 0  # since the coordinator last answered anything
        self._refusal: KohortError | None = None  # of a lookup or a log-in; raised by the next poll
        self._unknown_since = context.now
        self._has_warned = False

    @property
    def coordinator_unknown(self) -> bool:
        return self.node is None

    @property
    def is_looking(self) -> bool:
        """Whether a lookup is in flight; otherwise the next one may start at ``not_before``."""
        return self._is_looking

    def ensure_coordinator_ready(self) -> bool:
        """Whether there is a coordinator to talk to; if not, a lookup is on its way or will be.

        Raises what a lookup was refused with, once; the next call starts another.
        """
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal
        self.lookup_coordinator()
        return not self.coordinator_unknown

    def lookup_coordinator(self) -> None:
        """Start a lookup, unless there is no need, one is in flight, or it is too early."""
        if self.node is None and not self._is_looking and self._context.now >= self.not_before:
            self._is_looking = True
            self._send_find_coordinator_request()

    def mark_coordinator_unknown(self, cause: str, *, is_disconnected: bool = False) -> None:
        """Forget the coordinator first, then take everything in flight to it as lost."""
        node, self.node = self.node, None
        if node is None:
            return
        self._unknown_since, self._has_warned = self._context.now, False
        self._context.note(f"coordinator {node.node_id} is unavailable or no longer the right one: {cause}")
        if not is_disconnected:
            self._context.emit(DisconnectCoordinator(node))
        lost = DisconnectedError(f"the connection to the group's coordinator was given up: {cause}")
        self._context.lose_requests(Destination.COORDINATOR, lost)
        self._context.wake_poll()

    def connection_lost(self, refusal: KohortError | None) -> None:
        """The coordinator's connection failed: look it up again, but not at once. A refusal is raised."""
        if self.node is not None:
            self._pause()
            self.mark_coordinator_unknown("its connection was lost", is_disconnected=True)
            if refusal is not None:
                self._refused(refusal)

    def coordinator_answered(self) -> None:
        """The next search starts without a history."""
        self._failures = 0

    def _send_find_coordinator_request(self) -> None:
        group_id = self._context.settings.group
        request = FindCoordinatorRequest(key=group_id, key_type=_GROUP, coordinator_keys=[group_id])
        self._context.send(request)

    def replied(self, response: FindCoordinatorResponse) -> None:
        self._is_looking = False
        found = coordinator_in(response)
        if found.error_code:
            self._failed(found)
            return
        self.node = CoordinatorNode(NodeId(found.node_id), found.host, found.port)
        self._context.emit(ConnectCoordinator(self.node))
        self._context.dispatcher.coordinator_found()
        self._context.wake_poll()

    def _failed(self, found: Coordinator) -> None:
        group_id = self._context.settings.group
        what = f"find the coordinator of group {group_id!r}"
        reaction = reaction_to(ApiKey.FIND_COORDINATOR, found.error_code)
        if reaction.then is NextStep.RETRY:
            self._try_later(BrokerError(found.error_code, what, found.error_message))
        else:
            is_denied = found.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
            kind = CoordinatorDeniedError if is_denied else CoordinatorNotFoundError
            error = kind(found.error_code, what, found.error_message)
            error.hint = reaction.hint or error.hint
            self._refused(error)

    def unanswered(self, error: KohortError) -> None:
        self._is_looking = False
        if error.retriable and reaction_to_silence(ApiKey.FIND_COORDINATOR).then is NextStep.RETRY:
            self._try_later(error)
        else:
            self._refused(error)

    def _try_later(self, error: KohortError) -> None:
        self._pause()
        self._context.refresh_metadata()  # the nodes one could ask may have changed
        self._tell(error)
        patience = self._context.settings.max_poll_interval_ms
        if not self._has_warned and self._context.now - self._unknown_since > patience:
            self._has_warned = True
            self._context.note(
                f"no coordinator for longer than max.poll.interval.ms ({patience}): the group may have "
                "given this member's partitions to others",
                is_warning=True,
            )

    def _refused(self, error: KohortError) -> None:
        self._refusal = error
        self._tell(error)

    def _tell(self, error: KohortError) -> None:
        self._context.dispatcher.lookup_failed(error)
        self._context.wake_poll()

    def _pause(self) -> None:
        self.not_before = self._context.after_backoff(self._failures)
        self._failures += 1


_NEVER = Instant(2**53)


class PollTimer(ABC):
    """max.poll.interval.ms, and what ended the heartbeats: the same in both protocols."""

    def __init__(self, context: MemberContext, discovery: Discovery) -> None:
        self._member_context = context
        self._discovery = discovery
        self._failures = 0
        self._fatal: KohortError | None = None  # raised by the next poll
        self._poll_until = self._heartbeat_at = context.now

    @property
    def has_failed(self) -> bool:
        """Whether the next poll raises what ended the heartbeats."""
        return self._fatal is not None

    def poll_heartbeat(self) -> None:
        """The application polls: it lives. Raises what ended the heartbeats, once.

        Done before the coordinator is known: failing to find it never counts as a stalled application.
        """
        if self._fatal is not None:
            fatal, self._fatal = self._fatal, None
            raise fatal
        self._poll_until = self._member_context.now
        self.restart_poll()

    def restart_poll(self) -> None:
        """Nothing if the timer was stopped."""
        if self._poll_until != _NEVER:
            self._poll_until = self._member_context.after(self._member_context.settings.max_poll_interval_ms)

    def stop_poll_timer(self) -> None:
        """The member is leaving: no poll is expected any more, until one comes."""
        self._poll_until = _NEVER

    def beat_now(self) -> None:
        """Send a heartbeat, unless the answer to one is awaited, or none may be sent."""
        self._heartbeat_at = self._member_context.now
        self.tick()

    @abstractmethod
    def tick(self) -> None:
        """Do what is due, whether or not the application polls."""

    @abstractmethod
    def next_deadline(self) -> Instant | None:
        """When ``tick`` has something to do."""

    def until_found(self) -> Instant:
        """The next deadline while the coordinator is unknown."""
        looking = self._discovery.is_looking
        return self._poll_until if looking else min(self._poll_until, self._discovery.not_before)

    def note_expiry(self) -> str:
        """Say in the log that the application stalled; the reason to give the coordinator."""
        limit = self._member_context.settings.max_poll_interval_ms
        self._member_context.note(
            f"leaving the group: no poll for max.poll.interval.ms ({limit}); {STALLED_HINT}", is_warning=True
        )
        self._member_context.wake_poll()
        return f"consumer poll timeout has expired: max.poll.interval.ms is {limit}"
