"""Whatever members, commits, crashes and replays there are: no record is missing, none twice."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.property.spark.group_world import PARTITIONS, Job, World

JOBS = 3
which = st.integers(0, JOBS - 1)


class AnyHistory(RuleBasedStateMachine):
    """Three queries, each with its own checkpoint, in one group."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.jobs = [Job(self.world) for _ in range(JOBS)]
        self.jobs[0].start()

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
        dies=st.sampled_from(["", "", "", "planned", "logged", "written", "done"]),
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


TestAnyHistory = pytest.mark.slow(AnyHistory.TestCase)
TestAnyHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
