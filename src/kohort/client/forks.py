"""Whether a client is still in the process that started it: its threads do not follow into a forked one.

Counted instead of asked for, because asking the operating system takes longer than sending a record.
"""

import os

from kohort.model.errors import KohortError

_forks = [0]  # between the first process and this one


def _note_fork() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


class ForkedError(KohortError):
    """The client belongs to the process this one was forked from."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the {what} belongs to the process this one was forked from",
            hint=f"make a {what} in the process that uses it",
        )


class Home:
    """The process in which this was made."""

    __slots__ = ("_forks", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._forks = _forks[0]

    @property
    def is_left(self) -> bool:
        return self._forks != _forks[0]

    def check(self) -> None:
        """ForkedError in any other process."""
        if self._forks != _forks[0]:
            raise ForkedError(self._what)
