"""The application's ear in a rebalance."""

from collections.abc import Callable
from typing import Protocol

from kohort.client.membership.effects import CallbackKind
from kohort.model.topics import TopicPartition

Partitions = tuple[TopicPartition, ...]


class RebalanceListener(Protocol):
    """Called inside poll, unsubscribe and close, in the application's own context; partitions are sorted.

    What a method raises is raised by poll when the rebalance step is done: a listener cannot veto.
    A class that has no ``on_partitions_lost`` is told of losses as of revocations.
    """

    def on_partitions_revoked(self, partitions: Partitions) -> object:
        """These go, and are still this consumer's: commit what was processed."""

    def on_partitions_assigned(self, partitions: Partitions) -> object:
        """These came (maybe none): seek, if reading starts elsewhere."""


def method_for(listener: RebalanceListener, kind: CallbackKind) -> Callable[[Partitions], object]:
    """The method of a listener that hears of ``kind``."""
    found = getattr(listener, kind.value, None)
    if found is None and kind is CallbackKind.LOST:
        return listener.on_partitions_revoked
    assert callable(found), f"a rebalance listener needs {kind.value}"
    method: Callable[[Partitions], object] = found
    return method
