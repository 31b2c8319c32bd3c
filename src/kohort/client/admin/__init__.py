"""Administration: ``Admin`` for programs without an event loop, ``AsyncAdmin`` for those with one."""

from typing import TYPE_CHECKING

from kohort import import_on_demand

if TYPE_CHECKING:
    from kohort.client.admin.clients import Admin, AsyncAdmin

__all__ = ["Admin", "AsyncAdmin"]

__getattr__ = import_on_demand(
    __name__,
    {"Admin": "kohort.client.admin.clients", "AsyncAdmin": "kohort.client.admin.clients"},
)
