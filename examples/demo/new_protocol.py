"""The chapter about the new protocol of groups (KIP-848): the same story again, in a second group."""

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from examples.demo.company import Company
from examples.demo.orders import Shop
from examples.demo.stage import Stage, Watcher
from rich import box
from rich.table import Table

import kohort
from kohort.model.errors import KohortError

GROUP = "new-desk"
LIBRARY = "confluent-kafka"


async def new_protocol(stage: Stage, company: Company, shop: Shop, partitions: int) -> None:
    """A newcomer and a kill in a consumer group, and what they cost in both kinds of groups.

    ``company`` is the classic group in which the same has just happened.
    """
    desk = Company(replace(company.place, group=GROUP, protocol="consumer"))
    async with AsyncExitStack() as running:
        running.push_async_callback(desk.end)
        admin = await running.enter_async_context(kohort.AsyncAdmin(company.place.bootstrap))
        watcher = Watcher(stage, admin, desk, shop, partitions)
        await _two_share(stage, desk, watcher)
        await _one_comes_one_is_killed(stage, desk, watcher)
        await _compare(stage, company, desk)


async def _two_share(stage: Stage, desk: Company, watcher: Watcher) -> None:
    stage.chapter(
        "The new protocol",
        f"""Kafka 4 has a second protocol for groups (KIP-848). A client asks for it with one setting,
        `group.protocol=consumer`; the broker then computes the assignment, and members that lose nothing
        never stop. A second group, `{GROUP}`, reads the same orders from the beginning:""",
    )
    for name in ("desk-1", "desk-2"):
        await desk.hire(name, LIBRARY)
    await watcher.until("two members", lambda view: view.is_shared_by("desk-1", "desk-2"), reading=8)


async def _one_comes_one_is_killed(stage: Stage, desk: Company, watcher: Watcher) -> None:
    stage.say("")
    stage.say("The same story: `desk-3` comes. Then `desk-2` is killed, and its session has to expire.")
    await desk.hire("desk-3", LIBRARY)
    await watcher.until("three members", lambda view: view.is_shared_by("desk-1", "desk-2", "desk-3"))
    await desk.members["desk-2"].kill()
    await watcher.until(
        "the others to take over", lambda view: view.is_shared_by("desk-1", "desk-3"), reading=6
    )


async def _compare(stage: Stage, company: Company, desk: Company) -> None:
    stage.say("")
    stage.say("Why it rebalanced, as the journal tells it:")
    await stage.run(desk.place.bootstrap, "groups", "why", GROUP, "--last", "2")
    await stage.read(12)
    costs = [await _costs(each) for each in (company, desk)]
    stage.say("")
    stage.say("What both stories cost, in partition-seconds without an owner:")
    stage.console.print(_table([company.place.protocol, desk.place.protocol], costs))
    stage.say(
        """In a classic group all partitions wait for the slowest member; in the new one, only those
        that move. The partitions of a member that was killed wait for its session in both."""
    )
    await stage.read(10)


async def _costs(company: Company) -> list[float]:
    """The partition-seconds without an owner of the last newcomer, and of the last member that was lost."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kohort.cli.main", "groups", "why", company.place.group),
        *("--last", "20", "--json", "--bootstrap", company.place.bootstrap),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    if process.returncode:
        raise KohortError(f"`kohort groups why --json` ended with {process.returncode}")
    newest_first = json.loads(printed)["rebalances"][::-1]
    return [
        next(one["without_owner_ms"] for one in newest_first if one[change]) / 1_000
        for change in ("members_added", "members_removed")
    ]


def _table(protocols: Sequence[str], costs: Sequence[Sequence[float]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)
    table.add_column("group.protocol")
    for title in ("one comes", "one is killed"):
        table.add_column(title, justify="right", min_width=13)
    for protocol, seconds in zip(protocols, costs, strict=True):
        table.add_row(protocol, *(f"{each:,.1f}" for each in seconds))
    return table
