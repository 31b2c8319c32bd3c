"""A cluster of three as one of its nodes sees it; a test says which node leads what."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from kohort.broker import server
from kohort.broker.settings import Settings
from kohort.broker.storage import open_data
from kohort.cluster.lease import SessionId
from kohort.cluster.view import ClusterSnapshot, PlacedNode, PlacedTopic
from kohort.log.catalog import ClusterCatalog, ViewListener
from kohort.log.log import Storage
from kohort.model.ids import LeaderEpoch, NodeId, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.testing.broker import Broker

SECOND = PlacedNode(SessionId(1_002), NodeId(2), host="second.example", port=9_002, rack="b")
THIRD = PlacedNode(SessionId(1_003), NodeId(3), host="third.example", port=9_003)


class Three:
    """The catalog of one node, with two others beside it. Whatever is created is led here at first."""

    def __init__(self, catalog: ClusterCatalog) -> None:
        self._catalog = catalog
        self._moved: dict[TopicPartition, tuple[SessionId | None, LeaderEpoch]] = {}
        self._watching: list[ViewListener] = []
        self.view = self._seen(catalog.view)
        self.is_lapsed = False
        self._resuming: list[Callable[[int], None]] = []
        catalog.watch(lambda _old, new: self._show(new))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - everything else is the catalog's
        return getattr(self._catalog, name)

    def watch(self, listener: ViewListener) -> None:
        self._watching.append(listener)

    def may_answer(self) -> bool:
        return not self.is_lapsed

    def on_resume(self, listener: Callable[[int], None]) -> None:
        self._resuming.append(listener)

    def resume(self, silent_ms: int) -> None:
        """Answers are allowed again."""
        self.is_lapsed = False
        for listener in self._resuming:
            listener(silent_ms)

    def move(self, topic: str, partition: int, node: PlacedNode | None, epoch: int) -> None:
        """Have another node lead a partition, or none; ``here`` is a node, too."""
        where = TopicPartition(TopicName(topic), Partition(partition))
        self._moved[where] = (None if node is None else node.session, LeaderEpoch(epoch))
        self._show(self._catalog.view)

    @property
    def here(self) -> PlacedNode:
        return self.view.nodes[self._catalog.session]

    def _show(self, view: ClusterSnapshot) -> None:
        old, self.view = self.view, replace(self._seen(view), version=self.view.version + 1, changed=None)
        for listener in self._watching:
            listener(old, self.view)

    def _seen(self, view: ClusterSnapshot) -> ClusterSnapshot:
        nodes = {**view.nodes, SECOND.session: SECOND, THIRD.session: THIRD}
        topics = {name: self._placed(topic) for name, topic in view.topics.items()}
        return replace(view, nodes=nodes, topics=topics)

    def _placed(self, placed: PlacedTopic) -> PlacedTopic:
        partitions = list(placed.partitions)
        for index, each in enumerate(partitions):
            moved = self._moved.get(TopicPartition(placed.topic.name, Partition(index)))
            if moved is not None:
                partitions[index] = each._replace(leader=moved[0], leader_epoch=moved[1])
        return placed._replace(partitions=tuple(partitions))


class Node1:
    """The running node of the three that a test talks to."""

    def __init__(self, broker: Broker, cluster: Three) -> None:
        self.broker = broker
        self.cluster = cluster

    def move(self, topic: str, partition: int, node: PlacedNode | None, epoch: int) -> None:
        """Returns when the node has done what follows from it."""

        async def move() -> None:
            self.cluster.move(topic, partition, node, epoch)
            await self.broker.server.broker.following.settled()

        self.broker.run(move())


@contextmanager
def one_of_three(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node1]:
    made: list[Three] = []

    async def open_three(settings: Settings, *rest: Any) -> tuple[Any, Storage]:  # noqa: ANN401 - handed on
        catalog, storage = await open_data(settings, *rest)
        made.append(Three(catalog))
        return made[-1], storage

    monkeypatch.setattr(server, "open_data", open_three)
    configs = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
    with Broker(virtual_time=True, configs=configs) as broker:
        yield Node1(broker, made[0])
