"""Who has which partition, and since when nobody has."""

from tests.unit.story.journal import tp

from kohort.story.owners import Ownership
from kohort.story.rebalance import Lost, Move, Unowned


def known(**owners: int) -> Ownership:
    ownership = Ownership()
    ownership.begin({tp(number): member for member, number in owners.items()})
    return ownership


def test_who_keeps_its_partition_in_a_cooperative_rebalance_never_loses_it() -> None:
    change = known(a=0).assign({tp(0): "a"}, 100, None)
    assert change == ([], 1, [])


def test_in_an_eager_rebalance_even_what_stays_has_no_owner_meanwhile() -> None:
    change = known(a=0).assign({tp(0): "a"}, 100, 40)
    assert change == ([], 1, [Unowned(tp(0), "a", Lost.EAGER, 40, 100, "a")])


def test_a_partition_lost_before_the_rebalance_had_no_owner_since_then() -> None:
    ownership = known(a=0)
    ownership.lose("a", Lost.SILENT, 10)
    change = ownership.assign({tp(0): "b"}, 100, 40)
    assert change.unowned == [Unowned(tp(0), "a", Lost.SILENT, 10, 100, "b")]


def test_a_partition_lost_in_an_eager_rebalance_was_given_up_before() -> None:
    ownership = known(a=0)
    ownership.lose("a", Lost.GONE, 60)
    change = ownership.assign({tp(0): "b"}, 100, 40)
    assert change.unowned == [Unowned(tp(0), "a", Lost.EAGER, 40, 100, "b")]


def test_what_nobody_gets_stays_without_an_owner() -> None:
    ownership = known(a=0)
    change = ownership.assign({}, 100, None)
    assert change.moves == [Move(tp(0), "a", None)]
    assert ownership.still_unowned() == [Unowned(tp(0), "a", Lost.REVOKED, 100, None, None)]
    assert ownership.assign({}, 200, None).moves == []


def test_what_nobody_gets_in_an_eager_rebalance_was_given_up_at_its_start() -> None:
    ownership = known(a=0)
    ownership.assign({}, 100, 40)
    assert ownership.still_unowned()[0].since == 40


def test_a_new_id_owns_what_the_old_one_did() -> None:
    ownership = known(a=0, b=1)
    ownership.rename("a", "c")
    assert ownership.holders() == {"b", "c"}


def test_what_was_missed_makes_all_unknown() -> None:
    ownership = known(a=0)
    ownership.lose("a", Lost.GONE, 10)
    ownership.forget()
    assert not ownership.is_known
    assert ownership.still_unowned() == []


def test_at_most_is_said_of_what_was_given_up_to_join_again_only() -> None:
    assert Unowned(tp(0), "a", Lost.EAGER, 1, 2, "a").at_most
    assert not Unowned(tp(0), "a", Lost.GONE, 1, 2, "a").at_most
