"""What the application is told in a rebalance, in which order, and what happens when it raises."""

import pytest
from tests.unit.client.membership.stage import Hook, Stage, Wakeup, tp, tps

from kohort.client.errors import CallbackFailedError
from kohort.client.membership.commands import (
    CallbackDone,
    CallbackId,
    CallbackKind,
    EnforceRebalance,
    method_for,
)
from kohort.client.membership.state import ClassicMemberState
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.topics import TopicPartition
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest

COOPERATIVE = ["cooperative-sticky"]
Partitions = tuple[TopicPartition, ...]


def raising(error: Exception) -> Hook:
    """A hook that raises."""

    def hook(_: Partitions) -> None:
        raise error

    return hook


def test_an_eager_member_revokes_even_nothing_but_not_before_its_first_join() -> None:
    """T39 EAGER rejoin without partitions: revoked(), later assigned(...); first join: no revoked call."""
    stage = Stage().stable("")
    assert stage.callbacks == ["assigned()"]
    stage.rejoined("t-0")
    assert stage.callbacks == ["assigned()", "revoked()", "assigned(t-0)"]


def test_a_cooperative_member_that_gains_revokes_nothing() -> None:
    """T40 (gain) COOPERATIVE gain only: no revoked."""
    stage = Stage(assignors=COOPERATIVE).stable("t-0")
    stage.rejoined("t-0 t-1")
    assert stage.callbacks == ["assigned(t-0)", "assigned(t-1)"]
    assert not stage.membership.rejoin_needed


def test_a_cooperative_member_that_loses_revokes_and_joins_again() -> None:
    """T40 (loss) revoked(lost ones), rejoin, finally assigned()."""
    stage = Stage(assignors=COOPERATIVE).stable("t-0 t-1")
    stage.rejoined("t-0")
    assert stage.callbacks[1:] == ["revoked(t-1)", "assigned()"]
    assert len(stage.requests(JoinGroupRequest)) == 3, "joined again in the same turn of poll"
    stage.answer_join(generation_id=3)
    stage.answer_sync("t-0")
    assert stage.poll()
    assert stage.callbacks[3:] == ["assigned()"]


def test_a_dropped_topic_is_revoked_before_joining() -> None:
    """T41 COOPERATIVE, one topic dropped: revoked(its TPs) before JoinGroup, other TPs keep flowing."""
    stage = Stage("t u", assignors=COOPERATIVE).stable("t-0 u-0")
    stage.read_to(t0=1, u0=1)
    stage.subscribe("t")
    stage.poll()
    assert stage.callbacks[1:] == ["revoked(u-0)"]
    assert len(stage.requests(JoinGroupRequest)) == 2
    assert stage.subscriptions.fetchable(lambda _: True) == [tp("t-0")]


def test_a_commit_in_a_callback_carries_the_old_generation_before_joining() -> None:
    """T42 (EAGER) commit_sync inside revoked works; it carries the old generation in prepare."""
    stage = Stage().stable("t-0")
    done = []

    def commit(_: Partitions) -> None:
        done.append(stage.commit({"t-0": 5}, timeout=1_000))
        stage.answer_commit()

    stage.hooks[CallbackKind.REVOKED] = commit
    stage.told_to_rejoin()
    stage.poll()
    assert stage.error_of(done[0]) is None
    assert stage.requests(OffsetCommitRequest)[0].generation_id_or_member_epoch == 1


def test_a_commit_in_a_cooperative_callback_carries_the_new_generation() -> None:
    """T42 (COOPERATIVE) the new generation in join-complete."""
    stage = Stage(assignors=COOPERATIVE).stable("t-0 t-1")
    stage.hooks[CallbackKind.REVOKED] = lambda _: (stage.commit({"t-1": 5}, timeout=1_000), None)[1]
    stage.rejoined("t-0")
    assert stage.requests(OffsetCommitRequest)[0].generation_id_or_member_epoch == 2


def test_a_callback_cannot_veto_and_the_first_error_is_raised() -> None:
    """T43 revoked raises in join-complete: assigned still runs, assignment effective, then assigned()."""
    stage = Stage(assignors=COOPERATIVE).stable("t-0 t-1")
    stage.hooks[CallbackKind.REVOKED] = raising(KohortError("first"))
    stage.hooks[CallbackKind.ASSIGNED] = raising(KohortError("second"))
    stage.told_to_rejoin()
    stage.poll()
    stage.answer_join(generation_id=2)
    stage.answer_sync("t-0 t-2")
    with pytest.raises(KohortError, match="first"):
        stage.poll()
    assert stage.callbacks[1:] == ["revoked(t-1)", "assigned(t-2)"]
    assert stage.owned == "t-0 t-2"
    stage.hooks.clear()
    stage.poll()
    assert stage.callbacks[3:] == ["assigned()"]
    assert len(stage.requests(JoinGroupRequest)) == 3


def test_what_assigned_raises_is_wrapped() -> None:
    """T44 assigned raises a non-Kafka error: wrapped."""
    stage = Stage().found()
    stage.hooks[CallbackKind.ASSIGNED] = raising(ZeroDivisionError("oh"))
    stage.answer_join()
    stage.answer_sync("t-0")
    with pytest.raises(CallbackFailedError, match="oh") as raised:
        stage.poll()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert stage.owned == "t-0"


def test_a_wakeup_in_assigned_repeats_join_complete() -> None:
    """T44 a wakeup there: join-complete repeated."""
    stage = Stage().found()
    stage.hooks[CallbackKind.ASSIGNED] = raising(Wakeup())
    stage.answer_join()
    stage.answer_sync("t-0")
    with pytest.raises(Wakeup):
        stage.poll()
    stage.hooks.clear()
    assert stage.poll()
    assert stage.callbacks == ["assigned(t-0)", "assigned()"]


def test_a_wakeup_in_revoked_before_joining_lets_the_partitions_go() -> None:
    stage = Stage().stable("t-0")
    stage.hooks[CallbackKind.REVOKED] = raising(Wakeup())
    stage.told_to_rejoin()
    with pytest.raises(Wakeup):
        stage.poll()
    assert stage.owned == ""
    stage.poll()
    assert stage.callbacks == ["assigned(t-0)", "revoked(t-0)"]
    assert len(stage.requests(JoinGroupRequest)) == 2


def test_what_revoked_raises_before_joining_is_wrapped_and_not_repeated() -> None:
    stage = Stage().stable("t-0")
    stage.hooks[CallbackKind.REVOKED] = raising(KohortError("mine"))
    stage.told_to_rejoin()
    with pytest.raises(CallbackFailedError, match="mine"):
        stage.poll()
    stage.poll()
    assert stage.callbacks == ["assigned(t-0)", "revoked(t-0)"]


def test_closing_in_the_middle_of_a_rebalance_loses() -> None:
    """T45 close while PREPARING_REBALANCE: lost, not revoked."""
    stage = Stage(assignors=COOPERATIVE).stable("t-0")
    stage.told_to_rejoin()
    stage.poll()
    assert stage.membership.state is ClassicMemberState.PREPARING_REBALANCE
    stage.close()
    assert stage.callbacks[-1] == "lost(t-0)"
    assert len(stage.requests(LeaveGroupRequest)) == 1


def test_a_member_that_joins_while_it_is_being_closed_needs_no_poll() -> None:
    stage = Stage(assignors=COOPERATIVE, max_poll_interval_ms=60_000).stable("t-0")
    stage.told_to_rejoin()
    stage.poll()
    stage.holds_callbacks = True
    stage.close()
    stage.answer_join(generation_id=2)
    stage.sleep(70_000)
    assert not [text for text in stage.notes() if "no poll for" in text]
    stage.finish()
    assert stage.closed() is not None


def test_unsubscribing_after_a_reset_loses() -> None:
    """T45 unsubscribe with reset generation: lost, not revoked."""
    stage = Stage().stable("t-0")
    stage.sleep(3_000)
    stage.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert stage.unsubscribe() is None
    assert stage.callbacks[-1] == "lost(t-0)"
    assert not stage.requests(LeaveGroupRequest)


def test_unsubscribing_revokes_leaves_and_forgets() -> None:
    stage = Stage().stable("t-0")
    assert stage.unsubscribe() is None
    assert stage.callbacks[-1] == "revoked(t-0)"
    assert stage.requests(LeaveGroupRequest)[0].members[0].member_id == "m"
    assert stage.owned == ""
    assert stage.membership.state is ClassicMemberState.UNJOINED
    stage.subscribe("u")
    stage.poll()
    assert stage.requests(JoinGroupRequest)[-1].member_id == ""


def test_a_callback_that_raises_does_not_keep_a_member_from_leaving() -> None:
    stage = Stage().stable("t-0")
    stage.hooks[CallbackKind.REVOKED] = raising(ValueError("no"))
    assert isinstance(stage.unsubscribe(), CallbackFailedError)
    assert stage.owned == ""
    assert stage.requests(LeaveGroupRequest)


def test_a_wakeup_while_unsubscribing_comes_out_as_it_is() -> None:
    stage = Stage().stable("t-0")
    stage.hooks[CallbackKind.REVOKED] = raising(Wakeup())
    assert isinstance(stage.unsubscribe(), Wakeup)


def test_the_commit_before_joining_is_repeated_with_newer_positions() -> None:
    """T46 Auto-commit in prepare: retriable error retried with newer positions; EAGER data withheld."""
    stage = Stage(enable_auto_commit=True, auto_commit_interval_ms=60_000).stable("t-0")
    stage.read_to(t0=5)
    stage.told_to_rejoin()
    assert not stage.poll()
    assert stage.callbacks == ["assigned(t-0)"], "not revoked before the commit is settled"
    assert not stage.subscriptions.fetchable(lambda _: True)
    stage.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not stage.poll()
    stage.read_to(t0=6)  # fetched before it was withheld
    stage.sleep(100)
    assert not stage.poll()
    offsets = [each.topics[0].partitions[0].committed_offset for each in stage.requests(OffsetCommitRequest)]
    assert offsets == [5, 6]
    stage.answer_commit()
    stage.poll()
    assert stage.callbacks[1:] == ["revoked(t-0)"]
    assert len(stage.requests(JoinGroupRequest)) == 2


def test_a_commit_that_is_never_answered_delays_joining_only_so_long() -> None:
    """T46 never answered: the join goes on after the rebalance timeout."""
    stage = Stage(enable_auto_commit=True, auto_commit_interval_ms=60_000, max_poll_interval_ms=20_000)
    stage.stable("t-0")
    stage.read_to(t0=5)
    stage.told_to_rejoin()
    stage.poll()
    assert stage.membership.poll_again_at() is not None
    for _ in range(19):
        stage.sleep(1_000, polling=True)
        while stage.waiting(HeartbeatRequest):
            stage.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert len(stage.requests(JoinGroupRequest)) == 1
    stage.sleep(1_000, polling=True)
    assert stage.callbacks[1:] == ["revoked(t-0)"]
    assert len(stage.requests(JoinGroupRequest)) == 2


def test_what_was_read_during_the_rebalance_is_committed_before_it_is_revoked() -> None:
    stage = Stage(assignors=COOPERATIVE, enable_auto_commit=True, auto_commit_interval_ms=60_000)
    stage.stable("t-0 t-1")
    stage.read_to(t0=1, t1=1)
    stage.told_to_rejoin()
    stage.poll()
    stage.answer_commit()
    stage.poll()
    stage.read_to(t0=2, t1=7)
    stage.answer_join(generation_id=2)
    stage.answer_sync("t-0")
    assert not stage.poll()
    assert stage.callbacks == ["assigned(t-0 t-1)"], "the callback waits for the commit"
    last = stage.requests(OffsetCommitRequest)[-1]
    assert last.generation_id_or_member_epoch == 2
    assert [(row.partition_index, row.committed_offset) for row in last.topics[0].partitions] == [(1, 7)]
    assert stage.subscriptions.fetchable(lambda _: True) == [tp("t-0")]
    stage.answer_commit()
    stage.poll()
    assert stage.callbacks[1:] == ["revoked(t-1)", "assigned()"]


def test_a_listener_that_knows_no_losses_hears_of_revocations() -> None:
    """T47 Listener without a lost method: revoked is called instead."""

    class Old:
        def __init__(self) -> None:
            self.heard: list[tuple[str, Partitions]] = []

        def on_partitions_revoked(self, partitions: Partitions) -> None:
            self.heard.append(("revoked", partitions))

        def on_partitions_assigned(self, partitions: Partitions) -> None:
            self.heard.append(("assigned", partitions))

    class New(Old):
        def on_partitions_lost(self, partitions: Partitions) -> None:
            self.heard.append(("lost", partitions))

    for listener, expected in ((Old(), "revoked"), (New(), "lost")):
        method_for(listener, CallbackKind.LOST)(tps("t-0"))
        method_for(listener, CallbackKind.ASSIGNED)(tps("t-1"))
        assert listener.heard == [(expected, tps("t-0")), ("assigned", tps("t-1"))]


def test_heartbeats_go_on_while_a_callback_runs() -> None:
    stage = Stage().stable("t-0")
    stage.told_to_rejoin()
    stage.holds_callbacks = True
    stage.poll()
    stage.sleep(9_000)
    assert len(stage.requests(HeartbeatRequest)) == 4
    assert len(stage.requests(JoinGroupRequest)) == 1
    stage.finish()
    assert len(stage.requests(JoinGroupRequest)) == 2


def test_an_application_stuck_in_a_callback_is_expelled_and_told_later() -> None:
    stage = Stage(max_poll_interval_ms=20_000).stable("t-0")
    stage.told_to_rejoin()
    stage.holds_callbacks = True
    stage.poll()
    stage.sleep(20_000)
    assert stage.membership.state is ClassicMemberState.UNJOINED
    stage.holds_callbacks = False
    stage.finish()
    assert stage.requests(JoinGroupRequest)[-1].member_id == ""
    assert stage.callbacks == ["assigned(t-0)", "revoked(t-0)"], "what was revoked is not lost as well"


def test_a_callback_nobody_waits_for_changes_nothing() -> None:
    stage = Stage().stable("t-0")
    assert stage.handle(CallbackDone(CallbackId(99))) == []


def test_a_poll_after_one_that_was_cancelled_starts_over() -> None:
    stage = Stage().stable("t-0")
    stage.handle(EnforceRebalance())
    stage.holds_callbacks = True
    stage.poll()
    stage.waiting_callback, stage.holds_callbacks = None, False
    stage.poll()
    assert stage.owned == ""
    assert len(stage.requests(JoinGroupRequest)) == 2
