"""The group lake beside the broker: ``kohort lake run`` from the broker's own groups."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kohort.cli.screen import note
from kohort.cli.up.child import ChildPhase, ChildService, ChildView, own_process
from kohort.cli.up.services import CLIENT, own_command
from kohort.client.admin import AsyncAdmin
from kohort.model.errors import KohortError
from kohort.model.topics import CONSUMER_OFFSETS

_LOOK_SECONDS = 2.0
_MEMORY, _MASTER = "512m", "local[2]"
_HISTORY = ("records", "journal")  # log ends are landed at each trigger, also when no group does anything


@dataclass(slots=True)
class LakeView(ChildView):
    """What is known of the lake; its tables are those of the last refresh."""

    refreshed_at: float | None = None


class LakeService(ChildService[LakeView]):
    """The history of all groups, into a directory of its own.

    Spark is not started before the broker has had a group: there is no history to keep until then.
    """

    name = "lake"
    title = "The history of groups, in SQL and as a page"
    begins = "Spark starts with the first group"
    stop_seconds = 20.0  # it makes its tables a last time: without that they lack the last minute

    def command(self) -> Sequence[str]:
        options = {
            "--from": self._bootstrap(),
            "--to": str(self.directory),
            "--master": _MASTER,
            "--memory": _MEMORY,
        }
        return own_process(["lake", "run"], options)

    def examples(self) -> list[str]:
        return [self.query(), f"{own_command()} lake report --to {self.where}"]

    async def stop(self) -> None:
        if self.view.phase is ChildPhase.RUNNING:
            note("the lake makes its tables a last time …")
        await super().stop()

    def query(self) -> str:
        return f'{own_command()} lake query --to {self.where} "select * from rebalances"'

    def _first_view(self) -> LakeView:
        return LakeView()

    async def _until_needed(self) -> None:
        self._show(ChildPhase.WAITING)
        async with AsyncAdmin(self._bootstrap(), CLIENT) as admin:
            while not await _has_groups(admin):  # noqa: ASYNC110  # the broker is asked as any client would
                await asyncio.sleep(_LOOK_SECONDS)
        self._show(ChildPhase.STARTING)

    def _heard(self, event: dict[str, object]) -> None:
        match event:
            case {"event": "started"}:
                self._show(ChildPhase.RUNNING)
            case {"event": "landed", "rows": dict(rows)}:
                self._landed(sum(rows.get(table, 0) for table in _HISTORY))
            case {"event": "refreshed"}:
                self.view.refreshed_at = time.monotonic()
                self._show(ChildPhase.RUNNING)


async def _has_groups(admin: AsyncAdmin) -> bool:
    """Whether there is a topic of groups; a broker that does not answer is asked again later."""
    try:
        return any(topic.name == CONSUMER_OFFSETS for topic in await admin.list_topics())
    except (KohortError, OSError):
        return False
