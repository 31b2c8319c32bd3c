"""Whatever members do, in whatever order, the invariants hold."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kohort.groups.commands import Leaver, TopicDeleted
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, InstanceId, MemberId, ReplyTo, TopicName
from kohort.sim.driver import Scenario
from kohort.sim.invariants import broken_invariants, durable_difference

NAMES = st.sampled_from("abcs")  # "s" is static
FAILURES = st.sampled_from(
    [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.MESSAGE_TOO_LARGE]
)
PROTOCOLS = st.sampled_from([["range"], ["range", "roundrobin"], ["roundrobin", "range"], ["sticky"]])
SETTINGS = GroupSettings(
    max_size=3, offsets_retention_ms=3_600_000, offsets_retention_check_interval_ms=60_000
)
FOREVER = 8_000_000  # longer than every timeout, and the retention


class AnyHistory(RuleBasedStateMachine):
    """A group of up to four clients, a log that is slow or fails, and time."""

    def __init__(self) -> None:
        super().__init__()
        self.scenario = Scenario(SETTINGS)
        self.requests: list[ReplyTo] = []
        self.generation = Generation(0)
        self.failures = 0  # how often the log refused, and the shard was loaded again
        self.commits = 0
        self.unanswered_commits: dict[ReplyTo, str] = {}
        self.lost: set[ReplyTo] = set()  # asked of a coordinator that died

    # --- members ---

    @rule(
        name=NAMES,
        session=st.integers(6_000, 60_000),
        rebalance=st.integers(0, 60_000),
        protocols=PROTOCOLS,
        version=st.sampled_from([0, 3, 4, 8, 9]),
    )
    def join(self, name: str, session: int, rebalance: int, protocols: list[str], version: int) -> None:
        request = self.scenario.join(
            name,
            session_timeout=session,
            rebalance_timeout=rebalance,
            protocols=protocols,
            version=max(version, 5) if name == "s" else version,
            instance="s" if name == "s" else None,
        )
        self.requests.append(request)

    @rule(name=NAMES)
    def rejoin(self, name: str) -> None:
        self.requests.append(self.scenario.join(name))

    @rule(name=NAMES)
    def restart_client(self, name: str) -> None:
        self.requests.append(self.scenario.join(name, member_id=""))

    @rule(name=NAMES)
    def ask_for_an_id(self, name: str) -> None:
        self.requests.append(self.scenario.join_once(name))

    @rule(name=NAMES)
    def sync(self, name: str) -> None:
        self.requests.append(self.scenario.sync(name))

    @rule(name=NAMES)
    def heartbeat(self, name: str) -> None:
        self.scenario.heartbeat(name)

    @rule(names=st.lists(NAMES, max_size=3))
    def leave(self, names: list[str]) -> None:
        self.requests.append(self.scenario.leave(*names))

    @rule()
    def evict(self) -> None:
        self.requests.append(self.scenario.leave_as(Leaver(MemberId(""), InstanceId("s"))))

    # --- offsets and administration ---

    @rule(name=st.one_of(st.none(), NAMES), partition=st.integers(0, 2), offset=st.integers(0, 99))
    def commit(self, name: str | None, partition: int, offset: int) -> None:
        self.commits += 1
        metadata = f"commit {self.commits}"
        request = self.scenario.commit(name, {("t", partition): offset, ("u", 0): offset}, metadata=metadata)
        self.requests.append(request)
        self.unanswered_commits[request] = metadata

    @rule(stable=st.booleans())
    def fetch(self, stable: bool) -> None:
        self.requests.append(self.scenario.fetch(("t", 0), ("u", 0), require_stable=stable))

    @rule()
    def look(self) -> None:
        self.requests += [self.scenario.admin.describe(), self.scenario.admin.list_groups()]

    @rule(partition=st.integers(0, 2))
    def delete_offsets(self, partition: int) -> None:
        self.requests.append(self.scenario.admin.delete_offsets(("t", partition), ("u", 0)))

    @rule()
    def delete_group(self) -> None:
        self.requests.append(self.scenario.admin.delete_groups("g"))
        self.generation = Generation(0)

    @rule()
    def delete_topic(self) -> None:
        self.scenario.order(TopicDeleted(TopicName("u")))

    # --- the world ---

    @rule(millis=st.sampled_from([1, 500, 3_000, 6_000, 10_000, 30_000, 60_000, 300_000]))
    def sleep(self, millis: int) -> None:
        self.scenario.sleep(millis)

    @rule()
    def slow_log(self) -> None:
        self.scenario.hold_appends()

    @rule()
    def fast_log(self) -> None:
        self.scenario.release_appends()

    @rule(failure=FAILURES)
    def failing_log(self, failure: ErrorCode) -> None:
        self.scenario.fail_next_append(failure)

    @rule()
    def die_and_come_back(self) -> None:
        self.lost.update(self.waiting())
        self.scenario.restart()
        self.generation = Generation(0)

    # --- what must be true ---

    def waiting(self) -> list[ReplyTo]:
        replies = self.scenario.replies
        return [each for each in self.requests if each not in replies and each not in self.lost]

    @invariant()
    def nothing_is_broken(self) -> None:
        assert list(broken_invariants(self.scenario.shard, self.waiting())) == []

    @invariant()
    def a_commit_is_acknowledged_when_the_log_has_it_and_not_before(self) -> None:
        for request, metadata in tuple(self.unanswered_commits.items()):
            stored = sum(metadata.encode() in (record.value or b"") for record in self.scenario.log)
            if request in self.scenario.replies:
                rows = self.scenario.replies[request].rows
                assert all((row.error is ErrorCode.NONE) == bool(stored) for row in rows)
                del self.unanswered_commits[request]
            else:
                assert not stored

    @invariant()
    def generations_only_grow(self) -> None:
        group = self.scenario.shard.group(self.scenario.group_id)
        if group is None or self.failures != self.scenario.node.failures:
            self.failures = self.scenario.node.failures
            self.generation = Generation(0)  # what is stored has come back
        else:
            assert group.generation >= self.generation
            self.generation = group.generation

    @invariant()
    def the_log_rebuilds_what_is_durable(self) -> None:
        if not self.scenario.node.unsettled:
            shard, log = self.scenario.shard, self.scenario.log
            assert list(durable_difference(shard, log, SETTINGS)) == []

    def teardown(self) -> None:
        """Everyone falls silent: every request is answered, and in the end nothing is left."""
        self.scenario.release_appends()
        self.scenario.node.stop_failing()
        self.scenario.sleep(FOREVER)
        self.nothing_is_broken()
        assert self.waiting() == []
        group = self.scenario.shard.group(self.scenario.group_id)
        assert group is None


AnyHistory.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyHistory = pytest.mark.slow(AnyHistory.TestCase)
