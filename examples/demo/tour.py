"""The tour, chapter by chapter."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from examples.demo.company import Company, DemoMember, MemberSettings
from examples.demo.history import show_history
from examples.demo.ledger import OrderVerdict, in_words
from examples.demo.new_protocol import new_protocol
from examples.demo.orders import Shop
from examples.demo.stage import Stage, Watcher
from rich import box
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import kohort
from kohort.model.errors import KohortError
from kohort.testing import AsyncBroker

TOPIC, GROUP, PARTITIONS = "orders", "order-desk", 6
ARCHIVE = ("pipeline", "archive", "--topics", TOPIC, "--group", "archive", "--values", "json", "--once")
BEST = "select value.item, count(*) sold, round(sum(value.total)) total from orders group by 1"
COUNT = "select count(*) rows, count(distinct value.order) orders from orders"

Answer = dict[str, object]


class Tour:
    """Everything that runs during the tour, and what the tour says about it."""

    def __init__(self, stage: Stage, root: Path, page: Path) -> None:
        self._stage = stage
        self._page = page
        self._broker = AsyncBroker(data=root / "data", configs=_broker_configs(stage.pace.session_ms))
        self._root = root
        self._company: Company
        self._shop: Shop
        self._watcher: Watcher
        self._spark: DemoMember

    async def go(self) -> bool:
        """The whole tour; whether every order was processed, and archived once."""
        async with AsyncExitStack() as running:
            await self._start(running)
            await self._create_a_topic()
            selling = asyncio.create_task(self._shop.open())
            running.callback(selling.cancel)
            await self._three_consumers()
            await self._spark_joins()
            await self._one_leaves_one_comes()
            await self._one_is_killed()
            await new_protocol(self._stage, self._company, self._shop, PARTITIONS)
            await self._close_the_shop(selling)
            verdict = await self._all_leave()
            archiving = asyncio.create_task(self._ask_spark(ARCHIVE, needs_broker=True))
            running.callback(archiving.cancel)
            await self._stage.read(10)
            archived = await self._archive(archiving)
            await show_history(
                self._stage, self._spark, self._broker.bootstrap, self._root / "lake", self._page
            )
            return self._conclude(verdict, archived)

    async def _start(self, running: AsyncExitStack) -> None:
        """What stops again when ``running`` ends, however it ends."""
        await running.enter_async_context(self._broker)
        bootstrap, pace = self._broker.bootstrap, self._stage.pace
        self._company = Company(MemberSettings(bootstrap, TOPIC, GROUP, pace.session_ms, self._root))
        running.push_async_callback(self._company.end)
        admin = await running.enter_async_context(kohort.AsyncAdmin(bootstrap))
        self._shop = Shop(bootstrap, TOPIC, pace.per_second)
        self._watcher = Watcher(self._stage, admin, self._company, self._shop, PARTITIONS)
        self._spark = await self._company.hire("spark", "Spark")  # it takes longest, so it begins now

    async def _create_a_topic(self) -> None:
        self._stage.say(
            """A tour of about four minutes. Everything runs on this machine, and only a
            report stays when it ends; Enter goes on sooner, Ctrl-C stops."""
        )
        self._stage.chapter(
            "A broker and a topic",
            f"""A Kohort broker has started inside this process, on `{self._broker.bootstrap}`, with its
            data in a temporary directory. To any Kafka client it is a Kafka broker. A shop is going to
            write its orders to a topic:""",
        )
        await self._run("topics", "create", TOPIC, "--partitions", str(PARTITIONS))
        await self._stage.read(5)

    async def _three_consumers(self) -> None:
        self._stage.chapter(
            "Three consumers, two libraries, one group",
            f"""Each is a process of its own: two with kafka-python, one with confluent-kafka
            (librdkafka). All say `group.id={GROUP}`, so the broker makes them one group, in which each
            partition has one owner. The shop opens; watch the group form.""",
        )
        await self._company.hire("till-1", "kafka-python")
        await self._company.hire("till-2", "confluent-kafka")
        await self._company.hire("till-3", "kafka-python")
        await self._watcher.until(
            "three members", lambda view: view.is_shared_by("till-1", "till-2", "till-3"), reading=10
        )

    async def _spark_joins(self) -> None:
        self._stage.chapter(
            "A Spark job joins the same group",
            """`spark.readStream.format("kohort")` with `kafka.group.id` makes a query a member: it takes
            its share, sends heartbeats, and commits what Spark has made durable. To the others it is one
            more colleague. (Spark itself needs some seconds to start.)""",
        )
        ready = asyncio.ensure_future(self._spark.answer())
        try:
            await self._watcher.until("Spark to start", lambda _: ready.done())
            await ready
        finally:
            ready.cancel()
        self._spark.tell("join")
        processed = self._company.ledger.processed
        await self._watcher.until(
            "Spark to work with the others",
            lambda view: view.is_shared_by("till-1", "till-2", "till-3", "spark") and processed["spark"] > 0,
            reading=12,
        )

    async def _one_leaves_one_comes(self) -> None:
        self._stage.chapter(
            "One leaves, another one comes",
            """`till-1` is asked to stop (SIGTERM). It commits, says goodbye, and the others have its
            partitions at once. Then `till-4` comes. Each change is a rebalance.""",
        )
        await self._company.members["till-1"].leave()
        await self._watcher.until(
            "three members", lambda view: view.is_shared_by("till-2", "till-3", "spark"), reading=6
        )
        await self._company.hire("till-4", "confluent-kafka")
        await self._watcher.until(
            "four members", lambda view: view.is_shared_by("till-2", "till-3", "till-4", "spark"), reading=6
        )

    async def _one_is_killed(self) -> None:
        self._stage.chapter(
            "One is killed",
            f"""`kill -9` for `till-2`: no goodbye. The broker goes on believing in it for
            `session.timeout.ms`, {self._stage.pace.session_ms / 1_000:g} s. Watch the lag of its
            partitions grow until the session expires. Then the others take over, from the last commit on:
            what it had processed since then is processed again.""",
        )
        await self._company.members["till-2"].kill()
        await self._watcher.until(
            "the others to take over", lambda view: view.is_shared_by("till-3", "till-4", "spark"), reading=10
        )

    async def _close_the_shop(self, selling: "asyncio.Task[None]") -> None:
        self._stage.chapter(
            "Closing time, and why the group rebalanced",
            "The shop closes, and the members work off what is left, until the lag is 0.",
        )
        self._shop.close()
        await selling
        await self._watcher.until("lag 0", lambda view: view.state == "Stable" and view.lag == 0, reading=2)
        self._stage.say("")
        self._stage.say(
            """The broker keeps a journal of every event of a group, with its cause. The last two
            rebalances, the newcomer and the kill, as it tells them:"""
        )
        await self._run("groups", "why", GROUP, "--last", "2")
        await self._stage.read(20)

    async def _all_leave(self) -> OrderVerdict:
        self._stage.chapter(
            "Was every order processed?",
            """All members leave: the Spark job is drained (it finishes its batch, commits, goes), the
            others are stopped. Each has reported what it processed. Against what was written:""",
        )
        await self._stage.wait_for("the members leave", self._leave_one_by_one())
        await self._watcher.settle("an empty group", lambda view: view.state == "Empty")
        verdict = self._company.ledger.verdict(self._shop.written)
        self._show_ledger(verdict)
        return verdict

    async def _leave_one_by_one(self) -> None:
        await self._spark.ask("leave")
        for member in self._company.members.values():
            if member is not self._spark and not member.is_gone:
                await member.leave()

    def _show_ledger(self, verdict: OrderVerdict) -> None:
        ledger = self._company.ledger
        table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)
        for title in ("member", "library"):
            table.add_column(title)
        for title in ("processed", "again"):
            table.add_column(title, justify="right", min_width=9)
        for name, member in self._company.members.items():
            counts = f"{ledger.processed[name]:,}", f"{ledger.repeated[name]:,}"
            table.add_row(Text(name, member.colour), member.library, *counts)
        self._stage.console.print(table)
        self._stage.say(in_words(verdict))

    async def _archive(self, archiving: "asyncio.Task[Answer]") -> int:
        """How many orders the archive has; -1 if it has any of them twice."""
        self._stage.chapter(
            "The same topic as a table",
            """`kohort pipeline archive` lands topics in Parquet, each record exactly once, whatever is
            repeated: a record is known by topic, partition and offset. `make run` keeps such an archive
            beside the broker. Here it runs once:""",
        )
        await self._on_spark(ARCHIVE, archiving)
        for query in (BEST, COUNT):
            command = ("pipeline", "sql", query)
            printed = await self._on_spark(command, asyncio.create_task(self._ask_spark(command)))
        rows, different = (int(number) for number in printed.split()[-2:])
        return different if rows == different else -1

    async def _on_spark(self, command: tuple[str, ...], asked: "asyncio.Task[Answer]") -> str:
        """Show a command that needs Spark, and what it prints."""
        self._stage.show_command(*command, "--to", "archive")
        answer = await self._stage.wait_for("Spark is working", asked)
        printed = str(answer["printed"]).replace(str(self._root / "archive"), "archive")
        self._stage.show_output(printed)
        if answer["code"]:
            raise KohortError(f"`kohort {' '.join(command)}` ended with {answer['code']}")
        return printed

    async def _ask_spark(self, command: tuple[str, ...], *, needs_broker: bool = False) -> Answer:
        """Run a command in the process that has Spark already."""
        broker = ("--bootstrap", self._broker.bootstrap) if needs_broker else ()
        return await self._spark.ask("kohort", *command, "--to", str(self._root / "archive"), *broker)

    async def _run(self, *command: str) -> None:
        await self._stage.run(self._broker.bootstrap, *command)

    def _conclude(self, verdict: OrderVerdict, archived: int) -> bool:
        is_archived = archived == verdict.written
        holds = verdict.holds and is_archived
        lines = Text.assemble(
            _mark(verdict.holds), f" each of {verdict.written:,} orders was processed by the group\n",
            _mark(is_archived), " the archive has each of them exactly once\n",
            *(part for who, what in NEXT for part in ((f"\n{who:19}", "dim"), what)),
        )  # fmt: skip
        self._stage.console.print()
        if self._stage.console.is_terminal:
            colour = "green" if holds else "red"
            self._stage.console.print(Panel(lines, border_style=colour, padding=(1, 2), expand=False))
        else:
            self._stage.console.print(lines, soft_wrap=True)
        return holds


NEXT = (
    ("to try it", "make run"),
    ("you write tests", "docs/howto/testing.md"),
    ("you write programs", "docs/howto/consume.md, examples/README.md"),
    ("you use Spark", "docs/howto/spark-groups.md"),
    ("you run a broker", "docs/howto/run-as-a-service.md"),
    ("how it works", "docs/design/README.md"),
)  # where to go on, for each kind of reader


def _mark(holds: bool) -> tuple[str, str]:
    return ("✓", "bold green") if holds else ("✗ NOT TRUE:", "bold red")


def _broker_configs(session_ms: int) -> dict[str, str | int | bool]:
    """Short sessions, for a tour has no 45 seconds to wait; otherwise the broker is as it always is."""
    return {
        "group.min.session.timeout.ms": min(session_ms, 6_000),
        "group.initial.rebalance.delay.ms": 1_000,
        "group.consumer.min.session.timeout.ms": session_ms,
        "group.consumer.session.timeout.ms": session_ms,
        "group.consumer.min.heartbeat.interval.ms": 500,
        "group.consumer.heartbeat.interval.ms": 500,
    }
