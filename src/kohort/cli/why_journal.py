"""The journal of a group, read from its end: only as far back as its story needs."""

from typing import NamedTuple

from kohort.client.cluster import Cluster
from kohort.client.errors import UnknownTopicError
from kohort.client.fetch import Fetched, Progress, StartAt, plan, read
from kohort.groups.story import Story
from kohort.groups.story_reading import Document, read_document
from kohort.groups.story_teller import tell
from kohort.model.errors import KohortError
from kohort.model.ids import Offset, Partition
from kohort.model.topics import JOURNAL

_ONLY = Partition(0)
_FIRST_WINDOW = 2_000  # records; a rebalance of ten members is about fifty
_GROWTH = 4


class NoJournalError(KohortError):
    """The cluster is none of Kohort's, or no group of it was ever used."""

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


async def read_story(cluster: Cluster, group_id: str, last: int) -> Excerpt | None:
    """The story of a group with its last ``last`` rebalances told whole, if the journal has them.

    ``None`` if there is no journal.
    """
    try:
        progress = await plan(cluster, JOURNAL, [_ONLY], StartAt())
    except UnknownTopicError:
        return None
    reader = _Reader(cluster, group_id)
    first, low = progress.positions[_ONLY], progress.ends[_ONLY]
    story = tell(group_id, ())
    window = _FIRST_WINDOW
    while low > first and not story.reaches_back(last):
        high, low = low, Offset(max(first, low - window))
        await reader.read_back(low, high)
        story = tell(group_id, reader.documents)
        window *= _GROWTH
    return Excerpt(story, frozenset(reader.groups), is_all=low == first)


class _Reader:
    """Collects what concerns one group; documents of others are not even parsed."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.documents: list[Document] = []
        self.groups: set[str] = set()
        self._cluster = cluster
        self._key = group_id.encode("utf-8", "surrogatepass")

    async def read_back(self, low: Offset, high: Offset) -> None:
        """Put the records from ``low`` to before ``high`` in front of what was read."""
        found: list[Document] = []
        window = Progress({_ONLY: low}, {_ONLY: high})
        async for records in read(self._cluster, JOURNAL, window, follow=False):
            for one in records:
                document = self._take(one)
                if document is not None:
                    found.append(document)
        self.documents = found + self.documents

    def _take(self, fetched: Fetched) -> Document | None:
        key = fetched.record.key
        if key is not None:
            self.groups.add(key.decode("utf-8", "surrogatepass"))
        # A gap has no key: events of any group may be missing there.
        return read_document(fetched.record.value) if key in (None, self._key) else None
