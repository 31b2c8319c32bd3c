"""``kohort groups why``: the last rebalances of a group, from the broker's journal."""

from typing import Annotated

import typer

from kohort.cli.groups.lookup import UnknownGroupError, find_group
from kohort.cli.running import OK
from kohort.cli.screen import show_json
from kohort.cli.session import AsJson, ClusterOptions, on_cluster, talk
from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import GroupInfo

DEFAULT_LAST = 5


@on_cluster
def why(
    where: ClusterOptions,
    name: Annotated[str, typer.Argument(metavar="GROUP", help="Id of the group, even of one that is gone.")],
    last: Annotated[
        int, typer.Option("--last", "-n", metavar="N", min=1, help="How many rebalances to show.")
    ] = DEFAULT_LAST,
    as_json: AsJson = False,
) -> None:
    """Show why a group rebalanced: what started it, who came when, how long it took, what moved."""

    # Telling takes modules that no other command should wait for.
    from kohort.cli.groups.why.journal import NoJournalError, read_story
    from kohort.cli.groups.why.text import show_story
    from kohort.story.as_json import story_json

    async def command(admin: AsyncAdmin) -> int:
        group = await _present(admin, name)
        found = await read_story(admin.cluster, name, last)
        if found is None:
            coordinator = await admin.find_coordinator(name)
            raise NoJournalError(f"broker {coordinator.node_id} at {coordinator.address}")
        story = found.story.last(last)
        if group is None and not story.rebalances and not story.incidents:
            known = {one.group_id for one in await admin.list_groups()}
            raise UnknownGroupError(name, known | found.groups)
        if as_json:
            show_json({**story_json(story), "state": None if group is None else group.state})
        else:
            show_story(story, group, is_all=found.is_all and story is found.story)
        return OK

    talk(where, command)


async def _present(admin: AsyncAdmin, name: str) -> GroupInfo | None:
    try:
        return await find_group(admin, name)
    except UnknownGroupError:
        return None  # the journal may still know it
