"""Even, and moving little: the worked examples of the specification."""

from dataclasses import replace

from tests.unit.assign.notation import Group, group, holding, partitions, sticky, topics

from kohort.assign.protocol import Assignment, decode_sticky_user_data
from kohort.assign.sticky import StickyAssignor, place
from kohort.model.ids import Generation

FIVE = topics("t1:2 t2:1 t3:2 t4:1 t5:2")
SEVEN = topics("t1:3 t2:4")
PAIR = {"c1": "t1 t2", "c2": "t1 t2"}
FOUR = PAIR | {"c3": "t1 t2", "c4": "t1 t2"}
OF_TWO = {"c1": "t1-0 t1-2 t2-1 t2-3", "c2": "t1-1 t2-0 t2-2"}
OF_FOUR = {"c1": "t1-0 t2-1", "c2": "t2-0 t1-1", "c3": "t1-2 t2-3", "c4": "t2-2"}


def test_e9_mixed_subscriptions_are_evened_out() -> None:
    wishes = {"c1": "t1 t2 t3 t4 t5", "c2": "t1 t3 t5", "c3": "t1 t3 t5", "c4": "t1 t2 t3 t4 t5"}
    expected = {"c1": "t2-0 t3-0", "c2": "t1-0 t3-1", "c3": "t1-1 t5-0", "c4": "t4-0 t5-1"}
    assert sticky(FIVE, group(wishes)) == expected


def test_e10_a_fresh_group_is_dealt_in_turn() -> None:
    expected = {"c1": "t1-0 t1-2 t2-1", "c2": "t1-1 t2-0 t2-2"}
    assert sticky(topics("t1:3 t2:3"), group(PAIR)) == expected


def test_e11_the_first_member_gets_the_odd_partition() -> None:
    assert sticky(SEVEN, group(PAIR)) == OF_TWO


def test_e12_old_members_give_up_high_numbers_to_new_ones() -> None:
    assert sticky(SEVEN, holding(group(FOUR), OF_TWO)) == OF_FOUR


def test_e12_names_what_is_transferring_to_whom() -> None:
    members = holding(group(FOUR), OF_TWO)
    claims = {member: decode_sticky_user_data(wish.user_data) for member, wish in members.items()}
    transferring = {str(tp): member for tp, member in place(SEVEN, members, claims).transferring.items()}
    assert transferring == {"t1-2": "c3", "t2-3": "c3", "t2-2": "c4"}


def test_e14_survivors_keep_all_and_share_the_rest() -> None:
    survivors = holding(group({"c3": "t1 t2", "c4": "t1 t2"}), OF_FOUR)
    assert sticky(SEVEN, survivors) == {"c3": "t1-2 t2-3 t1-0 t2-1", "c4": "t2-2 t1-1 t2-0"}


def test_e15_what_is_left_goes_to_the_first_of_equals() -> None:
    members = holding(group(PAIR), {"c1": "t1-0 t2-1", "c2": "t1-1 t2-2"})
    assert sticky(topics("t1:2 t2:3"), members) == {"c1": "t1-0 t2-1 t2-0", "c2": "t1-1 t2-2"}


def test_e16_the_first_by_id_may_keep_one_more() -> None:
    members = holding(group(PAIR | {"c3": "t1 t2"}), {"c1": "t1-0 t2-0", "c2": "t1-1 t2-1"})
    assert sticky(topics("t1:2 t2:2"), members) == {"c1": "t1-0 t2-0", "c2": "t1-1", "c3": "t2-1"}


def test_e17_what_two_claim_in_one_generation_is_nobodys() -> None:
    members = holding(group({"c1": "t", "c2": "t", "c3": "t"}), {"c1": "t-0 t-1", "c2": "t-0 t-2"})
    assert sticky(topics("t:3"), members) == {"c1": "t-1", "c2": "t-2", "c3": "t-0"}


def test_e18_the_higher_generation_wins() -> None:
    claimed = {"c1": "t-0 t-2 u-1", "c2": "t-0 t-2 u-1"}
    members = holding(group({"c1": "t u", "c2": "t u"}), claimed, c1=10, c2=9)
    assert sticky(topics("t:3 u:3"), members) == {"c1": "t-0 u-1 t-2", "c2": "t-1 u-0 u-2"}


def test_e19_who_must_take_a_topic_alone_gets_less_of_the_others() -> None:
    members = group({"c1": "t1", "c2": "t1 t2", "c3": "t1"})
    expected = {"c1": "t1-0 t1-2", "c2": "t2-0 t2-1", "c3": "t1-1"}
    assert sticky(topics("t1:3 t2:2"), members) == expected


def test_e20_nothing_moves_where_no_move_helps() -> None:
    wishes = {"c1": "t1 t2", "c2": "t1 t2 t3 t4", "c3": "t2 t3 t4 t5 t6"}
    held = {"c1": "t1-0", "c2": "t2-0 t3-0", "c3": "t4-0 t5-0 t6-0"}
    cluster = topics("t1:1 t2:1 t3:1 t4:1 t5:1 t6:1")
    assert sticky(cluster, holding(group(wishes), held)) == held


def test_nobody_and_nothing_are_assigned_too() -> None:
    assert sticky(topics("t:3"), {}) == {}
    assert sticky(topics(""), group({"c1": "t", "c2": "t"})) == {"c1": "", "c2": ""}
    assert sticky(topics("t:1"), group({"c1": "", "c2": ""})) == {"c1": "", "c2": ""}


def test_user_data_nobody_understands_means_nothing_was_held() -> None:
    garbage: Group = {
        member: replace(wish, user_data=b"\x00\x00\x00\x07garbage")
        for member, wish in group({"c1": "t", "c2": "t"}).items()
    }
    assert sticky(topics("t:2"), garbage) == {"c1": "t-0", "c2": "t-1"}


def test_a_member_tells_what_it_held_once_it_held_something() -> None:
    assignor = StickyAssignor()
    assert assignor.subscription_user_data([]) is None
    assignor.on_assignment(Assignment(partitions("a-2 a-0")), Generation(7))
    expected = bytes.fromhex("00000001 000161 00000002 00000000 00000002 00000007")
    assert assignor.subscription_user_data([]) == expected
