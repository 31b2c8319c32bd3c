"""Random histories of a member of the consumer protocol, its coordinator, and a network that loses things.

The coordinator is the one of modern-groups 6, for one member: other members hold some partitions, and get
what this one acknowledges to have given up. So it must never read a partition that it does not own there.
"""

import random

import pytest
from tests.unit.client.membership.consumer_stage import INTERVAL, Beat, Member
from tests.unit.client.membership.stage import Wakeup, topic_id, tp

from kohort.client.errors import DisconnectedError
from kohort.client.membership.commands import CallbackKind, ReplyReceived, RequestFailed, Send
from kohort.client.membership.state import ConsumerMemberState
from kohort.model.errors import ErrorCode
from kohort.model.topics import TopicPartition
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest

Owned = frozenset[TopicPartition]
NOTHING: Owned = frozenset()
ALL: Owned = frozenset(tp(f"t-{number}") for number in range(6))


class Coordinator:
    """The group as the broker knows it."""

    def __init__(self) -> None:
        self.target: Owned = NOTHING
        self.held_by_others: Owned = NOTHING
        self.assigned: Owned = NOTHING
        self.revoking: Owned = NOTHING
        self.target_epoch = 1
        self.epoch = self.previous = -1  # of the member; -1: it is none

    @property
    def owned(self) -> Owned:
        return self.assigned | self.revoking

    def expel(self) -> None:
        self.assigned = self.revoking = NOTHING
        self.epoch = self.previous = -1

    def answer(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        said = request.topic_partitions
        owned = (
            None
            if said is None
            else NOTHING.union(tp(f"t-{number}") for each in said for number in each.partitions)
        )
        if request.member_epoch < 0:
            self.expel()
            return ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch)
        if request.member_epoch and (code := self._code(request.member_epoch, owned)):
            return ConsumerGroupHeartbeatResponse(error_code=code)
        before = self.assigned
        if request.member_epoch == 0:
            assert owned == NOTHING
            self.assigned = self.revoking = NOTHING
            self.epoch = self.previous = 0
        self._reconcile(owned)
        is_full = request.rebalance_timeout_ms >= 0
        shown = None
        if is_full or self.assigned != before:
            numbers: list[int] = sorted(each.partition for each in self.assigned)
            rows = [TopicPartitions(topic_id=topic_id("t"), partitions=numbers)] if numbers else []
            shown = Assignment(topic_partitions=rows)
        return ConsumerGroupHeartbeatResponse(
            member_id="m", member_epoch=self.epoch, heartbeat_interval_ms=INTERVAL, assignment=shown
        )

    def _code(self, epoch: int, owned: Owned | None) -> int:
        if self.epoch < 0:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_repeated = epoch == self.previous and owned is not None and owned <= self.assigned
        return 0 if epoch == self.epoch or is_repeated else ErrorCode.FENCED_MEMBER_EPOCH

    def _reconcile(self, owned: Owned | None) -> None:
        if self.revoking and (owned is None or owned & self.revoking):
            return
        if not self.revoking and self.epoch == self.target_epoch and self.assigned == self.target:
            return
        self.previous = self.epoch
        keep, revoke = self.assigned & self.target, self.assigned - self.target
        self.revoking = NOTHING
        if revoke and (owned is None or owned & revoke):
            self.assigned, self.revoking = keep, revoke
        else:
            self.assigned = keep | (self.target - keep - self.held_by_others)
            self.epoch = self.target_epoch


class History:
    """One member, its coordinator, and what chance does to them."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.member = Member(max_poll_interval_ms=30_000)
        self.coordinator = Coordinator()
        self.member.hooks = dict.fromkeys(CallbackKind, self._in_callback)
        self.has_faults = True

    def _in_callback(self, _: object) -> None:
        self.check()
        if self.has_faults and self.dice.random() < 0.2:
            self.member.sleep(self.dice.randrange(2 * INTERVAL))
            self.serve()
        if self.has_faults and self.dice.random() < 0.1:
            raise Wakeup

    def check(self) -> None:
        """The member reads nothing that others may own, unless it was removed and cannot know yet."""
        has_lost_it = self.coordinator.epoch < 0
        is_in = self.member.membership.state is not ConsumerMemberState.FENCED
        if not has_lost_it and is_in and self.member.membership.generation.generation_id > 0:
            assert set(self.member.subscriptions.assignment) <= self.coordinator.owned

    def step(self) -> None:
        match self.dice.randrange(8):
            case 0:
                count = self.dice.randrange(len(ALL) + 1)
                self.coordinator.target = frozenset(self.dice.sample(sorted(ALL), count))
                others = sorted(ALL - self.coordinator.owned)
                self.coordinator.held_by_others = frozenset(
                    self.dice.sample(others, self.dice.randrange(len(others) + 1))
                )
                self.coordinator.target_epoch += 1
            case 1:
                self.coordinator.held_by_others = NOTHING
            case 2 if self.dice.random() < 0.3:
                self.coordinator.expel()
            case 3 | 4:
                self.member.sleep(self.dice.randrange(INTERVAL))
            case _:
                self.poll()
        self.serve()
        self.check()

    def poll(self) -> None:
        try:
            self.member.poll()
        except Wakeup:
            assert self.has_faults

    def serve(self) -> None:
        """Answer what is on its way, or lose the request, or lose the answer to it."""
        for send in [*self.member.waiting(FindCoordinatorRequest), *self.member.waiting(Beat)]:
            fate = self.dice.random() if self.has_faults else 1.0
            if send not in [each for _, each in self.member.unanswered] or fate < 0.1:
                continue  # given up meanwhile, or answered later
            if isinstance(send.request, FindCoordinatorRequest):
                self.member.find()
            elif fate < 0.2:
                self._lose(send)
            else:
                response = self.coordinator.answer(send.request)  # type: ignore[arg-type]  # a heartbeat
                if fate < 0.3:
                    self._lose(send)
                else:
                    self._take(send)
                    self.member.handle(ReplyReceived(send.request_id, response))

    def _lose(self, send: Send) -> None:
        self._take(send)
        self.member.handle(RequestFailed(send.request_id, DisconnectedError("gone")))

    def _take(self, send: Send) -> None:
        self.member.unanswered = [each for each in self.member.unanswered if each[1] is not send]


@pytest.mark.parametrize("seed", range(60))
def test_a_member_reads_only_what_it_owns_and_settles_when_left_alone(seed: int) -> None:
    history = History(seed)
    history.member.metadata(t=len(ALL))
    for _ in range(120):
        history.step()
    history.has_faults = False
    history.coordinator.held_by_others = NOTHING
    for _ in range(20):
        history.poll()
        history.serve()
        history.member.sleep(1_000)
        history.serve()
        history.check()
    assert history.member.membership.has_settled
    assert set(history.member.subscriptions.assignment) == history.coordinator.target
    assert history.coordinator.assigned == history.coordinator.target
