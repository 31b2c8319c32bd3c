"""What the group has committed: OffsetFetch, repeated until its deadline."""

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import partial
from typing import cast

from kohort.client.errors import BrokerError
from kohort.client.membership.commands import FetchCommitted
from kohort.client.membership.context import Context, Pending, Terms
from kohort.client.membership.discovery import Discovery
from kohort.client.membership.effects import CommittedFetched, Destination
from kohort.client.membership.errors import OffsetFetchTimeoutError, TopicAuthorizationFailedError
from kohort.client.membership.reactions import Asked, Then, reaction_to, reaction_to_silence
from kohort.client.subscription import OffsetAndMetadata
from kohort.codec.schema import Message
from kohort.model.errors import KohortError
from kohort.model.ids import Instant, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

BY_NAME = 9  # the last version that names topics
Row = OffsetFetchResponsePartition | OffsetFetchResponsePartitions


class _Stage(Enum):
    DUE = "to be sent as soon as the coordinator is known"
    IN_FLIGHT = "sent"


class _Asking:
    """One question, with all its repetitions."""

    __slots__ = ("command", "error", "failures", "retry_at", "stage")

    def __init__(self, command: FetchCommitted, now: Instant) -> None:
        self.command = command
        self.stage = _Stage.DUE
        self.retry_at = now
        self.failures = 0
        self.error: KohortError | None = None


class CommittedOffsets:
    """The questions that are not answered yet."""

    def __init__(self, context: Context, discovery: Discovery) -> None:
        self._context = context
        self._discovery = discovery
        self._asking: list[_Asking] = []
        discovery.on_found.append(self.tick)
        discovery.on_lookup_failed.append(self._lookup_failed)

    def fetch(self, command: FetchCommitted) -> None:
        self._asking.append(_Asking(command, self._context.now))
        self.tick()

    def tick(self) -> None:
        """Give up what is late, send what is due, look for the coordinator as long as somebody waits."""
        for asking in list(self._asking):
            if self._context.now >= asking.command.deadline:
                late = OffsetFetchTimeoutError(self._context.settings.group, asking.error)
                late.__cause__ = asking.error
                self._finish(asking, {}, late)
            elif asking.stage is _Stage.DUE and self._context.now >= asking.retry_at:
                self._send_or_look_up(asking)

    def next_deadline(self) -> Instant | None:
        times = [each.command.deadline for each in self._asking]
        for each in self._asking:
            if each.stage is _Stage.DUE and not self._discovery.coordinator_unknown:
                times.append(each.retry_at)
            elif each.stage is _Stage.DUE and not self._discovery.is_looking:
                times.append(max(each.retry_at, self._discovery.not_before))
        return min(times, default=None)

    def _send_or_look_up(self, asking: _Asking) -> None:
        if self._discovery.coordinator_unknown:
            self._discovery.lookup_coordinator()
            return
        asking.stage = _Stage.IN_FLIGHT
        pending = Pending(
            Destination.COORDINATOR, partial(self._replied, asking), partial(self._unanswered, asking)
        )
        request = _request(self._context.settings.group, asking.command.partitions)
        self._context.send(request, pending, Terms(highest=BY_NAME))

    def _lookup_failed(self, error: KohortError) -> None:
        for asking in [each for each in self._asking if each.stage is _Stage.DUE]:
            asking.error = error
            if not error.retriable:
                self._finish(asking, {}, error)

    def _unanswered(self, asking: _Asking, error: KohortError) -> None:
        if not error.retriable:
            self._finish(asking, {}, error)
            return
        if reaction_to_silence(Asked.OFFSET_FETCH).coordinator_unknown:
            self._discovery.mark_coordinator_unknown(str(error))
        self._try_later(asking, error)

    def _replied(self, asking: _Asking, response: Message) -> None:
        self._discovery.coordinator_answered()
        fetched = cast(OffsetFetchResponse, response)
        code = fetched.groups[0].error_code if fetched.groups else fetched.error_code
        if code:
            self._failed(asking, code)
            return
        rows = dict(_rows(fetched))
        failed = [each.error_code for each in rows.values() if each.error_code]
        if failed:
            self._failed(asking, failed[0], rows)
        else:
            offsets = {each: _offset(rows.get(each)) for each in asking.command.partitions}
            self._finish(asking, offsets, None)

    def _failed(self, asking: _Asking, code: int, rows: Mapping[TopicPartition, Row] | None = None) -> None:
        what = f"fetch committed offsets of group {self._context.settings.group!r}"
        reaction = reaction_to(Asked.OFFSET_FETCH, code)
        error = BrokerError(code, what)
        if reaction.coordinator_unknown:
            self._discovery.mark_coordinator_unknown(str(error))
        if reaction.then is Then.RETRY:
            self._try_later(asking, error)
        elif reaction.then is Then.FAIL_TOPICS:
            topics = {each.topic for each, row in (rows or {}).items() if row.error_code == code}
            self._finish(asking, {}, TopicAuthorizationFailedError(what, topics))
        else:
            error.retriable, error.hint = False, reaction.hint or error.hint
            self._finish(asking, {}, error)

    def _try_later(self, asking: _Asking, error: KohortError) -> None:
        asking.error, asking.stage = error, _Stage.DUE
        asking.retry_at = self._context.after_backoff(asking.failures)
        asking.failures += 1

    def _finish(
        self,
        asking: _Asking,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | None],
        error: KohortError | None,
    ) -> None:
        if asking in self._asking:
            self._asking.remove(asking)
            self._context.emit(CommittedFetched(asking.command.fetch_id, offsets, error))


def _request(group_id: str, partitions: tuple[TopicPartition, ...]) -> OffsetFetchRequest:
    """Filled for all versions. ``require_stable``: not what a transaction may yet take back (KIP-447)."""
    topics: dict[TopicName, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return OffsetFetchRequest(
        group_id=group_id,
        topics=[OffsetFetchRequestTopic(name=each, partition_indexes=topics[each]) for each in topics],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group_id,
                topics=[
                    OffsetFetchRequestTopics(name=each, partition_indexes=topics[each]) for each in topics
                ],
            )
        ],
        require_stable=True,
    )


def _rows(fetched: OffsetFetchResponse) -> Iterator[tuple[TopicPartition, Row]]:
    """The partitions of either shape of the response; from version 8 on they are in a group."""
    for group in fetched.groups:
        for topic in group.topics:
            for row in topic.partitions:
                yield TopicPartition(TopicName(topic.name), Partition(row.partition_index)), row
    for old in fetched.topics:
        for old_row in old.partitions:
            yield TopicPartition(TopicName(old.name), Partition(old_row.partition_index)), old_row


def _offset(row: Row | None) -> OffsetAndMetadata | None:
    if row is None or row.committed_offset < 0:
        return None
    return OffsetAndMetadata(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
