"""From the documents of the journal to the story of a group."""

from collections.abc import Iterable

from kohort.story.classic import HANDLERS as CLASSIC
from kohort.story.classic import ClassicFollower
from kohort.story.consumer import HANDLERS as CONSUMER
from kohort.story.consumer import ConsumerFollower
from kohort.story.documents import GAP, Document
from kohort.story.plot import Details, Plot
from kohort.story.rebalance import Cause, GroupKind, Story


def tell(group_id: str, documents: Iterable[Document]) -> Story:
    """The story of one group, from its documents and the journal's gaps in the order of the journal.

    Documents that lack something are counted and left out; events it does not know are left out.
    """
    teller = _Teller(group_id)
    for document in documents:
        teller.hear(document)
    return teller.finish()


class _Teller:
    """Hands each document to who follows the groups of its kind: a group may change from one to the other."""

    def __init__(self, group_id: str) -> None:
        self._plot = Plot(group_id)
        self._classic = ClassicFollower(self._plot)
        self._consumer = ConsumerFollower(self._plot)

    def hear(self, document: Document) -> None:
        story = self._plot.story
        if story.first_at is None:
            story.first_at = document.at
        self._plot.topics.update(document.topics)
        try:
            self._hand_on(document)
        except (KeyError, TypeError, ValueError, AttributeError):
            story.unreadable += 1

    def _hand_on(self, document: Document) -> None:
        at, details, cause = document.at, document.details, document.cause
        if (classic := CLASSIC.get(document.event)) is not None:
            classic(self._classic, at, details, cause)
        elif (consumer := CONSUMER.get(document.event)) is not None:
            consumer(self._consumer, at, details, cause)
        elif document.event == "OffsetsDeleted":
            self._offsets_deleted(at, details, cause)
        elif document.event == GAP:
            self._gap(at, details)

    def _offsets_deleted(self, at: int, details: Details, cause: Cause) -> None:
        count = len(details["partitions"])
        what = "1 partition" if count == 1 else f"{count} partitions"
        self._plot.mention(at, "OffsetsDeleted", f"offsets of {what} are gone: {cause['sentence']}")

    def _gap(self, at: int, details: Details) -> None:
        plot, dropped = self._plot, int(details["dropped"])
        plot.story.dropped += dropped
        (plot.running or plot.draft).dropped += dropped
        plot.mention(at, GAP, f"the journal lost {dropped} events here, of this group or of others")
        self._consumer.miss_events()

    def finish(self) -> Story:
        plot = self._plot
        if plot.running is not None:
            kind = plot.running.kind
            follower = self._classic if kind is GroupKind.CLASSIC else self._consumer
            plot.running.awaited = follower.awaited(plot.running)
        plot.story.people = plot.roll.people
        plot.story.unowned = plot.owners.still_unowned()
        return plot.story
