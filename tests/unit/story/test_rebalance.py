"""The values of a story."""

from kohort.story.rebalance import UNKNOWN_CAUSE, End, Incident, Rebalance, Story


def whole(started_at: int) -> Rebalance:
    return Rebalance(started_at, {"kind": "MemberLeft"}, end=End.STABLE, is_assignment_known=True)


def test_a_story_reaches_back_as_far_as_its_rebalances_are_whole() -> None:
    partial = Rebalance(0, UNKNOWN_CAUSE, is_partial=True)
    story = Story("g", rebalances=[partial, whole(1), whole(2)])
    assert not story.reaches_back(2)
    partial.prepared_at = 0  # from here on it is known who is a member
    assert story.reaches_back(2)
    assert not story.reaches_back(3)
    story.rebalances[1].is_partial = True
    assert not story.reaches_back(2)


def test_an_empty_group_has_no_members_that_would_have_to_be_known() -> None:
    emptied = Rebalance(0, UNKNOWN_CAUSE, is_partial=True, end=End.EMPTY)
    assert Story("g", rebalances=[emptied, whole(1)]).reaches_back(1)


def test_a_rebalance_with_an_unknown_assignment_before_it_is_not_whole() -> None:
    told = whole(1)
    told.is_assignment_known = False
    assert not told.is_whole
    told.end = End.RUNNING
    assert told.is_whole


def test_the_last_part_of_a_story_has_what_happened_since() -> None:
    story = Story(
        "g",
        rebalances=[whole(1), whole(5), whole(9)],
        incidents=[Incident(3, "GroupLoaded", ""), Incident(7, "GroupDied", "")],
        dropped=4,
    )
    last = story.last(2)
    assert [one.started_at for one in last.rebalances] == [5, 9]
    assert [one.at for one in last.incidents] == [7]
    assert last.dropped == 4
    assert story.last(3) is story


def test_who_was_alone_was_not_the_last() -> None:
    assert whole(1).last_arrival is None


def test_nobody_is_said_to_be_gone_before_there_is_a_generation() -> None:
    told = Rebalance(0, UNKNOWN_CAUSE, members_before=("a",))
    assert told.members_removed == ()
