"""What moves is withheld for one round."""

from dataclasses import replace

import pytest
from tests.unit.assign.notation import after, cooperative, group, holding, partitions, shown, topics

from kohort.assign.cooperative import CooperativeStickyAssignor, UnsafeAssignmentError, check_hand_over
from kohort.assign.protocol import Assignment, encode_generation
from kohort.model.ids import Generation, MemberId

SEVEN = topics("t1:3 t2:4")
FOUR = dict.fromkeys(["c1", "c2", "c3", "c4"], "t1 t2")
OF_TWO = {"c1": "t1-0 t1-2 t2-1 t2-3", "c2": "t1-1 t2-0 t2-2"}


def test_e13_what_moves_is_placed_in_the_second_round() -> None:
    assignor = CooperativeStickyAssignor()
    first = assignor.assign(SEVEN, holding(group(FOUR), OF_TWO))
    assert shown(first) == {"c1": "t1-0 t2-1", "c2": "t2-0 t1-1", "c3": "", "c4": ""}
    second = assignor.assign(SEVEN, after(group(FOUR), first, 2))
    assert shown(second) == {"c1": "t1-0 t2-1", "c2": "t2-0 t1-1", "c3": "t1-2 t2-3", "c4": "t2-2"}
    assert assignor.assign(SEVEN, after(group(FOUR), second, 3)) == second


def test_e17_what_two_claim_is_withheld_from_all() -> None:
    members = holding(group({"c1": "t", "c2": "t", "c3": "t"}), {"c1": "t-0 t-1", "c2": "t-0 t-2"})
    assert cooperative(topics("t:3"), members) == {"c1": "t-1", "c2": "t-2", "c3": ""}


def test_the_generation_of_the_subscription_outranks_that_of_the_user_data() -> None:
    wishes = group({"c1": "t", "c2": "t"})
    older = replace(wishes[MemberId("c1")], owned=partitions("t-0"), generation=Generation(3))
    newer = replace(
        wishes[MemberId("c2")], owned=partitions("t-0"), user_data=encode_generation(Generation(4))
    )
    members = {
        MemberId("c1"): replace(older, user_data=encode_generation(Generation(9))),
        MemberId("c2"): newer,
    }
    assert cooperative(topics("t:1"), members) == {"c1": "", "c2": "t-0"}


def test_a_member_tells_its_generation_from_the_beginning() -> None:
    assignor = CooperativeStickyAssignor()
    assert assignor.subscription_user_data([]) == b"\xff\xff\xff\xff"
    assignor.on_assignment(Assignment(), Generation(5))
    assert assignor.subscription_user_data([]) == b"\x00\x00\x00\x05"


def test_an_assignor_that_hands_over_too_early_is_refused() -> None:
    members = holding(group({"c1": "t", "c2": "t"}), {"c1": "t-0 t-1"})
    early = {MemberId("c1"): Assignment(partitions("t-0")), MemberId("c2"): Assignment(partitions("t-1"))}
    with pytest.raises(UnsafeAssignmentError, match=r"t-1 was assigned to 'c2' while 'c1' still owns it"):
        check_hand_over(members, early)
