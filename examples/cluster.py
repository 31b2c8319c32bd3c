"""``make cluster``, or ``python -m examples.cluster``: three nodes on one PostgreSQL, and who leads what.

A producer writes and a group of two consumers reads all the time. Type a command and Enter: ``kill 2``,
``pause 2``, ``resume 2``, ``stop 2``, ``start 2``, ``add``, ``crash`` (PostgreSQL) or
``quit``. Nothing of this is kept.
"""

import argparse
import asyncio
import queue
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

import kohort
from kohort.log.postgres.connections import FAULTS, Database
from kohort.log.postgres.overview import Overview, look
from kohort.model.errors import KohortError
from kohort.testing import Cluster

TOPIC, GROUP = "orders", "billing"
PARTITIONS = 12
CONFIGS = {"offsets.topic.num.partitions": 12, "group.initial.rebalance.delay.ms": 500}
HELP = "type: kill N, pause N, resume N, stop N, start N, add, crash, quit"


class ClusterWork:
    """A producer and two consumers on threads of their own, and what they have seen."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._produce), *map(self._consumer, range(2))]
        self.acknowledged = 0
        self.consumed: set[bytes] = set()
        self.longest_wait_s = 0.0

    def _consumer(self, _number: int) -> threading.Thread:
        return threading.Thread(target=self._consume)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _produce(self) -> None:
        with kohort.Producer(bootstrap_servers=self._bootstrap) as producer:
            while not self._ending.is_set():
                begun = time.monotonic()
                producer.send(TOPIC, b"order %d" % self.acknowledged, key=b"%d" % self.acknowledged).result()
                self.acknowledged += 1
                self.longest_wait_s = max(self.longest_wait_s, time.monotonic() - begun)
                self._ending.wait(0.01)

    def _consume(self) -> None:
        with kohort.Consumer(
            TOPIC, bootstrap_servers=self._bootstrap, group_id=GROUP, auto_offset_reset="earliest"
        ) as consumer:
            while not self._ending.is_set():
                for records in consumer.poll(200).values():
                    self.consumed.update(record.value or b"" for record in records)


class ClusterStage:
    """The cluster, the work on it, and the commands of the person who watches."""

    def __init__(self, cluster: Cluster, url: str, work: ClusterWork) -> None:
        self._cluster = cluster
        self._database = Database.parse(url)
        self._work = work
        self.said = Text(HELP, "dim")

    def obey(self, command: str) -> bool:
        """Carry out a command; False if it is the last one."""
        name, _, number = command.strip().partition(" ")
        if name in ("q", "quit", "exit"):
            return False
        try:
            if name == "add":
                self.said = Text(f"node {self._cluster.add_node().node_id} is there", "green")
            elif name == "crash":
                self._cluster.postgres.restart(crash=True)
                self.said = Text("PostgreSQL crashed and is back", "green")
            elif name in ("kill", "pause", "resume", "stop", "start"):
                getattr(self._cluster.node(int(number)), name)()
                self.said = Text(f"{name} {number}: done", "green")
            elif name:
                self.said = Text(f"unknown command {name!r}: {HELP}", "red")
        except (KohortError, AssertionError, StopIteration, ValueError) as error:
            self.said = Text(f"{command.strip()}: {str(error) or 'there is no such node'}", "red")
        return True

    def picture(self) -> Group:
        """All that is on the screen: 80 columns, 12 lines with three nodes."""
        try:
            found: Overview | None = asyncio.run(look(self._database))
        except FAULTS:
            found = None
        work = self._work
        facts = Text.assemble(
            ("acknowledged ", "dim"), f"{work.acknowledged:,}",
            ("   consumed ", "dim"), f"{len(work.consumed):,}",
            ("   longest wait for an acknowledgement ", "dim"), f"{work.longest_wait_s:.1f} s",
        )  # fmt: skip
        return Group(self._nodes(found), facts, self.said)

    def _nodes(self, found: Overview | None) -> Table:
        table = Table(title=f"{len(self._cluster.nodes)} nodes, one PostgreSQL", title_justify="left")
        for title in ("node", "process", "address", "state", "leads", "loading"):
            table.add_column(title, justify="right" if title in ("node", "leads", "loading") else "left")
        known = {each.node_id: each for each in found.nodes if each.is_alive} if found is not None else {}
        for node in self._cluster.nodes:
            seen = known.get(node.node_id)
            process = str(node.pid) if node.is_running else "-"
            numbers = ("-", "-") if seen is None else (str(seen.led), str(seen.loading))
            table.add_row(
                str(node.node_id), process, node.bootstrap, self._state(node.node_id, found), *numbers
            )
        if found is not None and found.orphans:
            table.add_row("", "", "without a leader", "", str(found.orphans), "", style="red")
        return table

    def _state(self, node_id: int, found: Overview | None) -> Text:
        node = self._cluster.node(node_id)
        if found is None:
            return Text("no database", "red")
        seen = next((each for each in found.nodes if each.node_id == node_id and each.is_alive), None)
        if not node.is_running:
            return Text("dead" if seen is None else "killed, lease lasts", "red")
        if not node.answers:
            return Text("paused, taken for dead" if seen is None else "paused", "yellow")
        return Text(seen.state, "green") if seen is not None else Text("begins again", "yellow")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--commands", default="", help="commands to begin with, separated by ;")
    options = parser.parse_args(arguments)
    print("starting PostgreSQL and the nodes", flush=True)
    try:
        with ExitStack() as stack:
            cluster = stack.enter_context(Cluster(options.nodes, configs=CONFIGS))
            cluster.create_topic(TOPIC, partitions=PARTITIONS)
            work = stack.enter_context(ClusterWork(cluster.bootstrap))
            watch(ClusterStage(cluster, cluster.postgres.url, work), options.commands.split(";"))
    except KohortError as error:
        print(f"kohort: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    print(f"acknowledged {work.acknowledged:,}, consumed {len(work.consumed):,}")
    return 0


def watch(stage: ClusterStage, commands: Sequence[str]) -> None:
    """Show the cluster until ``quit`` or the end of the input."""
    typed: queue.SimpleQueue[str] = queue.SimpleQueue()
    for command in commands:
        typed.put(command)
    threading.Thread(target=_read, args=(typed,), daemon=True).start()
    with Live(stage.picture(), console=Console(), refresh_per_second=4, screen=sys.stdout.isatty()) as live:
        while True:
            try:
                if not stage.obey(typed.get(timeout=0.5)):
                    return
                if not live.console.is_terminal:  # which shows the last picture only
                    live.console.print(stage.said)
            except queue.Empty:
                pass
            live.update(stage.picture())


def _read(typed: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        typed.put(line)
    typed.put("quit")


if __name__ == "__main__":
    sys.exit(main())
