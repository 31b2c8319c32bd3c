"""What a group did with the records of its topics, and whether that was right.

The rules, for any group whose members commit what they have processed and nothing else:

* a partition has one owner at a time, and only its owner gets its records;
* an owner starts at the last acknowledged commit and goes on without a gap, so nothing is skipped,
  and what is processed twice lies between the last commit and the rebalance or crash that followed
  (a member that is given back what it had may also go on where it was: kafka-python does, even if
  somebody else had it meanwhile, in a generation whose join it dropped);
* a committed offset never goes back.

Libraries report on threads of their own, so what breaks a rule is noted here and raised by ``check``.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.clients.libraries import Got, ReadPartition


class Change(NamedTuple):
    """A member was given partitions, or gave them up."""

    member: str
    what: str  # "assigned" or "revoked"
    places: tuple[ReadPartition, ...]


class Ledger:
    """Watches every member of one group."""

    def __init__(self) -> None:
        self.owners: dict[ReadPartition, str] = {}
        self.acknowledged: dict[ReadPartition, int] = {}
        self.changes: list[Change] = []
        self.before_each_change: list[Callable[[], None]] = []  # reports that may still lie in a pipe
        self._uncertain: dict[
            ReadPartition, int
        ] = {}  # commits that were sent; nobody knows (yet) if they count
        self._next: dict[ReadPartition, int | None] = {}
        self._reached: dict[
            tuple[ReadPartition, str], int
        ] = {}  # how far each member got when it last had records
        self._seen: defaultdict[ReadPartition, Counter[int]] = defaultdict(Counter)
        self._violations: list[str] = []
        self._lock = threading.RLock()

    # What members report

    def assigned(self, member: str, places: Iterable[ReadPartition]) -> None:
        self._read_reports()
        with self._lock:
            given = tuple(sorted(places))
            self.changes.append(Change(member, "assigned", given))
            for place in given:
                owner = self.owners.get(place)
                if owner is not None:
                    self._violations.append(f"{member} was given {place}, which {owner} has")
                self.owners[place] = member
                self._next[place] = None

    def revoked(self, member: str, places: Iterable[ReadPartition]) -> None:
        self._read_reports()
        with self._lock:
            given_up = tuple(sorted(places))
            self.changes.append(Change(member, "revoked", given_up))
            for place in given_up:
                # kafka-python says it twice when it closes while it joins again.
                if self.owners.get(place) == member:
                    del self.owners[place]

    def consumed(self, member: str, records: Sequence[Got]) -> None:
        for record in records:
            self.processed(member, record.place, record.offset)

    def processed(self, member: str, place: ReadPartition, offset: int) -> None:
        with self._lock:
            if self.owners.get(place) != member:
                owner = self.owners.get(place)
                self._violations.append(f"{member} got {offset} of {place}, which {owner} has")
            following = self._next.get(place)
            if following is None:
                self._check_start(member, place, offset)
            elif offset != following:
                self._violations.append(f"{member} got {offset} of {place} instead of {following}")
            self._next[place] = offset + 1
            self._reached[place, member] = offset + 1
            self._seen[place][offset] += 1

    def vanished(self, member: str) -> None:
        """The member died without a word."""
        with self._lock:
            self.owners = {place: owner for place, owner in self.owners.items() if owner != member}

    # Commits

    def positions(self, member: str) -> dict[ReadPartition, int]:
        """What a member may commit: everything it has processed."""
        with self._lock:
            owned = [place for place, owner in self.owners.items() if owner == member]
            found = {place: self._next.get(place) for place in owned}
            return {place: offset for place, offset in found.items() if offset is not None}

    def committing(self, offsets: Mapping[ReadPartition, int]) -> None:
        with self._lock:
            self._uncertain.update(offsets)

    def refused(self, offsets: Mapping[ReadPartition, int]) -> None:
        with self._lock:
            for place in offsets:
                self._uncertain.pop(place, None)

    def committed(self, offsets: Mapping[ReadPartition, int]) -> None:
        with self._lock:
            for place, offset in offsets.items():
                before = self.acknowledged.get(place, 0)
                if offset < before:
                    self._violations.append(f"the commit of {place} went back from {before} to {offset}")
                self.acknowledged[place] = offset
                if self._uncertain.get(place, 0) <= offset:
                    self._uncertain.pop(place, None)

    # What tests ask

    def check(self) -> None:
        """No rule was broken so far."""
        with self._lock:
            assert not self._violations, "\n".join(self._violations[:10])

    def is_complete(self, expected: Mapping[ReadPartition, int]) -> bool:
        """Every record was processed: ``expected`` says how many each partition has."""
        with self._lock:
            return all(len(self._seen[place]) >= count for place, count in expected.items())

    def check_complete(self, expected: Mapping[ReadPartition, int]) -> None:
        """Every record was processed, in the end, and no rule was broken on the way."""
        self.check()
        with self._lock:
            for place, count in expected.items():
                missing = sorted(set(range(count)) - set(self._seen[place]))
                assert not missing, f"{len(missing)} records of {place} were skipped: {missing[:10]}"

    def count(self) -> int:
        """How many different records were processed."""
        with self._lock:
            return sum(map(len, self._seen.values()))

    def repeated(self) -> int:
        """How many records were processed more than once."""
        with self._lock:
            return sum(times > 1 for counter in self._seen.values() for times in counter.values())

    def by_member(self) -> dict[str, set[ReadPartition]]:
        """Who has what now."""
        with self._lock:
            shares: defaultdict[str, set[ReadPartition]] = defaultdict(set)
            for place, owner in self.owners.items():
                shares[owner].add(place)
            return dict(shares)

    def _check_start(self, member: str, place: ReadPartition, offset: int) -> None:
        earliest = self.acknowledged.get(place, 0)
        latest = max(earliest, self._uncertain.get(place, 0))
        if not earliest <= offset <= latest and self._reached.get((place, member)) != offset:
            history = [f"{one.member} {one.what}" for one in self.changes if place in one.places]
            self._violations.append(
                f"{member} started {place} at {offset}; the last commit is {earliest} (or {latest}), "
                f"it had reached {self._reached.get((place, member))}: {', '.join(history)}"
            )

    def _read_reports(self) -> None:
        for read in self.before_each_change:
            read()
