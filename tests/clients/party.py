"""A group of real clients, driven by one test: members come, work, commit and go under the ledger's eyes."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from types import TracebackType
from typing import Self

from tests.clients.child import Child
from tests.clients.ledger import Ledger
from tests.clients.libraries import POLL_SECONDS, Library, Member, Membership, NotCommittedError
from tests.clients.waiting import PATIENCE_SECONDS, Deadline


class Party:
    """The members of one group that live in the test's process."""

    def __init__(self, bootstrap: str) -> None:
        self.ledger = Ledger()
        self._bootstrap = bootstrap
        self._members: dict[str, Member] = {}
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            for name in list(self._members):
                self.leave(name)
            self.ledger.check()
        for left_over in self._workers():
            left_over.close()

    def join(self, library: Library, membership: Membership) -> Member:
        """A new member; it works whenever the party polls."""
        member = library.join(self._bootstrap, membership, self.ledger)
        self._members[membership.name] = member
        return member

    def add(self, child: Child) -> None:
        """A member in a process of its own; it is polled with the others, and commits by itself."""
        self._children.append(child)

    def kill(self, child: Child) -> None:
        self._children.remove(child)
        child.kill()

    def has(self, name: str) -> bool:
        return name in self._members

    def leave(self, name: str) -> None:
        """Close a member: it leaves the group, unless it is static. Nothing is committed.

        The others go on meanwhile: one that has just asked to join again can only leave when they have, too.
        """
        member = self._members.pop(name)
        with ThreadPoolExecutor(1) as executor:
            closing = executor.submit(member.close)
            self.until(f"{name} to close", lambda: bool(wait([closing], POLL_SECONDS).done))
            closing.result()

    def leave_together(self) -> None:
        """Close all at once, as static members should: whoever is late would wait for those who are gone."""
        members, self._members = self._members, {}
        with ThreadPoolExecutor(len(members)) as executor:
            for closing in [executor.submit(member.close) for member in members.values()]:
                closing.result()

    def commit(self, name: str) -> None:
        """Commit all a member has processed. A refusal is an answer: the ledger knows it does not count."""
        offsets = self.ledger.positions(name)
        if not offsets:
            return
        self.ledger.committing(offsets)
        try:
            self._members[name].commit(offsets)
        except NotCommittedError as error:
            if not error.maybe:
                self.ledger.refused(offsets)
        else:
            self.ledger.committed(offsets)

    def commit_all(self) -> None:
        for name in list(self._members):
            self.commit(name)

    def until(
        self,
        wanted: str,
        condition: Callable[[], bool],
        *,
        committing: bool = False,
        seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Poll every member in turn, and let all commit in between if asked, until something holds."""
        deadline = Deadline(wanted, seconds)
        while not condition():
            deadline.check(f"the members have {self.ledger.by_member()}")
            for worker in self._workers():
                worker.poll()
            if committing:
                self.commit_all()
            self.ledger.check()

    def until_work(self, records: int) -> None:
        """Poll until so many more records were processed for the first time."""
        goal = self.ledger.count() + records
        self.until(f"{records} more records", lambda: self.ledger.count() >= goal)

    def until_shared(self, *names: str, places: int) -> None:
        """Poll until these members, and nobody else, have all the partitions between them, fairly."""
        share, more = divmod(places, len(names))
        sizes = [share] * (len(names) - more) + [share + 1] * more

        def shared() -> bool:
            shares = self.ledger.by_member()
            return set(shares) == set(names) and sorted(map(len, shares.values())) == sizes

        # Not the first moment when all have an owner: a cooperative group balances in several rebalances.
        self.until(f"{places} partitions shared by {', '.join(names)}", shared)

    def _workers(self) -> list[Member | Child]:
        return [*self._members.values(), *self._children]
