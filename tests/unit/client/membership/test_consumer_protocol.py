"""A member of the consumer protocol (KIP-848), by what it sends and which callbacks run."""

import pytest
from tests.unit.client.membership.consumer_stage import INTERVAL, Beat, Member, owned
from tests.unit.client.membership.stage import Wakeup, tp

from kohort.client.addresses import Address
from kohort.client.errors import (
    ApiNotServedError,
    BrokerError,
    CallbackFailedError,
    CommitFailedError,
    ConsumerGroupsNotServedError,
    FencedInstanceIdError,
)
from kohort.client.membership.commands import (
    CallbackKind,
    ConnectionLost,
    EnforceRebalance,
    RequestFailed,
    Send,
    Unsubscribe,
)
from kohort.client.membership.reactions import (
    ANY_OTHER,
    NO_ANSWER,
    REACTIONS,
    MembershipLoss,
    NextStep,
    Reaction,
)
from kohort.client.membership.state import ConsumerMemberState
from kohort.client.subscription import SubscriptionPattern
from kohort.codec.schema import Versions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicName
from kohort.wire.apis import APIS, ApiKey
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest

S = ConsumerMemberState


def test_a_member_joins_with_everything_and_then_says_only_what_has_changed() -> None:
    member = Member("u t", client_rack="r", group_remote_assignor="range", max_poll_interval_ms=60_000)
    member.poll()
    member.find()
    first = member.last
    assert (first.group_id, first.member_id, first.member_epoch) == ("g", "m", 0)
    assert first.subscribed_topic_names == ["t", "u"]
    assert (first.rack_id, first.server_assignor, first.rebalance_timeout_ms) == ("r", "range", 60_000)
    assert owned(first) == {}
    member.metadata(t=2, u=2)
    member.reply("t-0 u-1", epoch=7)
    member.poll()
    assert member.callbacks == ["assigned(t-0 u-1)"]
    acknowledged = member.last
    assert (acknowledged.member_epoch, owned(acknowledged)) == (7, {"t": [0], "u": [1]})
    assert (acknowledged.subscribed_topic_names, acknowledged.rebalance_timeout_ms) == (None, -1)
    member.reply(epoch=7)
    member.sleep(INTERVAL)
    calm = member.last
    assert calm is not acknowledged
    assert (owned(calm), calm.subscribed_topic_names, calm.server_assignor, calm.rack_id) == (None,) * 4


def test_what_goes_is_revoked_before_it_is_acknowledged_and_what_comes_waits_for_that() -> None:
    member = Member().joined("t-0 t-1")
    member.callbacks.clear()
    member.targets("t-1")
    assert owned(member.last) is None, "not acknowledged before the application has heard of it"
    member.hooks[CallbackKind.REVOKED] = lambda _: [None][len(member.waiting(Beat))]
    member.poll()
    assert member.callbacks == ["revoked(t-0)", "assigned()"]
    assert owned(member.last) == {"t": [1]}
    member.reply("t-1 t-3", epoch=2)
    member.poll()
    assert member.callbacks[2:] == ["assigned(t-3)"]
    assert (member.last.member_epoch, owned(member.last)) == (2, {"t": [1, 3]})


def test_all_positions_are_committed_before_a_revocation_and_nothing_more_of_what_goes_is_handed_out() -> (
    None
):
    member = Member(enable_auto_commit=True, auto_commit_interval_ms=60_000).joined("t-0 t-1")
    member.read_to(t0=5, t1=6)
    member.callbacks.clear()
    member.targets("t-1")
    assert member.poll()
    (commit,) = member.requests(OffsetCommitRequest)
    assert (commit.generation_id_or_member_epoch, commit.member_id) == (1, "m")
    assert [each.partition_index for each in commit.topics[0].partitions] == [0, 1]
    assert member.callbacks == []
    assert not member.subscriptions.assignment[tp("t-0")].is_fetchable
    member.answer_commit(ErrorCode.STALE_MEMBER_EPOCH)
    member.poll()
    member.sleep(100)
    member.poll()
    member.answer_commit(0)
    member.poll()
    assert member.callbacks == ["revoked(t-0)", "assigned()"]


def test_positions_are_committed_before_partitions_are_added_too() -> None:
    member = Member(enable_auto_commit=True, auto_commit_interval_ms=60_000).joined("t-0")
    member.read_to(t0=5)
    member.callbacks.clear()
    member.targets("t-0 t-1")
    assert member.poll()
    assert len(member.requests(OffsetCommitRequest)) == 1
    assert member.callbacks == []
    assert member.subscriptions.assignment[tp("t-0")].is_fetchable, "what stays is read meanwhile"
    member.answer_commit(0)
    member.poll()
    assert member.callbacks == ["assigned(t-1)"]


def test_a_partition_that_stays_after_all_is_read_again() -> None:
    member = Member(enable_auto_commit=True, auto_commit_interval_ms=60_000).joined("t-0 t-1")
    member.read_to(t0=5, t1=6)
    member.targets("t-1")
    member.poll()
    member.targets("t-0 t-1")
    member.poll()
    assert member.subscriptions.assignment[tp("t-0")].is_fetchable
    assert member.membership.has_settled


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_everything_and_joins_again_with_its_id(code: ErrorCode) -> None:
    member = Member().joined("t-0")
    waiting = member.commit({"t-0": 1}, timeout=60_000)
    member.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    member.sleep(INTERVAL)
    if member.waiting(OffsetCommitRequest):
        member.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    member.callbacks.clear()
    member.reply(code=code)
    assert isinstance(member.error_of(waiting), CommitFailedError), "others may own the partition by now"
    member.poll()
    assert member.callbacks == ["lost(t-0)"]
    assert (member.last.member_epoch, member.last.member_id, owned(member.last)) == (0, "m", {})
    member.reply("t-2", epoch=3)
    member.poll()
    assert member.owned == "t-2"


def test_a_group_that_is_gone_is_made_again_by_who_was_in_it() -> None:
    member = Member().joined("t-0")
    member.sleep(INTERVAL)
    member.reply(code=ErrorCode.GROUP_ID_NOT_FOUND)
    member.poll()
    assert member.last.member_epoch == 0


def rows() -> list[tuple[int, Reaction]]:
    table = REACTIONS[ApiKey.CONSUMER_GROUP_HEARTBEAT]
    return [(42 if code == ANY_OTHER else int(code), row) for code, row in table.items() if code != NO_ANSWER]


@pytest.mark.parametrize(("code", "reaction"), rows())
@pytest.mark.parametrize("has_joined", [False, True])
def test_heartbeats_react_as_the_table_says(code: int, reaction: Reaction, has_joined: bool) -> None:
    member = Member(group_instance_id="i")
    if has_joined:
        member.joined("t-0")
        member.sleep(INTERVAL)
    else:
        member.poll()
        member.find()
    before = len(member.requests(Beat))
    member.reply(code=code, epoch=1)
    assert (member.membership.coordinator is None) == reaction.coordinator_unknown
    is_out = reaction.loss is MembershipLoss.MEMBERSHIP
    assert (member.membership.state in (S.FENCED, S.FATAL)) == is_out
    if reaction.then is NextStep.RAISE:
        with pytest.raises((BrokerError, ConsumerGroupsNotServedError)) as raised:
            member.poll()
        assert code not in (ErrorCode.FENCED_INSTANCE_ID,) or isinstance(raised.value, FencedInstanceIdError)
        member.sleep(100)
    member.poll()  # a later poll tries again
    if reaction.coordinator_unknown:
        member.find()
        member.sleep(100)
    elif reaction.then is not NextStep.JOIN_NOW:
        member.sleep(INTERVAL if code == 0 else 100)
    assert len(member.requests(Beat)) == before + 1
    if code:
        assert member.last.subscribed_topic_names == ["t"], "after a failure everything is said again"
        assert (member.last.member_epoch == 0) == (is_out or not has_joined)


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_who_leaves_says_so_after_its_callback(instance: str | None, epoch: int) -> None:
    for how in ("unsubscribe", "close", "no poll"):
        member = Member(group_instance_id=instance, max_poll_interval_ms=20_000).joined("t-0")
        member.callbacks.clear()
        match how:
            case "unsubscribe":
                member.unsubscribe()
            case "close":
                member.close()
                assert member.closed() is not None
            case _:
                while not member.callbacks and member.now < 30_000:
                    member.sleep(1_000)
                    if member.waiting(Beat) and member.last.member_epoch > 0:
                        member.reply()
                    if member.membership.state is S.STALE:
                        break
                assert member.membership.state is S.STALE
        assert (member.last.member_epoch, member.last.member_id) == (epoch, "m")
        assert member.last.instance_id == instance
        if how == "no poll":
            member.poll()
            assert member.callbacks == ["lost(t-0)"]
            assert member.last.member_epoch == 0
        else:
            assert member.callbacks == ["revoked(t-0)"]


def test_topics_have_ids_and_a_name_that_is_not_known_yet_holds_up_only_itself() -> None:
    member = Member("t u")
    member.poll()
    member.find()
    member.metadata(t=2)
    member.reply("t-0 u-0")
    assert member.poll()
    assert member.owned == "t-0"
    assert owned(member.last) == {"t": [0]}, "what can be read is acknowledged"
    member.reply()
    assert not member.membership.has_settled
    assert member.refreshes()[-1] == frozenset({"t", "u"})
    member.metadata(t=2, u=1)
    member.poll()
    assert member.owned == "t-0 u-0"
    assert owned(member.last) == {"t": [0], "u": [0]}
    assert member.callbacks == ["assigned(t-0)", "assigned(u-0)"]


def test_a_regular_expression_is_matched_by_the_broker_and_needs_a_version_that_has_it() -> None:
    member = Member("")
    member.subscriptions.subscribe_remote_pattern(SubscriptionPattern("t.*"))
    member.poll()
    member.find()
    (sent,) = [each for each in member.sent if isinstance(each.request, Beat)]
    assert sent.lowest == 1
    assert (member.last.subscribed_topic_regex, member.last.subscribed_topic_names) == ("t.*", [])
    member.reply("t-0")
    member.poll()
    assert member.refreshes()[-1] is None, "only the list of all topics has the name behind the id"
    member.metadata(t=1, asks_all=True)
    member.poll()
    assert member.owned == "t-0"
    assert member.subscriptions.subscription.topics == {"t"}
    assert member.membership.wanted_topics == frozenset({TopicName("t")})
    assert member.last.subscribed_topic_regex is None


def test_another_subscription_is_sent_at_once() -> None:
    member = Member("t").joined("t-0")
    member.subscribe("t u")
    member.poll()
    assert member.last.subscribed_topic_names == ["t", "u"]
    member.reply("t-0 u-0", epoch=2)
    member.poll()
    assert member.owned == "t-0 u-0"


def test_a_broker_without_the_protocol_is_named_whether_it_refuses_the_request_or_does_not_know_it() -> None:
    for refuse in ("code", "version"):
        member = Member()
        member.poll()
        member.find()
        if refuse == "code":
            member.reply(code=ErrorCode.UNSUPPORTED_VERSION)
        else:
            send: Send = member.waiting(Beat)[0]
            spec = APIS[ApiKey.CONSUMER_GROUP_HEARTBEAT]
            error = ApiNotServedError(spec, Versions(0, 1), None, Address("h", 9092))
            member.handle(RequestFailed(send.request_id, error))
        with pytest.raises(ConsumerGroupsNotServedError, match="broker 1 at h:9092") as refused:
            member.poll()
        assert "group.protocol=classic" in refused.value.hint


@pytest.mark.parametrize("kind", [CallbackKind.REVOKED, CallbackKind.ASSIGNED])
def test_a_callback_that_raises_ends_the_reconciliation_until_there_is_another_target(
    kind: CallbackKind,
) -> None:
    member = Member().joined("t-0 t-1")
    member.read_to(t0=1, t1=1)
    member.targets("t-1 t-2")
    heartbeats = len(member.requests(Beat))

    def fail(_: object) -> None:
        raise ValueError("mine")

    member.hooks[kind] = fail
    with pytest.raises(CallbackFailedError, match="mine"):
        member.poll()
    member.poll()
    assert len(member.requests(Beat)) == heartbeats, "nothing is acknowledged"
    assert member.owned == ("t-0 t-1" if kind is CallbackKind.REVOKED else "t-1 t-2")
    readable = [each for each, state in member.subscriptions.assignment.items() if state.is_fetchable]
    assert readable == [tp("t-1")]
    del member.hooks[kind]
    member.targets("t-1 t-3")
    member.poll()
    assert owned(member.last) == {"t": [1, 3]}


def test_a_target_that_changes_nothing_is_acknowledged_once() -> None:
    """The coordinator may wait for a partition that never had a name here."""
    member = Member("t u")
    member.poll()
    member.find()
    member.metadata(t=2)
    member.reply("t-0 u-0")
    member.poll()
    member.reply()
    member.targets("t-0")
    before = len(member.requests(Beat))
    member.poll()
    member.poll()
    assert [owned(each) for each in member.requests(Beat)[before:]] == [{"t": [0]}]
    assert member.callbacks == ["assigned(t-0)"]
    assert member.membership.has_settled


def test_a_long_poll_does_not_let_its_own_interval_expire() -> None:
    member = Member(max_poll_interval_ms=4_000).joined("t-0")
    again = member.membership.poll_again_at()
    assert again is not None
    assert again <= member.now + 2_000


def test_a_wakeup_out_of_a_callback_lets_the_next_poll_do_it_again() -> None:
    member = Member().joined("t-0 t-1")
    member.targets("t-1")
    member.callbacks.clear()

    def wake(_: object) -> None:
        del member.hooks[CallbackKind.REVOKED]
        raise Wakeup

    member.hooks[CallbackKind.REVOKED] = wake
    with pytest.raises(Wakeup):
        member.poll()
    assert owned(member.last) is None
    member.poll()
    assert member.callbacks == ["revoked(t-0)", "revoked(t-0)", "assigned()"]
    assert owned(member.last) == {"t": [1]}


def test_heartbeats_go_on_while_a_callback_runs_and_fencing_meanwhile_ends_the_reconciliation() -> None:
    member = Member().joined("t-0 t-1")
    member.targets("t-1")
    member.callbacks.clear()
    member.holds_callbacks = True
    member.poll()
    member.sleep(INTERVAL)
    assert owned(member.last) is None
    member.reply(code=ErrorCode.FENCED_MEMBER_EPOCH)
    member.finish()
    assert member.callbacks == ["revoked(t-0)", "lost(t-1)"]
    member.finish()
    assert member.last.member_epoch == 0
    assert member.owned == ""


def test_a_coordinator_that_is_lost_costs_no_membership() -> None:
    member = Member().joined("t-0")
    member.sleep(INTERVAL)
    member.disconnect(Beat)
    assert not member.poll()
    assert member.waiting(FindCoordinatorRequest)
    member.find(node=2)
    member.sleep(1_000)
    assert (member.last.member_epoch, owned(member.last)) == (1, {"t": [0]}), "a full request"
    member.reply("t-0", epoch=1)
    assert member.membership.has_settled
    assert member.owned == "t-0"


def test_a_coordinator_that_is_found_after_a_close_gets_no_heartbeat() -> None:
    member = Member(internal_leave_group_on_close=False).joined("t-0")
    member.handle(ConnectionLost())
    member.sleep(1_000)
    member.close()
    assert member.closed() is not None
    beats = len(member.requests(Beat))
    member.sleep(2 * INTERVAL)
    member.find()
    assert len(member.requests(Beat)) == beats


def test_an_answer_that_comes_after_leaving_is_ignored() -> None:
    member = Member()
    member.poll()
    member.find()
    member.unsubscribe()
    assert member.last.member_epoch == -1
    member.subscribe("t")
    member.poll()
    assert member.last.member_epoch == 0
    member.reply("t-0", epoch=1)  # to the first join
    member.reply(epoch=-1)  # to leaving
    assert member.membership.state is S.JOINING
    member.metadata(t=1)
    member.reply("t-0", epoch=3)
    member.poll()
    assert member.membership.generation.generation_id == 3


def test_only_the_coordinator_starts_a_rebalance() -> None:
    member = Member().joined("t-0")
    before = len(member.sent)
    member.handle(EnforceRebalance())
    member.poll()
    assert len(member.sent) == before
    assert "enforce_rebalance does nothing" in member.notes()[-1]


def test_a_member_commits_in_its_group_only_and_again_with_a_newer_epoch() -> None:
    member = Member()
    member.poll()
    member.find()
    assert isinstance(member.error_of(member.commit({"t-0": 1})), CommitFailedError)
    member.metadata(t=1)
    member.reply("t-0")
    member.poll()
    retried = member.commit({"t-0": 1}, timeout=10_000)
    member.answer_commit(ErrorCode.STALE_MEMBER_EPOCH)
    member.reply(epoch=2)
    member.sleep(100)
    assert member.requests(OffsetCommitRequest)[-1].generation_id_or_member_epoch == 2
    member.answer_commit(0)
    assert member.error_of(retried) is None


@pytest.mark.parametrize("how", ["unsubscribe", "close"])
def test_heartbeats_go_on_until_the_last_callback_has_returned(how: str) -> None:
    member = Member(max_poll_interval_ms=8_000).joined("t-0")
    member.holds_callbacks = True
    member.handle(Unsubscribe()) if how == "unsubscribe" else member.close()
    assert member.waiting_callback is not None
    before = len(member.requests(Beat))
    for _ in range(3):
        member.sleep(INTERVAL)
        member.reply()
    assert len(member.requests(Beat)) == before + 3, "also behind max.poll.interval.ms: it leaves anyway"
    assert member.last.member_epoch == 1
    member.finish()
    assert member.last.member_epoch == -1
    member.sleep(INTERVAL)
    assert member.last.member_epoch == -1
