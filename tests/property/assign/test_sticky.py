"""Balanced first, sticky second: the invariants of both sticky assignors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.assign.generated import Case, Kind, cases, next_round, steady, without_user_data
from tests.property.assign.judgement import (
    check_complete,
    check_even,
    check_no_move_would_help,
    check_no_swaps,
    check_only_what_was_asked_for,
    given_out,
    sets,
    sizes,
    undisputed,
    wanted,
)

from kohort.assign.cooperative import CooperativeStickyAssignor, check_hand_over
from kohort.assign.protocol import Assignment, Subscription
from kohort.assign.sticky import StickyAssignor
from kohort.model.ids import MemberId

pytestmark = pytest.mark.slow

MOST_ROUNDS = 5


@given(case=cases(Kind(uniform=True, racks=True)))
@steady
def test_uniform_groups_are_even_whatever_is_claimed(case: Case) -> None:
    result = StickyAssignor().assign(case.cluster, case.members)
    check_even(result)
    check_complete(case, result)


@given(case=cases(Kind(uniform=False)))
@steady
def test_mixed_groups_are_as_even_as_they_can_be(case: Case) -> None:
    result = StickyAssignor().assign(case.cluster, case.members)
    check_no_move_would_help(case, result)
    check_complete(case, result)


@given(case=cases(Kind()))
@steady
def test_nothing_moves_where_nothing_changed(case: Case) -> None:
    first = StickyAssignor().assign(case.cluster, case.members)
    again = next_round(case.members, first, 7)
    assert sets(StickyAssignor().assign(case.cluster, again)) == sets(first)
    assert sets(CooperativeStickyAssignor().assign(case.cluster, again)) == sets(first)


@given(case=cases(Kind(uniform=True)))
@steady
def test_a_newcomer_makes_no_old_member_gain(case: Case) -> None:
    before = StickyAssignor().assign(case.cluster, case.members)
    newcomer = Subscription(next(iter(case.members.values())).topics)
    grown = next_round({**case.members, MemberId("newcomer"): newcomer}, before, 7)
    result = sets(StickyAssignor().assign(case.cluster, grown))
    assert all(result[member] <= share for member, share in sets(before).items())


@given(case=cases(Kind(uniform=True)), data=st.data())
@steady
def test_when_a_member_leaves_survivors_keep_all_they_had(case: Case, data: st.DataObject) -> None:
    before = StickyAssignor().assign(case.cluster, case.members)
    gone = data.draw(st.sampled_from(sorted(case.members)))
    survivors = next_round({m: wish for m, wish in case.members.items() if m != gone}, before, 7)
    result = sets(StickyAssignor().assign(case.cluster, survivors))
    assert all(share <= result[member] for member, share in sets(before).items() if member != gone)


@given(case=cases(Kind(one_generation=True)))
@steady
def test_no_two_members_swap_partitions_of_a_topic(case: Case) -> None:
    check_no_swaps(undisputed(case.members), StickyAssignor().assign(case.cluster, case.members))


@given(case=cases(Kind(uniform=True)))
@steady
def test_a_uniform_group_keeps_as_much_as_balance_allows(case: Case) -> None:
    result = StickyAssignor().assign(case.cluster, case.members)
    least, extras = divmod(len(wanted(case)), len(case.members))
    held = [len(owned & wanted(case)) for owned in undisputed(case.members).values()]
    possible = sum(min(size, least) for size in held) + min(extras, sum(size > least for size in held))
    new = sets(result)
    kept = sum(len(owned & new[member]) for member, owned in undisputed(case.members).items())
    assert kept >= possible
    assert sum(sizes(result)) == len(wanted(case))


@given(case=cases(Kind()))
@steady
def test_what_is_claimed_goes_to_its_undisputed_owner_or_waits(case: Case) -> None:
    result = CooperativeStickyAssignor().assign(case.cluster, without_user_data(case.members))
    owned = undisputed(case.members)
    claimed = {tp for wish in case.members.values() for tp in wish.owned}
    for member, share in sets(result).items():
        assert share & claimed <= owned[member]
    check_only_what_was_asked_for(case, result)


@given(case=cases(Kind()))
@steady
def test_cooperative_rounds_never_cross_and_soon_agree_with_sticky(case: Case) -> None:
    assignor = CooperativeStickyAssignor()
    members, result = without_user_data(case.members), dict[MemberId, Assignment]()
    for number in range(MOST_ROUNDS):
        result = assignor.assign(case.cluster, members)
        check_hand_over(members, result)
        given = given_out(result)
        assert len(given) == len(set(given))
        members = next_round(members, result, 7 + number)
        if set(given) == wanted(case):
            break
    settled = Case(case.cluster, members)
    check_complete(settled, result)
    check_no_move_would_help(settled, result)
    assert sets(assignor.assign(case.cluster, members)) == sets(result)
