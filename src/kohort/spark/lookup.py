"""What a driver asks a cluster: partitions, log starts and ends, times, committed offsets. Blocking."""

import asyncio
import re
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from kohort.client.admin import Admin, AsyncAdmin
from kohort.client.admin.results import CommittedOffset, ListedOffset, Resource, ResourceType
from kohort.client.admin.topics import OffsetSpec
from kohort.client.consumer.settings import consumer_settings
from kohort.client.errors import BrokerError, UnknownTopicError
from kohort.client.metadata import TopicInfo
from kohort.client.settings import ClientOptions
from kohort.model.errors import ErrorCode
from kohort.model.ids import Offset, TopicName
from kohort.model.topics import TopicPartition
from kohort.spark.errors import GroupInUseError
from kohort.spark.offsets import Assign, Offsets, SubscribePattern, SubscribeTo
from kohort.spark.options import SourceOptions

T = TypeVar("T")
_Described = Mapping[TopicName, TopicInfo | BrokerError]
_Listed = Mapping[TopicPartition, ListedOffset | BrokerError]

_CLIENT_ID = "kohort-spark"
_AT_ONCE_S = 0.1  # for one answer after another that went out with it
_IN_USE = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
)


def client_options(options: SourceOptions) -> ClientOptions:
    """How patient our clients are; raises SettingError."""
    given = {"client_id": _CLIENT_ID} | options.consumer_settings
    return consumer_settings(given).client()


class Administer(Protocol):
    """How a question reaches the cluster."""

    def __call__(self, question: Callable[[AsyncAdmin], Coroutine[Any, Any, T]], /) -> T: ...


class Lookup:
    """Asks by ``administer``, which is of a client that is there anyway; without one it opens its own.

    That is opened by the first question, and again by a copy that was pickled. Raises what the client raises:
    NoBrokerError, UnknownTopicError, BrokerError.
    """

    def __init__(self, options: SourceOptions, administer: Administer | None = None) -> None:
        self._options = options
        self._administer = administer
        self._admin: Admin | None = None
        self._known: tuple[float, list[TopicInfo]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_administer": None, "_admin": None, "_known": None}

    def close(self) -> None:
        """Give up the own connections; the next question opens new ones."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _ask(self, question: Callable[[AsyncAdmin], Coroutine[Any, Any, T]]) -> T:
        if self._administer is not None:
            return self._administer(question)
        if self._admin is None:
            admin = Admin(self._options.bootstrap, client_options(self._options))
            admin.start()
            self._admin = admin
        return self._admin.run(question)

    # Topics

    def partitions(self, *, missing_ok: bool = False) -> list[TopicPartition]:
        """The partitions of the subscription, in order.

        A topic or partition that was named and does not exist raises UnknownTopicError, or is left out.
        """
        found = {
            TopicPartition(topic.name, one.partition)
            for topic in self._topics(missing_ok)
            for one in topic.partitions
        }
        wanted = self._options.topics
        if isinstance(wanted, Assign):
            if not missing_ok and (missing := set(wanted.partitions) - found):
                first = min(missing)
                raise UnknownTopicError(first.topic, f"there is no partition {first.partition}")
            found &= set(wanted.partitions)
        return sorted(found)

    def topic_ids(self) -> dict[TopicName, bytes]:
        """The ids of the topics that ``partitions`` saw last: one created again has another."""
        return _ids(self._known[1]) if self._known else {}

    def ids_of(self, topics: Collection[str]) -> dict[TopicName, bytes]:
        """The ids of these topics now; of those that exist."""
        return _ids(self._named(topics, missing_ok=True))

    def ids_and_ends(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[dict[TopicName, bytes], Offsets | None]:
        """``ids_of`` their topics and ``log_ends``, asked for at the same time.

        No ends if one of them is not known at once: this does not wait for a leader.
        """
        wanted = dict.fromkeys(partitions, OffsetSpec.LATEST)

        async def both(admin: AsyncAdmin) -> tuple[_Described, _Listed | BaseException]:
            listing = asyncio.ensure_future(self._listed(admin, wanted))
            try:
                described = await admin.describe_topics({where.topic for where in partitions})
                await asyncio.wait({listing}, timeout=_AT_ONCE_S)
            finally:
                listing.cancel()
                (listed,) = await asyncio.gather(listing, return_exceptions=True)
            return described, listed

        described, listed = self._ask(both)
        ids = _ids(_existing(described, missing_ok=True))
        if isinstance(listed, BaseException):
            return ids, None
        ends = {
            where: int(found.offset) for where, found in listed.items() if isinstance(found, ListedOffset)
        }
        return ids, ends if len(ends) == len(listed) else None

    def _topics(self, missing_ok: bool) -> list[TopicInfo]:
        if self._known is not None:
            age_ms = (time.monotonic() - self._known[0]) * 1_000
            if age_ms < self._options.metadata_ttl_ms:
                return self._known[1]
        match self._options.topics:
            case SubscribePattern(pattern):
                matches = re.compile(pattern).fullmatch
                everything = self._ask(lambda admin: admin.list_topics())
                with_internal = self._options.consumer_settings.get("exclude_internal_topics") is False
                topics = [
                    each
                    for each in everything
                    if matches(each.name) and (with_internal or not each.is_internal)
                ]
            case SubscribeTo(names):
                topics = self._named(names, missing_ok)
            case Assign(partitions):
                topics = self._named({each.topic for each in partitions}, missing_ok)
        self._known = (time.monotonic(), topics)
        return topics

    def _named(self, names: Collection[str], missing_ok: bool) -> list[TopicInfo]:
        return _existing(self._ask(lambda admin: admin.describe_topics(names)), missing_ok)

    # Brokers

    def broker_config(self, name: str) -> str | None:
        """A config of one of the brokers; None if it may not be read."""

        async def ask(admin: AsyncAdmin) -> str | None:
            nodes = (await admin.describe_cluster()).nodes
            asked = [Resource(ResourceType.BROKER, str(node.node_id)) for node in nodes[:1]]
            for found in (await admin.describe_configs(asked)).values():
                if not isinstance(found, BrokerError) and name in found:
                    return found[name].value
            return None

        return self._ask(ask)

    # Offsets of logs

    def log_starts(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The first offset there is of each."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))

    def log_ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The offset behind the last record that may be read, under the isolation level of the options."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))

    def uncommitted_ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The same, whatever the isolation level is."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), read_committed=False)

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after each time in milliseconds; None where no record is that late."""
        return {where: offset if offset >= 0 else None for where, offset in self._offsets(times).items()}

    def _offsets(self, wanted: Mapping[TopicPartition, int], read_committed: bool | None = None) -> Offsets:
        if not wanted:
            return {}
        listed = self._ask(lambda admin: self._listed(admin, wanted, read_committed))
        offsets: Offsets = {}
        for where in sorted(wanted):
            found = listed[where]
            if isinstance(found, BrokerError):
                raise found
            offsets[where] = found.offset
        return offsets

    def _listed(
        self,
        admin: AsyncAdmin,
        wanted: Mapping[TopicPartition, int],
        read_committed: bool | None = None,
    ) -> Coroutine[Any, Any, _Listed]:
        if read_committed is None:
            read_committed = self._options.isolation_level == "read_committed"
        return admin.list_offsets(wanted, read_committed=read_committed)

    # Offsets of the group

    def committed(self, partitions: Collection[TopicPartition]) -> Offsets:
        """What the group of the options has committed; nothing for a partition without a commit."""
        group = self._group
        found = self._ask(lambda admin: admin.list_group_offsets(group, partitions))
        return {where: int(found[where].offset) for where in partitions if where in found}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit to the group from outside; raises GroupInUseError if it has members."""
        if not offsets:
            return
        group = self._group
        wanted = {where: CommittedOffset(Offset(offset)) for where, offset in offsets.items()}
        refusals = self._ask(lambda admin: admin.alter_group_offsets(group, wanted))
        for refusal in refusals.values():
            if refusal is not None:
                raise GroupInUseError(group, refusal.name) if refusal.code in _IN_USE else refusal

    @property
    def _group(self) -> str:
        assert self._options.group_id is not None, "the options were checked to name a group"
        return self._options.group_id


def task_client_options(options: SourceOptions) -> ClientOptions:
    """The same for tasks, which wait for ``kafkaConsumer.pollTimeoutMs`` if that was given."""
    patience = options.poll_timeout_ms
    found = client_options(options)
    return found if patience is None else replace(found, api_timeout_ms=patience)


def _existing(described: _Described, missing_ok: bool) -> list[TopicInfo]:
    topics = []
    for found in described.values():
        if isinstance(found, TopicInfo):
            topics.append(found)
        elif not (missing_ok and isinstance(found, UnknownTopicError)):
            raise found
    return topics


def _ids(topics: Iterable[TopicInfo]) -> dict[TopicName, bytes]:
    return {topic.name: bytes(topic.topic_id) for topic in topics}
