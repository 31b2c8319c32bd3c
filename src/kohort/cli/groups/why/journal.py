"""The journal of a group, read from its end: only as far back as its story needs."""

from typing import NamedTuple

from kohort.client.cluster import ClusterClient
from kohort.client.consumer import AsyncConsumer
from kohort.client.errors import UnknownTopicError
from kohort.client.fetching.chunk import ConsumerRecord
from kohort.client.security.settings import SecurityOptions
from kohort.model.errors import KohortError
from kohort.model.ids import Partition
from kohort.model.topics import JOURNAL, TopicPartition
from kohort.primitives.strings import partition_for
from kohort.story.documents import Document, read_document
from kohort.story.rebalance import Story
from kohort.story.tell import tell

_FIRST_WINDOW = 2_000  # records; a rebalance of ten members is about fifty
_GROWTH = 4


class NoJournalError(KohortError):
    """There is no journal: the cluster is not Kohort, or it has never had a group."""

    def __init__(self, coordinator: str) -> None:
        super().__init__(
            f"this cluster keeps no journal of its groups: it has no topic {JOURNAL}",
            hint="Kohort's broker writes one from a group's first event on, Apache Kafka has none; there, "
            "`kohort groups state`, `members` and `describe` show how a group is now, and why it rebalanced "
            f"is in the log of its coordinator, {coordinator}",
        )


class Excerpt(NamedTuple):
    """What was read of the journal for one group, and which other groups were met on the way."""

    story: Story
    groups: frozenset[str]
    is_all: bool


async def read_story(cluster: ClusterClient, group_id: str, last: int) -> Excerpt | None:
    """The story of a group with its last ``last`` rebalances complete, if the journal has them.

    ``None`` if there is no journal.
    """
    options = cluster.options
    security: SecurityOptions = {}
    if options.security is not None:
        security = options.security.settings.security_arguments()
    async with AsyncConsumer(
        bootstrap_servers=",".join(map(str, cluster.bootstrap)),
        client_id=options.client_id,
        auto_offset_reset="earliest",
        allow_auto_create_topics=False,
        request_timeout_ms=options.request_timeout_ms,
        default_api_timeout_ms=options.api_timeout_ms,
        **security,
    ) as consumer:
        try:
            # One, or one for each shard where several nodes coordinate groups.
            partitions = len(await consumer.partitions_for_topic(JOURNAL))
        except UnknownTopicError:
            return None
        if not partitions:
            return None
        journal = TopicPartition(JOURNAL, Partition(partition_for(group_id, partitions)))
        first = (await consumer.beginning_offsets([journal]))[journal]
        low = (await consumer.end_offsets([journal]))[journal]
        consumer.assign([journal])
        reader = _Reader(consumer, journal, group_id, options.api_timeout_ms)
        story = tell(group_id, ())
        window = _FIRST_WINDOW
        while low > first and not story.reaches_back(last):
            high, low = low, max(first, low - window)
            await reader.read_back(low, high)
            story = tell(group_id, reader.documents)
            window *= _GROWTH
    return Excerpt(story, frozenset(reader.groups), is_all=low == first)


class _Reader:
    """Collects what concerns one group; documents of others are not even parsed."""

    def __init__(
        self, consumer: AsyncConsumer, journal: TopicPartition, group_id: str, patience_ms: int
    ) -> None:
        self.documents: list[Document] = []
        self.groups: set[str] = set()
        self._consumer = consumer
        self._journal = journal
        self._patience_ms = patience_ms
        self._key = group_id.encode("utf-8", "surrogatepass")

    async def read_back(self, low: int, high: int) -> None:
        """Put the records from ``low`` to before ``high`` in front of what was read."""
        found: list[Document] = []
        self._consumer.seek(self._journal, low)
        while (position := await self._consumer.position(self._journal)) < high:
            records = (await self._consumer.poll(self._patience_ms)).get(self._journal, [])
            if not records and await self._consumer.position(self._journal) == position:
                raise KohortError(
                    f"{self._journal} has nothing at offset {position}", hint="is the broker still there?"
                )
            taken = map(self._take, (record for record in records if record.offset < high))
            found += (document for document in taken if document is not None)
        self.documents = found + self.documents

    def _take(self, record: ConsumerRecord) -> Document | None:
        if record.key is not None:
            self.groups.add(record.key.decode("utf-8", "surrogatepass"))
        # A gap has no key: events of any group may be missing there.
        return read_document(record.value) if record.key in (None, self._key) else None
