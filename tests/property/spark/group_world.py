"""A group in memory, logs in memory and Spark's checkpoint: enough to run queries through any history."""

from collections.abc import Collection, Mapping
from itertools import count

from kohort.client.errors import BrokerError, CommitFailedError, CommitTimeoutError
from kohort.model.ids import TopicName
from kohort.model.topics import TopicPartition
from kohort.spark.group.checkpoint import Notes
from kohort.spark.group.offsets import GroupOffsetJson, from_json, ranges_of
from kohort.spark.group.plan import NOT_ASSIGNED, GroupAssignment
from kohort.spark.group.query import GroupQuery, QueryInputs
from kohort.spark.offsets import Earliest, Offsets, SubscribeTo, topic_partition
from kohort.spark.options import SourceOptions

PARTITIONS = tuple(topic_partition("t", number) for number in range(3))
Record = tuple[TopicPartition, int]
OPTIONS = SourceOptions(
    bootstrap="nowhere", topics=SubscribeTo(("t",)), starting=Earliest(), group_id="g", commit="member"
)


class World:
    """One coordinator that rebalances when all who live have come back, and three logs."""

    def __init__(self) -> None:
        self.ends: Offsets = dict.fromkeys(PARTITIONS, 0)
        self.topic_id = bytes(15) + b"\1"
        self.offsets: Offsets = {}  # what the group has committed
        self.processed: set[Record] = set()  # durable in the sink of any query
        self.generation = 0
        self.given: dict[str, tuple[TopicPartition, ...]] = {}
        self.waiting: set[str] = set()  # who has asked to join the next generation
        self.is_preparing = False
        self.ids = count(1)
        self.turn = 0

    def make_topic_again(self, *, ends: int) -> None:
        """Deleted and made again, with so many records in each partition by now; no offset is committed."""
        self.topic_id = bytes(15) + bytes([self.topic_id[-1] + 1])
        self.ends = dict.fromkeys(PARTITIONS, ends)
        self.offsets = {}

    def join(self) -> str:
        name = f"m{next(self.ids)}"
        self.given[name] = ()
        self.is_preparing = True
        return name

    def expel(self, name: str) -> None:
        if self.given.pop(name, None) is not None:
            self.waiting.discard(name)
            self.is_preparing = True
            self.complete_if_all_are_there()

    def expel_all(self) -> None:
        for name in [*self.given]:
            self.expel(name)

    def complete_if_all_are_there(self) -> None:
        if self.is_preparing and self.given and self.waiting == set(self.given):
            self.generation += 1
            self.turn += 1  # another deal each time, so that partitions wander
            names = sorted(self.given)
            self.given = dict.fromkeys(names, ())
            for number, where in enumerate(PARTITIONS):
                owner = names[(number + self.turn) % len(names)]
                self.given[owner] = (*self.given[owner], where)
            self.waiting = set()
            self.is_preparing = False

    # The part of ``Lookup`` a query asks.

    def log_starts(self, partitions: Collection[TopicPartition]) -> Offsets:
        return dict.fromkeys(partitions, 0)

    def log_ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        return {where: self.ends[where] for where in partitions}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(times)

    def committed(self, partitions: Collection[TopicPartition]) -> Offsets:
        return {where: self.offsets[where] for where in partitions if where in self.offsets}

    def partitions(self, *, missing_ok: bool = False) -> list[TopicPartition]:
        return list(PARTITIONS)

    def ids_of(self, topics: Collection[str]) -> dict[TopicName, bytes]:
        return {where.topic: self.topic_id for where in PARTITIONS if where.topic in topics}

    def ids_and_ends(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[dict[TopicName, bytes], Offsets | None]:
        ids = self.ids_of({where.topic for where in partitions})
        try:
            return ids, self.log_ends(partitions)
        except BrokerError:
            return ids, None

    def close(self) -> None:
        """Nothing is open."""


class WorldMember:
    """A ``Member`` of that group. ``trouble`` comes out of the next commit, before or after it counts."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._generation = -1
        self.name = ""
        self.trouble = ""

    def poll(self, timeout_ms: float) -> GroupAssignment:
        world = self._world
        if self.name not in world.given:
            self.name, self._generation = world.join(), -1
        if world.is_preparing:
            world.waiting.add(self.name)
            world.complete_if_all_are_there()
        if world.is_preparing or self.name not in world.given:
            return NOT_ASSIGNED
        self._generation = world.generation
        return GroupAssignment(world.given[self.name], self._generation, self.name)

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_ms: float) -> None:
        trouble, self.trouble = self.trouble, ""
        if trouble == "before":
            raise CommitTimeoutError("g")
        if self.name not in self._world.given or self._generation != self._world.generation:
            raise CommitFailedError("g")
        self._world.offsets.update(offsets)
        if trouble == "after":
            raise CommitTimeoutError("g")

    def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float
    ) -> dict[TopicPartition, int | None]:
        return {where: self._world.offsets.get(where) for where in partitions}

    def leave(self, timeout_ms: float) -> None:
        self._world.expel(self.name)


class Job:
    """A Spark query with its checkpoint, its notes and its sink; ``run`` is None while it is dead."""

    def __init__(self, world: World, notes: Notes, options: SourceOptions = OPTIONS) -> None:
        self._world = world
        self._notes = notes
        self._options = options
        self._offsets: list[GroupOffsetJson] = []
        self._done = 0  # how many batches are in the commit log
        self._sink: dict[int, list[Record]] = {}  # by batch: written again, it replaces
        self.member = WorldMember(world)
        self.run: GroupQuery | None = None

    @property
    def records(self) -> list[Record]:
        return [record for batch in self._sink.values() for record in batch]

    def start(self) -> None:
        """As Spark does: replay what was planned and not done, before anything else."""
        self.member = WorldMember(self._world)
        given = QueryInputs(self.member, self._world, self._world.log_ends, self._notes)
        self.run = GroupQuery(self._options, given)
        if len(self._offsets) > self._done:
            self._write()
            self._finish()

    def trigger(self, *, at_most: int | None, dies: str = "") -> None:
        """One turn; ``dies`` names the place where the process is killed."""
        assert self.run is not None
        start = self._offsets[-1] if self._offsets else {}
        end = self.run.next_end(start, at_most)
        if end != start:
            for step, work in {
                "planned": lambda: None,
                "logged": lambda: self._offsets.append(end),
                "written": self._write,
                "done": self._finish,
            }.items():
                work()
                if dies == step:
                    self.kill()
                    break

    def kill(self) -> None:
        self.run = None

    def stop(self) -> None:
        """In order, with the checkpoint known."""
        assert self.run is not None
        self.run.stop(lambda end: self._done == len(self._offsets) and self._offsets[-1:] == [end])
        self.run = None

    def _finish(self) -> None:
        self._done += 1

    def _write(self) -> None:
        batch = len(self._offsets) - 1
        self._sink[batch] = [
            (piece.where, offset)
            for piece in ranges_of(from_json(self._offsets[batch]))
            for offset in range(piece.start, piece.end)
        ]
        self._world.processed.update(self._sink[batch])
