"""Warnings that a peer can cause as often as it likes: each one once a minute, a few in all, then a count."""

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kohort.broker.clock import Clock
from kohort.model.ids import Instant
from kohort.model.topics import CONSUMER_OFFSETS, INTERNAL_TOPICS

if TYPE_CHECKING:
    from kohort.broker.context import Context

_dispatch = logging.getLogger("kohort.dispatch")

WINDOW_MS = 60_000
_MOST_KEYS = 1_000  # that are counted apart; more share one count


@dataclass(slots=True)
class _Window:
    logger: logging.Logger
    level: int
    logged: set[str] = field(default_factory=set)
    left_out: int = 0
    last: str = ""  # of those left out


class Notices:
    """Logs the first warnings about something; after a minute, or at the end, how many more there were."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: dict[str, _Window] = {}

    def warn(  # noqa: PLR0913  # where, about what, what, and how loud
        self,
        logger: logging.Logger,
        about: str,
        text: str,
        *,
        at_most: int = 1,
        reason: str = "",
        level: int = logging.WARNING,
    ) -> None:
        """Log ``text``, unless its reason, or as many others about the same, were logged in this minute.

        Without a ``reason`` the text is one.
        """
        if about not in self._windows and len(self._windows) >= _MOST_KEYS:
            about = "others"
        window = self._windows.get(about)
        if window is None:
            window = self._windows[about] = _Window(logger, level)
            end = Instant(self._clock.now().instant + WINDOW_MS)
            self._clock.call_at(end, lambda: self._close(about))
        reason = reason or text
        if reason not in window.logged and len(window.logged) < at_most:
            window.logged.add(reason)
            logger.log(level, "%s", text)
        else:
            window.left_out += 1
            window.last = text

    def refused(self, context: "Context", feature: str, advice: str) -> None:
        """A client asked for a feature that is not there."""
        host = context.client_host[1:]
        text = f"refused {context} at {host}: there are no {feature} here; {advice}"
        self.warn(_dispatch, f"requests of {host} for {feature}", text)

    def close(self) -> None:
        """The broker stops: say what was counted and not said yet."""
        for about in list(self._windows):
            self._close(about)

    def _close(self, about: str) -> None:
        window = self._windows.pop(about, None)
        if window is not None and window.left_out:
            text = "%s: %d more in the last minute, not logged one by one; the last: %s"
            window.logger.log(window.level, text, about, window.left_out, window.last)


def warn_internal(context: "Context", topic: str | None, change: str) -> None:
    """A client changes an internal topic, which Kafka allows, too: log who it is, and what depends on it."""
    if topic in INTERNAL_TOPICS:
        meaning = (
            "groups and committed offsets depend on it"
            if topic == CONSUMER_OFFSETS
            else "the history of groups is in it"
        )
        host = context.client_host[1:]
        _dispatch.warning("%s at %s %s the internal topic %s: %s", context, host, change, topic, meaning)
