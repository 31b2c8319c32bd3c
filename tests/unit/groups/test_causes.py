"""Causes read as sentences and as JSON."""

import json
from typing import get_args

import pytest

from kohort.groups.causes import (
    AppendRefused,
    AssignmentStored,
    CapacityReached,
    Cause,
    ClassicMemberTimedOut,
    CommitReceived,
    DeletionRequested,
    EveryoneJoined,
    ExpressionsMatched,
    FirstJoin,
    IdRequested,
    InitialDelayPassed,
    InstanceReturned,
    JoinTimedOut,
    KindChanged,
    MemberArrived,
    MemberLeft,
    MemberPaused,
    MemberRejoined,
    NewMemberExpired,
    PartitionLoaded,
    PartitionUnloaded,
    PendingIdExpired,
    Reconciled,
    RetentionPassed,
    RevocationTimedOut,
    SessionExpired,
    SubscriptionChanged,
    SyncReceived,
    SyncTimedOut,
    TargetComputed,
    TopicGone,
    TopicsDiffer,
    as_json,
)
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, InstanceId, MemberId, TopicName

M, INSTANCE, GEN, T = MemberId("m"), InstanceId("i"), Generation(3), TopicName("t")

SENTENCES: list[tuple[Cause, str]] = [
    (FirstJoin("app"), "client app was the first to join; reason not provided"),
    (FirstJoin("", "why"), "client without a name was the first to join; reason given: why"),
    (
        IdRequested(M, ""),
        "client without a name asked to join without a member id and was given m; reason not provided",
    ),
    (MemberArrived(M), "m joined; reason not provided"),
    (MemberArrived(M, INSTANCE, "scale-out"), "m (instance i) joined; reason given: scale-out"),
    (MemberRejoined(M, True, False), "the leader m joined again unchanged; reason not provided"),
    (
        MemberRejoined(M, False, True, ""),
        "m joined again with other protocols or metadata; reason not provided",
    ),
    (
        InstanceReturned(INSTANCE, M, MemberId("n")),
        "instance i came back as n, it was m; reason not provided",
    ),
    (MemberLeft(M, None, "closing"), "m left; reason given: closing"),
    (CapacityReached(M, 2, 2), "m was turned away: 2 members count, group.max.size is 2"),
    (
        CapacityReached(MemberId(""), 2, 2),
        "a new member was turned away: 2 members count, group.max.size is 2",
    ),
    (SyncReceived(M, True), "the leader m sent the assignment"),
    (SyncReceived(M, False), "m asked for its assignment"),
    (CommitReceived(M, GEN, 2), "m committed 2 partitions in generation 3"),
    (CommitReceived(M, Generation(-1), 2), "an offset commit of 2 partitions from outside the membership"),
    (DeletionRequested("the group"), "an administrator deleted the group"),
    (SessionExpired(M, 10_012, 10_000), "session of m expired: last heartbeat 10,012 ms ago, timeout 10,000"),
    (NewMemberExpired(M, 300_000), "new member m saw no generation within 300,000 ms"),
    (PendingIdExpired(M, 10_000), "id m was handed out and not used within 10,000 ms"),
    (JoinTimedOut(30_000, 1, 3), "the rebalance timeout of 30,000 ms passed: 1 of 3 members had joined"),
    (
        InitialDelayPassed(3_000, 0, 2),
        "the initial delay of 3,000 ms passed with 2 members; 0 ms could still be waited",
    ),
    (SyncTimedOut(30_000, GEN, (M, MemberId("n"))), "no sync from m, n within 30,000 ms of generation 3"),
    (RetentionPassed(2, 1_000), "2 offsets expired, retention is 1,000 ms"),
    (RetentionPassed(0, 1_000), "the group was empty and had no offsets left"),
    (EveryoneJoined(2), "all 2 members had joined"),
    (EveryoneJoined(0), "the last member is gone"),
    (AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS), "the log refused the write: NOT_ENOUGH_REPLICAS"),
    (AssignmentStored(GEN), "the assignment of generation 3 is stored"),
    (TopicGone(TopicName("t")), "topic t was deleted"),
    (SubscriptionChanged(M, (T, TopicName("u")), ""), "m subscribes to t, u"),
    (SubscriptionChanged(M, (), "x.*"), "m subscribes to no topics by name and topics that match x.*"),
    (MemberPaused(M, INSTANCE), "m (instance i) left for a while; its partitions stay reserved"),
    (
        RevocationTimedOut(M, 60_000, 2),
        "m did not give up 2 partitions within the rebalance timeout of 60,000 ms",
    ),
    (ClassicMemberTimedOut(M, "SyncGroup", 60_000), "no SyncGroup from m within 60,000 ms"),
    (TopicsDiffer(M), "the subscribed topics have changed, as the heartbeat of m found"),
    (ExpressionsMatched(("a.*", "b")), "topics were matched with a.*, b"),
    (TargetComputed(7, "uniform", 3), "uniform assigned epoch 7 to 3 members"),
    (Reconciled(M, 7, 2, ()), "m has to give up 2 partitions and stays at epoch 7"),
    (Reconciled(M, 7, 0, (MemberId("n"),)), "m is at epoch 7 and waits for n"),
    (Reconciled(M, 7, 0, ()), "m is at epoch 7"),
    (KindChanged(M, "consumer"), "the group became a consumer group with m"),
    (PartitionLoaded(2, 9), "loaded with 2 members"),
    (PartitionLoaded(10, 9), "loaded with 10 members, group.max.size is 9"),
    (
        PartitionLoaded(2, 9, 2, 1, "death", 3_120),
        "node 2 took over from node 1: its lease ended; no coordinator for 3.1 s; loaded with 2 members",
    ),
    (
        PartitionLoaded(2, 9, 2, 1, "move", 12),
        "node 2 took over from node 1: it was moved by hand; no coordinator for 12 ms; loaded with 2 members",
    ),
    (
        PartitionLoaded(0, 9, 1, 1, "death", 60_000),
        "node 1 is back after its lease had ended; no coordinator for 60.0 s; loaded with 0 members",
    ),
    (PartitionUnloaded(), "the coordinator of this group moved away"),
]


@pytest.mark.parametrize(("cause", "sentence"), SENTENCES, ids=lambda each: type(each).__name__)
def test_a_cause_is_a_sentence(cause: Cause, sentence: str) -> None:
    assert str(cause) == sentence


def test_every_cause_has_its_sentence_here() -> None:
    assert {type(cause) for cause, _ in SENTENCES} == set(get_args(Cause))


@pytest.mark.parametrize("cause", [cause for cause, _ in SENTENCES], ids=lambda each: type(each).__name__)
def test_a_cause_is_json_with_everything_in_it(cause: Cause) -> None:
    found = json.loads(json.dumps(as_json(cause)))
    assert found["kind"] == type(cause).__name__
    assert found["sentence"] == str(cause)
    assert len(found) == 2 + len(type(cause).__dataclass_fields__)


def test_tuples_and_error_codes_are_plain_values() -> None:
    assert as_json(SyncTimedOut(1, GEN, (M,)))["missing"] == ["m"]
    assert as_json(AppendRefused(ErrorCode.KAFKA_STORAGE_ERROR))["error"] == "KAFKA_STORAGE_ERROR"
