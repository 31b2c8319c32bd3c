"""Groups nobody thought of: any topics, any wishes, any claims."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from tests.rounds import ROUNDS

from kohort.assign.assignor import ClusterView, Rack
from kohort.assign.protocol import Assignment, Subscription, encode_sticky_user_data
from kohort.model.ids import Generation, InstanceId, MemberId, Partition, TopicName
from kohort.model.topics import TopicPartition

_Value = TypeVar("_Value")

MOST_TOPICS, MOST_MEMBERS, MOST_PARTITIONS = 6, 8, 5
GENERATIONS = (None, 4, 5, 5, 6)

steady = settings(derandomize=True, deadline=None, max_examples=60 * ROUNDS, database=None)


class Case(NamedTuple):
    """One group, as its leader sees it."""

    cluster: ClusterView
    members: dict[MemberId, Subscription]


class Kind(NamedTuple):
    """What a test wants its groups to look like."""

    uniform: bool | None = None
    claims: bool = True
    one_generation: bool = False
    disputes: bool = True
    racks: bool = False
    instances: bool = False
    unknown_topics: bool = True


@st.composite
def cases(draw: st.DrawFn, kind: Kind) -> Case:
    least = 0 if kind.unknown_topics else 1
    counts = draw(st.lists(st.integers(least, MOST_PARTITIONS), min_size=1, max_size=MOST_TOPICS))
    names = [TopicName(f"t{number}") for number in range(len(counts))]
    size = draw(st.integers(1, MOST_MEMBERS))
    wishes = draw(_wishes(kind, len(names), size))
    claims = draw(_claims(kind, counts, size)) if kind.claims else [[] for _ in range(size)]
    # Drawn only where they matter: most of the time of these tests is spent drawing.
    generations = [5] * size if kind.one_generation else draw(_of_each(size, GENERATIONS))
    instances = draw(_of_each(size, (None, "a", "b", "c"))) if kind.instances else [None] * size
    racks = draw(_of_each(size, (None, "x", "y", "z"))) if kind.racks else [None] * size
    members = {}
    for number in range(size):
        owned = tuple(TopicPartition(names[topic], Partition(index)) for topic, index in claims[number])
        members[MemberId(f"m{number}")] = holding(
            tuple(name for index, name in enumerate(names) if wishes[number] >> index & 1),
            owned,
            generations[number],
            rack=racks[number],
            instance=instances[number],
        )
    near = draw(_racks(counts)) if kind.racks else []
    return Case(
        ClusterView(dict(zip(names, counts, strict=True)), dict(zip(names, near, strict=False))), members
    )


def holding(
    topics: tuple[TopicName, ...],
    owned: Sequence[TopicPartition],
    generation: int | None,
    *,
    rack: str | None = None,
    instance: str | None = None,
) -> Subscription:
    """A member that claims what it owns in both ways there are: ``sticky``'s and ``cooperative-sticky``'s."""
    known = None if generation is None else Generation(generation)
    told = encode_sticky_user_data(owned, Generation(-1) if known is None else known) if owned else None
    named = None if instance is None else InstanceId(instance)
    return Subscription(topics, told, tuple(owned), known, rack, named)


def without_user_data(members: dict[MemberId, Subscription]) -> dict[MemberId, Subscription]:
    """For ``cooperative-sticky``: where there is no generation, it reads one from the user data."""
    return {member: replace(wish, user_data=None) for member, wish in members.items()}


def next_round(
    members: dict[MemberId, Subscription], result: dict[MemberId, Assignment], generation: int
) -> dict[MemberId, Subscription]:
    """The same members, once they have what they were assigned; those without a result hold nothing."""
    return {
        member: holding(
            wish.topics,
            result[member].partitions if member in result else (),
            generation,
            rack=wish.rack,
            instance=wish.instance_id,
        )
        for member, wish in members.items()
    }


def _of_each(size: int, values: Sequence[_Value]) -> st.SearchStrategy[list[_Value]]:
    return st.lists(st.sampled_from(values), min_size=size, max_size=size)


def _wishes(kind: Kind, topics: int, size: int) -> st.SearchStrategy[list[int]]:
    """For each member a set of topics, as bits."""
    everything = (1 << topics) - 1
    mixed = st.lists(st.integers(0, everything), min_size=size, max_size=size)
    uniform = st.integers(1, everything).map(lambda wish: [wish] * size)
    if kind.uniform is None:
        return mixed | uniform
    return uniform if kind.uniform else mixed.filter(lambda wishes: len(set(wishes)) > 1 or size == 1)


@st.composite
def _claims(draw: st.DrawFn, kind: Kind, counts: list[int], size: int) -> list[list[tuple[int, int]]]:
    """For each member the partitions it claims; disputes: some claimed twice, some that do not exist."""
    beyond = 1 if kind.disputes else 0
    places = [(topic, index) for topic, count in enumerate(counts) for index in range(count + beyond)]
    owners = draw(st.lists(st.integers(-2, size - 1), min_size=len(places), max_size=len(places)))
    claims: list[list[tuple[int, int]]] = [[] for _ in range(size)]
    for place, owner in zip(places, owners, strict=True):
        if owner >= 0:
            claims[owner].append(place)
    if kind.disputes:
        pairs = st.tuples(st.integers(0, size - 1), st.integers(0, len(places) - 1))
        for member, place_index in draw(st.lists(pairs, max_size=6)):
            claims[member].append(places[place_index])
    return claims


def _racks(counts: list[int]) -> st.SearchStrategy[list[list[frozenset[Rack]]]]:
    near = st.sampled_from([frozenset(racks) for racks in ("", "x", "y", "z", "xy", "yz", "xyz")])
    return st.tuples(*(st.lists(near, min_size=count, max_size=count) for count in counts)).map(list)
