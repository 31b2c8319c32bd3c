"""How long to pause after a failure: Kafka's exponential backoff, with the dice handed in."""

from collections.abc import Callable

from kohort.client.membership.settings import MembershipSettings

Dice = Callable[[], float]
"""A number from 0 (included) to 1 (not included) with every call."""

_LEAST_JITTER = 0.8
_JITTER = 0.4
_MOST_DOUBLINGS = 32


def backoff_ms(failures: int, settings: MembershipSettings, dice: Dice) -> int:
    """The pause after failure number ``failures`` (from 0): doubled each time, spread by 20 %, and capped."""
    first, largest = settings.retry_backoff_ms, settings.retry_backoff_max_ms
    if largest <= first:
        return min(first, largest)
    grown = min(first * 2 ** min(failures, _MOST_DOUBLINGS), largest)
    return min(largest, int(grown * (_LEAST_JITTER + _JITTER * dice())))
