"""Administration: ``Admin`` for programs without an event loop, ``AsyncAdmin`` for those with one."""

from typing import TYPE_CHECKING

from kohort import import_on_demand

if TYPE_CHECKING:
    from kohort.client.admin.async_admin import AsyncAdmin
    from kohort.client.admin.sync_admin import Admin

__all__ = ["Admin", "AsyncAdmin"]

__getattr__ = import_on_demand(
    __name__,
    {"Admin": "kohort.client.admin.sync_admin", "AsyncAdmin": "kohort.client.admin.async_admin"},
)
