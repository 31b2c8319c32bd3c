"""Fetch sessions (KIP-227) as a client keeps them: after the first request, only what changed is sent."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.fetch import FetchResponse

NO_SESSION = 0
FULL = 0  # as an epoch: everything is said anew
FINAL = -1
_LAST_EPOCH = 0x7FFFFFFF


class Order(NamedTuple):
    """What is asked of one partition."""

    offset: int
    leader_epoch: int
    topic_id: bytes


class SessionRequest(NamedTuple):
    """The part of a Fetch that depends on the session."""

    session_id: int
    epoch: int
    orders: dict[TopicPartition, Order]
    forgotten: dict[TopicPartition, bytes]  # with the topic id they were asked for by


class FetchSession:
    """The session with one node. Requests and answers alternate: one Fetch is outstanding at a time."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FULL
        self._orders: dict[TopicPartition, Order] = {}

    def __repr__(self) -> str:
        return f"<FetchSession {self._id}, epoch {self._epoch}, {len(self._orders)} partitions>"

    @property
    def session_id(self) -> int:
        return self._id

    def request(self, wanted: Mapping[TopicPartition, Order]) -> SessionRequest:
        """How to ask for exactly ``wanted``, in its order."""
        known = self._orders
        self._orders = dict(wanted)
        if self._epoch == FULL:
            return SessionRequest(self._id, FULL, dict(wanted), {})
        changed = {each: order for each, order in wanted.items() if known.get(each) != order}
        forgotten = {
            each: order.topic_id
            for each, order in known.items()
            if each not in wanted or wanted[each].topic_id != order.topic_id
        }
        return SessionRequest(self._id, self._epoch, changed, forgotten)

    def final_request(self) -> SessionRequest | None:
        """How to end the session; None if there is none, or nobody knows."""
        if self._epoch == FULL:
            return None
        return SessionRequest(self._id, FINAL, {}, {})

    def name_of(self, topic_id: bytes) -> TopicName | None:
        """The topic behind an id of the last request."""
        return next((tp.topic for tp, order in self._orders.items() if order.topic_id == topic_id), None)

    def order_of(self, partition: TopicPartition) -> Order | None:
        return self._orders.get(partition)

    def answered(self, response: FetchResponse, partitions: Iterable[TopicPartition]) -> bool:
        """Learn from an answer about ``partitions``; whether what it holds can be used."""
        if response.error_code:
            is_gone = response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            self._restart(NO_SESSION if is_gone else self._id)
            return False
        listed = set(partitions)
        if self._epoch == FULL and listed != set(self._orders):
            # Nothing but a throttle time is a notice; any other set of partitions is not what was asked.
            self._restart(NO_SESSION)
            return False
        if not listed <= set(self._orders):
            self._restart(self._id)
            return False
        if response.session_id == NO_SESSION:
            self._restart(NO_SESSION)
        else:
            self._id = response.session_id
            self._epoch = 1 if self._epoch in (FULL, _LAST_EPOCH) else self._epoch + 1
        return True

    def failed(self) -> None:
        """No answer: what the broker knows is uncertain, so close it with the next request and begin anew."""
        self._restart(self._id)

    def _restart(self, session_id: int) -> None:
        self._id = session_id
        self._epoch = FULL
