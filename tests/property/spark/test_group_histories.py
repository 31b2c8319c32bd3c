"""Whatever members, commits, crashes and replays there are: no record is missing, none twice."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.property.spark.group_world import PARTITIONS, Job, World

from kohort.spark.group.checkpoint import Checkpoint

JOBS = 3
which = st.integers(0, JOBS - 1)
deaths = st.sampled_from(["", "", "", "planned", "logged", "written", "done"])


class AnyHistory(RuleBasedStateMachine):
    """Three queries, each with its own checkpoint, in one group."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.directories = [TemporaryDirectory() for _ in range(JOBS)]
        self.jobs = [Job(self.world, Checkpoint(Path(one.name))) for one in self.directories]
        self.jobs[0].start()

    def teardown(self) -> None:
        for directory in self.directories:
            directory.cleanup()

    @rule(partition=st.sampled_from(PARTITIONS), more=st.integers(1, 9))
    def produce(self, partition: tuple[str, int], more: int) -> None:
        self.world.ends[partition] += more  # type: ignore[index]  # one of ours

    @rule(number=which)
    def start(self, number: int) -> None:
        if self.jobs[number].run is None:
            self.jobs[number].start()

    @rule(
        number=which,
        at_most=st.sampled_from([None, 1, 4]),
        dies=deaths,
        trouble=st.sampled_from(["", "", "before", "after"]),
    )
    def trigger(self, number: int, at_most: int | None, dies: str, trouble: str) -> None:
        job = self.jobs[number]
        if job.run is not None:
            job.member.trouble = trouble
            job.trigger(at_most=at_most, dies=dies)

    @rule(number=which)
    def stop(self, number: int) -> None:
        if self.jobs[number].run is not None:
            self.jobs[number].stop()

    @rule(number=which)
    def expire(self, number: int) -> None:
        """The coordinator has not heard of it for too long, dead or alive."""
        self.world.expel(self.jobs[number].member.name)

    @invariant()
    def no_query_reads_a_record_twice(self) -> None:
        for job in self.jobs:
            assert len(job.records) == len(set(job.records))

    @invariant()
    def only_what_was_processed_is_committed(self) -> None:
        for where, committed in self.world.offsets.items():
            assert all((where, offset) in self.world.processed for offset in range(committed))

    @precondition(lambda self: any(self.world.ends.values()))
    @rule(number=which)
    def finish(self, number: int) -> None:
        """The others go; one that is left finds everything, and the group knows."""
        for other in [*range(number), *range(number + 1, JOBS)]:
            self.jobs[other].kill()
        job = self.jobs[number]
        if job.run is None:
            job.start()
        for name in [*self.world.given]:
            if name != job.member.name:  # also those that a restart has left behind: their sessions end
                self.world.expel(name)
        job.member.trouble = ""
        for _ in range(5):
            job.trigger(at_most=None)
        everything = {(where, offset) for where, end in self.world.ends.items() for offset in range(end)}
        assert self.world.processed == everything
        assert self.world.offsets == self.world.ends


class AnyHistoryOfResets(RuleBasedStateMachine):
    """One query, and somebody who sets its group back while it is not running: it reads again from there."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.directory = TemporaryDirectory()
        self.job = Job(self.world, Checkpoint(Path(self.directory.name)))
        self.job.start()

    def teardown(self) -> None:
        self.directory.cleanup()

    @rule(partition=st.sampled_from(PARTITIONS), more=st.integers(1, 9))
    def produce(self, partition: tuple[str, int], more: int) -> None:
        self.world.ends[partition] += more  # type: ignore[index]  # one of ours

    @rule(at_most=st.sampled_from([None, 1, 4]), dies=deaths, trouble=st.sampled_from(["", "", "before"]))
    def trigger(self, at_most: int | None, dies: str, trouble: str) -> None:
        if self.job.run is None:
            self.job.start()
        self.job.member.trouble = trouble
        self.job.trigger(at_most=at_most, dies=dies)

    @rule(in_order=st.booleans())
    def stop(self, in_order: bool) -> None:
        if self.job.run is not None:
            self.job.stop() if in_order else self.job.kill()

    @rule()
    def expire(self) -> None:
        self.world.expel_all()

    @precondition(lambda self: self.job.run is None)
    @rule(partition=st.sampled_from(PARTITIONS), back=st.integers(1, 9))
    def reset(self, partition: tuple[str, int], back: int) -> None:
        self.expire()
        before = self.world.offsets.get(partition, 0)  # type: ignore[call-overload]  # one of ours
        to = max(0, before - back)
        if to < before:
            self.world.offsets[partition] = to  # type: ignore[index]  # one of ours
            self.world.processed -= {
                (where, at) for where, at in self.world.processed if at >= to and where == partition
            }

    @invariant()
    def only_what_was_processed_is_committed(self) -> None:
        for where, committed in self.world.offsets.items():
            assert all((where, offset) in self.world.processed for offset in range(committed))

    @precondition(lambda self: any(self.world.ends.values()))
    @rule()
    def finish(self) -> None:
        self.expire()
        for _ in range(6):
            self.trigger(None, "", "")
        everything = {(where, offset) for where, end in self.world.ends.items() for offset in range(end)}
        assert self.world.processed == everything
        assert self.world.offsets == self.world.ends


TestAnyHistoryOfResets = pytest.mark.slow(AnyHistoryOfResets.TestCase)
TestAnyHistoryOfResets.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyHistory = pytest.mark.slow(AnyHistory.TestCase)
TestAnyHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
