"""Whose word counts."""

from tests.unit.assign.notation import partitions

from kohort.assign.claims import Holdings, judge
from kohort.assign.protocol import StickyUserData
from kohort.model.ids import Generation, MemberId, Partition, TopicName
from kohort.model.topics import TopicPartition

COUNTS = {TopicName("t"): 3}


def claim(held: str, generation: int | None = 1) -> StickyUserData:
    return StickyUserData(partitions(held), None if generation is None else Generation(generation))


def judged(**claims: StickyUserData) -> Holdings:
    return judge({MemberId(member): told for member, told in claims.items()}, COUNTS)


def owners(holdings: Holdings) -> dict[str, str]:
    return {member: " ".join(map(str, held)) for member, held in holdings.owned.items()}


def test_a_claim_nobody_disputes_counts_whatever_its_age() -> None:
    holdings = judged(a=claim("t-0", None), b=claim("t-1", 3), c=claim("t-2", 2))
    assert owners(holdings) == {"a": "t-0", "b": "t-1", "c": "t-2"}


def test_the_highest_generation_wins_among_any_number() -> None:
    for claims in ([5, 5, 6], [5, 6, 5], [6, 5, 5]):
        told = {name: claim("t-0", generation) for name, generation in zip("abc", claims, strict=True)}
        winner = "abc"[claims.index(6)]
        assert owners(judged(**told)) == {name: "t-0" if name == winner else "" for name in "abc"}


def test_equal_generations_leave_it_to_nobody_but_claimed() -> None:
    holdings = judged(a=claim("t-0"), b=claim("t-0"), c=claim("t-0", None))
    assert owners(holdings) == {"a": "", "b": "", "c": ""}
    assert holdings.claimed == set(partitions("t-0"))


def test_no_generation_counts_as_the_oldest() -> None:
    assert owners(judged(a=claim("t-0", None), b=claim("t-0", 0))) == {"a": "", "b": "t-0"}
    assert owners(judged(a=claim("t-0", None), b=claim("t-0", -1))) == {"a": "", "b": ""}


def test_a_member_that_repeats_itself_does_not_dispute_its_own_claim() -> None:
    assert owners(judged(a=claim("t-0 t-0"))) == {"a": "t-0"}


def test_partitions_that_do_not_exist_cannot_be_claimed() -> None:
    negative = TopicPartition(TopicName("t"), Partition(-1))
    told = StickyUserData((negative, *partitions("t-3 gone-0 t-2")), Generation(1))
    holdings = judge({MemberId("a"): told}, COUNTS)
    assert owners(holdings) == {"a": "t-2"}
    assert holdings.claimed == set(partitions("t-2"))


def test_the_newest_of_the_outdated_claims_names_the_previous_owner() -> None:
    holdings = judged(a=claim("t-0", 3), b=claim("t-0 t-1", 4), c=claim("t-0", 4), d=claim("t-0 t-2", 5))
    named = {str(tp): member for tp, member in holdings.previous.items()}
    assert named == {"t-0": "b", "t-1": "b"}
