"""What is told of consumer groups (KIP-848): each group epoch, who holds up whom, what had no owner."""

import json

from tests.scenario.groups.consumer.mixed import Mixed
from tests.unit.story.consumer_journal import ConsumerJournal
from tests.unit.story.journal import tp

from kohort.groups.commands import DeleteGroups
from kohort.model.errors import ErrorCode
from kohort.story.as_json import story_json
from kohort.story.rebalance import End, GroupKind, Lost, Move, Revocation
from kohort.story.tell import tell
from kohort.story.text import story_lines

START = 1_700_000_000_000


def clock(at: int) -> str:
    return f"{(at - START) / 1_000:.3f}"


def two_members() -> ConsumerJournal:
    """``a`` has the partitions 0 to 2 and ``b`` has 3 to 5."""
    journal = ConsumerJournal(t=6)
    journal.join("a")
    journal.join("b")
    journal.settle()
    return journal


def causes(journal: ConsumerJournal) -> list[str]:
    return [one.cause["kind"] for one in journal.story().rebalances]


GOLDEN = """\
0.000  a joined
  result      stable after 0 ms: epoch 1, uniform (consumer)
  joined      +0 ms     a, new
  members     1: + a
  partitions  6 new
              no owner → a: t 0-5

1.000  b joined
  result      stable after 3.50 s: epoch 2, uniform (consumer)
  joined      +0 ms     b, new
  gave up     +2.50 s   a: t 3-5, 500 ms after it was asked
  members     2: + b
  partitions  3 moved, 3 stayed
              a → b: t 3-5
  no owner    1.00 s: t 3-5
              3.0 partition-seconds in all

49.500  session of b expired: last heartbeat 45,000 ms ago, timeout 45,000
  result      stable after 500 ms: epoch 3, uniform (consumer)
  phases      assigning 500 ms: until a member sent a heartbeat
              reconciling 0 ms
  members     1: - b
  partitions  3 moved, 3 stayed
              b → a: t 3-5
  no owner    45.5 s, since b was last heard of: t 3-5
              136.5 partition-seconds in all
  advice      the process died, hung or was cut off: nothing was heard of it for \
consumer.session.timeout.ms (45.0 s)

51.000  b joined
  result      not stable yet: epoch 4, members follow
  joined      +0 ms     b, new
  waits for   a to give up t 3-5, asked +1.00 s; b waits
  members     2: + b
  advice      who has to give up partitions does so with its next poll, or is removed: max.poll.interval.ms
"""


def test_the_story_of_a_member_that_came_died_and_came_back() -> None:
    journal = ConsumerJournal(t=6)
    journal.join("a")
    journal.sleep(1_000)
    journal.join("b")
    journal.sleep(2_000)
    journal.beat("a")
    journal.sleep(500)
    journal.ack("a")
    journal.sleep(1_000)
    journal.beat("b")
    journal.sleep(500)
    for _ in range(46):
        journal.sleep(1_000)
        journal.ack("a")
    journal.join("b")
    journal.sleep(1_000)
    journal.beat("a")
    assert "\n".join(story_lines(journal.story(), clock)) + "\n" == GOLDEN


def test_each_reason_for_a_new_epoch_has_its_cause() -> None:
    journal = two_members()
    journal.group.node.put_topic("u", 2)
    journal.beat("a", names=["t", "u"])
    journal.settle()
    journal.group.node.put_topic("u", 4)
    journal.settle()
    journal.beat("b", names=[], expression="u.*")
    journal.group.resolve()
    journal.settle()
    journal.leave("a")
    journal.settle()
    assert causes(journal) == [
        *("MemberArrived", "MemberArrived", "SubscriptionChanged", "TopicsDiffer"),
        *("SubscriptionChanged", "ExpressionsMatched", "MemberLeft"),
    ]
    assert {one.kind for one in journal.story().rebalances} == {GroupKind.CONSUMER}


def test_a_member_that_does_not_give_up_is_named_with_whom_it_holds_up() -> None:
    journal = two_members()
    journal.join("c")
    journal.sleep(700)
    journal.beat("a")
    running = journal.last()
    (one,) = running.revocations
    assert one == Revocation("a", frozenset({tp(2)}), ("c",), asked_after_ms=700, given_after_ms=None)
    assert running.awaited == ("a", "b")  # b has not heard of it
    for _ in range(60):
        journal.sleep(1_000)
        journal.beat("a")
        journal.ack("b")
        journal.beat("c")
    assert journal.last().cause["kind"] == "RevocationTimedOut"


def test_an_epoch_that_is_overtaken_says_by_what_and_tells_what_had_moved() -> None:
    journal = two_members()
    journal.join("c")
    journal.ack("a")
    journal.ack("a")
    journal.beat("c")
    journal.join("d")
    overtaken, newest = journal.story().rebalances[-2:]
    assert (overtaken.end, overtaken.end_cause) == (End.RESTARTED, newest.cause)
    assert overtaken.moves == [Move(tp(2), "a", "c")]
    journal.settle()
    assert journal.last().end is End.STABLE


def test_partitions_stay_with_their_owner_until_it_has_given_them_up() -> None:
    journal = two_members()
    journal.join("c")
    journal.sleep(1_000)
    journal.beat("a")
    journal.sleep(1_000)
    assert journal.story().unowned == []
    journal.ack("a")
    assert [one.partition for one in journal.story().unowned] == [tp(2)]
    journal.settle()
    told = journal.last()
    assert {one.partition for one in told.unowned} == {tp(2), tp(5)}
    assert {one.lost for one in told.unowned} == {Lost.REVOKED}
    assert told.unowned_ms == sum(one.until - one.since for one in told.unowned if one.until is not None) > 0


def test_a_static_member_that_restarts_needs_no_epoch_and_its_time_away_is_told() -> None:
    journal = ConsumerJournal(t=2)
    journal.join("a", instance="i")
    journal.sleep(1_000)
    journal.beat("a", epoch=-2, instance="i")
    journal.sleep(2_500)
    assert [(one.partition, one.lost) for one in journal.story().unowned] == [
        (tp(0), Lost.AWAY),
        (tp(1), Lost.AWAY),
    ]
    journal.join("a2", instance="i")
    story = journal.story()
    assert [one.sentence for one in story.incidents] == [
        "a (instance i) left for a while; its partitions stay reserved",
        "instance i came back as a2, it was a; no new epoch was needed, "
        "its partitions had no owner for 2.50 s",
    ]
    assert (len(story.rebalances), story.unowned) == (1, [])


def test_a_static_member_that_returns_with_another_subscription_is_a_reason_for_an_epoch() -> None:
    journal = ConsumerJournal(t=2, u=2)
    journal.join("a", instance="i")
    journal.beat("a", epoch=-2, instance="i")
    journal.join("a2", instance="i", names=["t", "u"])
    told = journal.last()
    assert (told.cause["kind"], told.replacements[0][1:]) == ("InstanceReturned", ("a", "a2"))
    assert (told.members_added, told.members_removed) == ((), ())
    assert told.moves == [Move(tp(0, "u"), None, "a2"), Move(tp(1, "u"), None, "a2")]


def test_a_rebalance_goes_on_after_the_broker_restarted() -> None:
    journal = two_members()
    journal.join("c")
    journal.beat("a")
    journal.sleep(100)
    journal.group.node.restart()
    journal.write()
    before = len(journal.story().rebalances)
    journal.settle()
    story = journal.story()
    assert (len(story.rebalances), story.rebalances[-1].end) == (before, End.STABLE)
    assert story.incidents[-1].sentence == "the coordinator started: loaded with 3 members"
    assert {(one.before, one.after) for one in story.rebalances[-1].moves} == {("a", "c"), ("b", "c")}


def test_a_log_that_failed_takes_back_what_was_told() -> None:
    journal = two_members()
    journal.group.node.fail_next_append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    journal.beat("b", epoch=-1)
    journal.settle()
    story = journal.story()
    assert [one.event for one in story.incidents] == ["GroupDied", "ConsumerGroupLoaded"]
    assert (story.unowned, sorted(journal.group.group.members)) == ([], ["a", "b"])


def test_a_journal_that_begins_in_the_middle_knows_everything_after_one_whole_epoch() -> None:
    journal = two_members()
    del journal.documents[:]
    for name in ("c", "d"):
        journal.join(name)
        journal.settle()
    story = journal.story()
    first, second = story.rebalances
    assert (first.is_assignment_known, second.is_assignment_known) == (False, True)
    assert len(second.moves) == 1
    assert second.stayed == 5
    assert story.reaches_back(1)


def test_a_journal_that_begins_between_the_epoch_and_its_target_says_so() -> None:
    journal = two_members()
    journal.leave("b")
    del journal.documents[:]
    journal.settle()
    (told,) = journal.story().rebalances
    assert (told.is_partial, told.end, told.generation) == (True, End.STABLE, 3)


def test_events_that_the_journal_lost_make_the_assignment_unknown() -> None:
    journal = two_members()
    journal.lose(7)
    journal.join("c")
    journal.settle()
    told = journal.last()
    assert (told.is_assignment_known, told.dropped) == (False, 7)
    journal.leave("c")
    journal.settle()
    assert journal.last().is_assignment_known


def test_a_group_that_is_deleted_is_gone_and_can_come_back() -> None:
    journal = two_members()
    journal.leave("a")
    journal.leave("b")
    assert journal.last().end is End.EMPTY
    journal.group.ask(
        DeleteGroups(reply_to=journal.group.next_request(), group_ids=(journal.group.group_id,))
    )
    journal.write()
    story = journal.story()
    assert story.removed is not None
    assert (story.removed["kind"], story.unowned) == ("DeletionRequested", [])
    journal.join("a")
    assert journal.story().removed is None
    assert journal.last().is_assignment_known


def test_partitions_of_a_topic_without_subscribers_are_not_missing_an_owner() -> None:
    journal = ConsumerJournal(t=2, u=2)
    journal.join("a", names=["t", "u"])
    journal.beat("a", names=["t"])
    journal.settle()
    assert journal.last().end is End.STABLE
    assert journal.story().unowned == []


def test_a_topic_whose_name_is_not_in_the_journal_has_its_id() -> None:
    journal = ConsumerJournal(t=1)
    journal.join("a")
    nameless = [document._replace(topics={}) for document in journal.documents]
    (told,) = tell("g", nameless).rebalances
    assert told.moves[0].partition.topic == "A" * 21 + "Q"  # 16 bytes, of which the last is 1


def test_what_a_program_reads_has_the_revocations() -> None:
    journal = two_members()
    journal.join("c")
    journal.settle()
    told = json.loads(json.dumps(story_json(journal.story())))["rebalances"][-1]
    assert (told["kind"], told["generation"]) == ("consumer", 3)
    assert {one["member_id"] for one in told["revocations"]} == {"a", "b"}
    assert told["revocations"][0]["waiting"] == ["c"]
    assert told["without_owner_ms"] > 0


def test_a_group_that_changes_its_kind_and_back_is_one_story() -> None:
    mixed = Mixed(t=2)
    journal = ConsumerJournal(mixed)
    joined = mixed.classic_join("", version=3)
    mixed.sync(joined.member_id, joined.generation, {joined.member_id: [0, 1]})
    journal.write()
    journal.join("b")
    mixed.classic_beat(joined.member_id, joined.generation)
    again = mixed.classic_join(joined.member_id, owned=[0])
    mixed.sync(joined.member_id, again.generation)
    journal.beat("b")
    grown = journal.last()
    assert (grown.kind, grown.cause["kind"], grown.end) == (GroupKind.CONSUMER, "MemberArrived", End.STABLE)
    assert grown.moves == [Move(tp(1), joined.member_id, "b")]
    journal.leave("b")
    story = journal.story()
    assert [one.kind for one in story.rebalances] == ["classic", "consumer", "classic"]
    assert [one.sentence for one in story.incidents] == [
        "the group was made: client classic was the first to join; reason not provided",
        "the group became a consumer group with b",
        "this is a classic group now: b left; reason not provided",
    ]
    assert [(one.partition, one.was) for one in story.unowned] == [(tp(1), "b")]
    assert story.removed is None
