"""Who has processed which order, and what that says: every order must be there; some may be there twice."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple


class Done(NamedTuple):
    """One order that a member has processed."""

    partition: int
    offset: int
    order: int


class OrderVerdict(NamedTuple):
    """``repeated`` counts how often an order was processed that was processed before."""

    written: int
    missing: tuple[int, ...]
    unknown: tuple[int, ...]
    repeated: int

    @property
    def holds(self) -> bool:
        """Whether every order was processed, and nothing that is no order."""
        return not self.missing and not self.unknown


class OrderLedger:
    """All members report here, in the order in which their reports arrive."""

    def __init__(self) -> None:
        self._seen: Counter[int] = Counter()
        self.processed: Counter[str] = Counter()
        self.repeated: Counter[str] = Counter()

    def note(self, member: str, orders: Iterable[Done]) -> None:
        for done in orders:
            self.processed[member] += 1
            self.repeated[member] += done.order in self._seen
            self._seen[done.order] += 1

    def verdict(self, written: int) -> OrderVerdict:
        """Against the orders 0 up to ``written``."""
        wanted = range(written)
        return OrderVerdict(
            written,
            missing=tuple(number for number in wanted if number not in self._seen),
            unknown=tuple(sorted(number for number in self._seen if number not in wanted)),
            repeated=self.repeated.total(),
        )


def in_words(verdict: OrderVerdict) -> str:
    """What came out, for people; between backticks what matters most."""
    missing = f"{len(verdict.missing):,} missing" if verdict.missing else "none missing"
    if verdict.repeated:
        repeated = (
            f"{verdict.repeated:,} were processed a second time: what a killed member had not yet committed "
            'is repeated. That is what "at least once" means.'
        )
    else:
        repeated = (
            "None was processed twice: the member that was killed had just committed. "
            "Up to a second of its work might have been repeated."
        )
    return f"{verdict.written:,} orders were written: `{missing}`. {repeated}"
