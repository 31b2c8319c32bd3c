"""Assignors by name, and those users bring."""

from collections.abc import Sequence
from difflib import get_close_matches

from kohort.assign.assignor import Assignor, RebalanceProtocol
from kohort.assign.cooperative import CooperativeStickyAssignor
from kohort.assign.range import RangeAssignor
from kohort.assign.roundrobin import RoundRobinAssignor
from kohort.assign.sticky import StickyAssignor
from kohort.model.errors import KohortError

AssignorChoice = str | Assignor | type[Assignor]
"""A name, an assignor, or a class that makes one without arguments."""

BUILT_IN: tuple[type[Assignor], ...] = (
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    CooperativeStickyAssignor,
)

_MEMBERS = ("name", "supported_protocols", "subscription_user_data", "assign", "on_assignment")


class AssignorChoiceError(KohortError):
    """The assignors chosen do not exist, are not assignors, or cannot go together."""


def choose_assignors(choices: Sequence[AssignorChoice]) -> tuple[Assignor, ...]:
    """The assignors of one consumer, the preferred one first; names make new instances.

    Raises AssignorChoiceError for unknown names, for objects that are no assignors, for two of one name, and
    for none at all.
    """
    chosen = tuple(map(_assignor, choices))
    if not chosen:
        raise AssignorChoiceError("no assignor was chosen", hint=f"there are {_names()}")
    names = [assignor.name for assignor in chosen]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise AssignorChoiceError(
            f"two assignors are called {twice!r}", hint="members agree on one by its name"
        )
    return chosen


def rebalance_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The best way of changing hands that all of them support; AssignorChoiceError if there is none."""
    common = set(RebalanceProtocol).intersection(*(assignor.supported_protocols for assignor in assignors))
    if not common:
        names = ", ".join(assignor.name for assignor in assignors)
        raise AssignorChoiceError(
            f"no rebalance protocol is supported by all of {names}",
            hint="choose assignors that are all eager or all cooperative; cooperative-sticky is both",
        )
    return max(common)


def _assignor(choice: AssignorChoice) -> Assignor:
    if isinstance(choice, str):
        return _by_name(choice)
    made = choice() if isinstance(choice, type) else choice
    missing = [member for member in _MEMBERS if not hasattr(made, member)]
    if missing:
        raise AssignorChoiceError(
            f"{type(made).__name__} is not an assignor: it has no {', '.join(missing)}",
            hint="see kohort.assign.assignor.Assignor",
        )
    return made


def _by_name(name: str) -> Assignor:
    for made in (make() for make in BUILT_IN):
        if made.name == name:
            return made
    raise AssignorChoiceError(f"there is no assignor {name!r}", hint=_similar(name))


def _similar(name: str) -> str:
    known = {_plain(made.name): made.name for made in (make() for make in BUILT_IN)}
    close = get_close_matches(_plain(name), known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {known[close[0]]!r}?"
    return f"there are {_names()}; one of your own is passed as a class or an instance"


def _plain(name: str) -> str:
    """Other clients name the class, such as ``org.apache.kafka.clients.consumer.StickyAssignor``."""
    short = name.rsplit(".", 1)[-1].lower().removesuffix("assignor").removesuffix("partition")
    return short.replace("-", "").replace("_", "").replace(" ", "")


def _names() -> str:
    return ", ".join(make().name for make in BUILT_IN)
