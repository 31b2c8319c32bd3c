"""What the cluster's view says, made true on this node: topics and configs, logs it leads, shards of groups.

One place for all of it. A view that changes is followed at once where nothing has to be awaited: a partition
that is led elsewhere is not answered for any more. Logs are opened and released after that, in the
background, until what is open is what the view says; a failure is tried again.
"""

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.clock import pause
from kohort.broker.topics import ServedTopic
from kohort.cluster.view import ClusterSnapshot
from kohort.log.background import Background
from kohort.log.log import Log, LogSpec
from kohort.log.unreadable import UnreadableLog
from kohort.model.errors import RefusedError
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import CONSUMER_OFFSETS, Topic, TopicPartition

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

logger = logging.getLogger("kohort.following")

_AT_ONCE = 200  # logs that are opened by one call: others have their turn between two
_LONGEST_PAUSE_MS = 60_000  # between two attempts to open a partition that cannot be read


class Following:
    """Follows the view of one broker's cluster from ``start`` to ``stop``."""

    def __init__(self, broker: "BrokerState") -> None:
        self._broker = broker
        self._cluster = broker.catalog
        self._storage = broker.storage
        self._topics = broker.topics
        self._background = Background(partial(pause, broker.clock))
        self._ahead: dict[TopicPartition, Log] = {}  # opened before their topic is in the view
        self._to_look_at: dict[TopicName, None] = {}  # topics whose logs may not be as the view says
        self._to_release: list[TopicPartition] = []
        self._to_destroy: list[Topic] = []
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> None:
        """Open what this node leads. A partition that cannot be opened keeps no other away: it answers
        KAFKA_STORAGE_ERROR, and is tried again.
        """
        view = self._cluster.view
        self._cluster.watch(self._changed)
        for placed in view.topics.values():
            self._topics.show(placed)
        specs = [spec for name in view.topics for spec in self._missing(name)]
        for spec, refusal in await self._open(specs):
            partition, failure = spec.partition, str(refusal)
            logger.error("%s cannot be read, and is answered KAFKA_STORAGE_ERROR: %s", partition, failure)
            unreadable = UnreadableLog(spec, failure)
            if self._serve(spec, unreadable):
                again = partial(self._open_again, spec, unreadable)
                self._background.keep(f"opening {partition}", again, _LONGEST_PAUSE_MS)

    async def _open_again(self, spec: LogSpec, unreadable: UnreadableLog) -> None:
        served = self._topics.get(spec.partition.topic)
        index = spec.partition.partition
        if served is None or served.logs.get(index) is not unreadable:
            return  # it is deleted, or led elsewhere
        (log,) = await self._storage.open([spec])
        if isinstance(log, RefusedError):
            raise log
        if served.logs.get(index) is unreadable:  # else it was deleted or moved meanwhile
            log.reconfigure(unreadable.config)
            served.logs[index] = log

    async def stop(self) -> None:
        await self._background.stop()

    async def settled(self) -> None:
        """Wait until everything is as the view says, or waits for its next attempt."""
        await self._idle.wait()

    async def open_ahead(self, topic: Topic, first: int) -> list[TopicPartition]:
        """Open the new logs of a topic before it is stored: all of them, or RefusedError and none."""
        epoch = self._cluster.epoch_of_new(topic.name)
        if epoch is None:
            return []  # who leads them is not known before
        await self.settled()
        partitions = [
            TopicPartition(topic.name, Partition(index)) for index in range(first, topic.partitions)
        ]
        try:
            for start in range(first, topic.partitions, _AT_ONCE):
                some = range(start, min(start + _AT_ONCE, topic.partitions))
                for log in await self._storage.open(self._topics.specs(topic, dict.fromkeys(some, epoch))):
                    if isinstance(log, RefusedError):
                        self._broker.notices.warn(logger, f"opening {partitions[0]}", str(log))
                        raise log
                    self._ahead[log.partition] = log
                await asyncio.sleep(0)
        except BaseException:  # also if the broker stops: the topic will not be stored
            for partition in partitions:
                self._ahead.pop(partition, None)
            self._release(partitions)  # also those that could not be opened
            raise
        return partitions

    def abandon(self, partitions: Iterable[TopicPartition]) -> None:
        """Close what was opened ahead for a topic that could not be stored, in the background."""
        self._release(partition for partition in partitions if self._ahead.pop(partition, None) is not None)

    def _release(self, partitions: Iterable[TopicPartition]) -> None:
        self._to_release += partitions
        self._see_to_it()

    # What changes

    def _changed(self, old: ClusterSnapshot, new: ClusterSnapshot) -> None:
        has_new_defaults = new.broker_configs is not old.broker_configs
        if has_new_defaults:
            self._broker.configs.changed()
        changed = new.changed_since(old)
        for name in changed:
            self._follow(name, new)
        if has_new_defaults:
            for name in new.topics.keys() - set(changed):
                self._topics.show(new.topics[name])
        if new.group_configs is not old.group_configs:
            self._tell_group_configs(old, new)
        self._see_to_it()

    def _follow(self, name: TopicName, view: ClusterSnapshot) -> None:
        """One topic: what can be done at once, and a note of what cannot."""
        placed, served = view.topics.get(name), self._topics.get(name)
        if served is not None and (placed is None or placed.topic.topic_id != served.topic_id):
            self._to_destroy.append(Topic(served.name, served.topic_id, served.partitions, served.configs))
            self._topics.drop(served)
            served = None
        if placed is None:
            return
        had = served.partitions if served is not None else 0
        served = self._topics.show(placed)
        for index, log in list(served.logs.items()):
            if not self._is_led(served, index) or log.leader_epoch < served.placed[index].leader_epoch:
                del served.logs[index]
                served.lost[index] = log.leader_epoch
                self._to_release.append(log.partition)
        for index in range(had, served.partitions):
            log_ahead = self._ahead.pop(TopicPartition(name, Partition(index)), None)
            if log_ahead is not None:
                served.logs[index] = log_ahead
        if len(served.logs) < served.partitions and self._missing(name):
            self._to_look_at[name] = None
        groups = self._broker.started_coordinator
        if groups is None and name == CONSUMER_OFFSETS and self._is_led_somewhere(served):
            groups = self._broker.coordinator  # its shards are loaded before the first request for them
        if groups is not None:
            groups.topic_followed(served, is_new=served.partitions > had)

    def _tell_group_configs(self, old: ClusterSnapshot, new: ClusterSnapshot) -> None:
        groups = self._broker.started_coordinator
        if groups is None:
            return
        for group in old.group_configs.keys() | new.group_configs.keys():
            configs = new.group_configs.get(group, {})
            if configs != old.group_configs.get(group, {}):
                groups.group_configured(group, configs)

    # What has to be awaited

    def _see_to_it(self) -> None:
        if self._to_look_at or self._to_release or self._to_destroy:
            self._idle.clear()
            self._background.keep("following the cluster", self._catch_up)

    async def _catch_up(self) -> None:
        """Release, destroy and open until nothing is left; a failure leaves what is left for the next try."""
        try:
            while self._to_release or self._to_destroy or self._to_look_at:
                if self._to_release:
                    released = list(self._to_release)  # it may grow meanwhile
                    await self._storage.release(released)
                    del self._to_release[: len(released)]
                while self._to_destroy:
                    await self._destroy(self._to_destroy[0])
                    del self._to_destroy[0]
                await self._open_missing()
        finally:
            self._idle.set()

    async def _destroy(self, topic: Topic) -> None:
        await self._storage.destroy(topic)
        groups = self._broker.started_coordinator
        if groups is not None:
            await groups.topic_deleted(topic.name)

    async def _open_missing(self) -> None:
        names, self._to_look_at = self._to_look_at, {}
        specs = [spec for name in names for spec in self._missing(name)]
        try:
            refusals = await self._open(specs)
            if refusals:
                raise refusals[0][1]
        except Exception:
            self._to_look_at |= names
            raise

    def _missing(self, name: TopicName) -> list[LogSpec]:
        """The logs of a topic that this node leads and has not opened."""
        served, placed = self._topics.get(name), self._cluster.view.topics.get(name)
        if served is None or placed is None:
            return []
        epochs = {
            index: served.placed[index].leader_epoch
            for index in range(served.partitions)
            if index not in served.logs and self._is_led(served, index)
        }
        return self._topics.specs(placed.topic, epochs)

    def _is_led_somewhere(self, served: ServedTopic) -> bool:
        return any(self._is_led(served, index) for index in range(served.partitions))

    def _is_led(self, served: ServedTopic, index: int) -> bool:
        return served.placed[index].leader == self._cluster.session

    async def _open(self, specs: list[LogSpec]) -> list[tuple[LogSpec, RefusedError]]:
        """Open logs and serve them, unless the view has changed meanwhile; what was refused."""
        refusals: list[tuple[LogSpec, RefusedError]] = []
        for first in range(0, len(specs), _AT_ONCE):
            some = specs[first : first + _AT_ONCE]
            served: list[TopicPartition] = []
            for spec, log in zip(some, await self._storage.open(some), strict=True):
                if isinstance(log, RefusedError):
                    refusals.append((spec, log))
                elif self._serve(spec, log):
                    served.append(spec.partition)
                else:
                    self._to_release.append(spec.partition)
            self._cluster.served(each for each in served if each.topic != CONSUMER_OFFSETS)
            groups, offsets = self._broker.started_coordinator, self._topics.get(CONSUMER_OFFSETS)
            if groups is not None and offsets is not None:
                groups.topic_followed(offsets, is_new=False)
            await asyncio.sleep(0)
        return refusals

    def _serve(self, spec: LogSpec, log: Log) -> bool:
        name, index = spec.partition
        topic = self._topics.get(name)
        if topic is None or topic.topic_id != spec.topic_id or index >= topic.partitions:
            return False
        if not self._is_led(topic, index) or topic.placed[index].leader_epoch > spec.leader_epoch:
            return False
        topic.logs[index] = log
        return True
