"""Spark jobs that are citizens of consumer groups: ``.format("kohort")``, its sessions and its pipelines.

Imports nothing heavy: Spark's helper processes import this package, as do programs that only need names.
``kohort.spark.session``, ``warm_up``, ``drain`` and ``watch_lag`` are imported when first asked for.
"""

from typing import TYPE_CHECKING

from kohort import import_on_demand

if TYPE_CHECKING:
    from kohort.spark.group.drain import drain
    from kohort.spark.lag_events import watch_lag
    from kohort.spark.sessions import session, warm_up

__all__ = ["drain", "session", "warm_up", "watch_lag"]

__getattr__ = import_on_demand(
    __name__,
    {
        "drain": "kohort.spark.group.drain",
        "session": "kohort.spark.sessions",
        "warm_up": "kohort.spark.sessions",
        "watch_lag": "kohort.spark.lag_events",
    },
)
