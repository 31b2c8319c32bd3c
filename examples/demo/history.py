"""The last chapter: what the tour has shown, as tables and as a page that stays."""

from pathlib import Path

from examples.demo.company import DemoMember
from examples.demo.stage import Stage

from kohort.model.errors import KohortError

REBALANCES = (
    "select group_id, gen_to generation, trigger, members_before `before`, members_after `after`, "
    "partitions_moved moved, partitions_idle_ms idle_ms from rebalances order by start_ts"
)


async def show_history(stage: Stage, spark: DemoMember, bootstrap: str, lake: Path, page: Path) -> None:
    """Fill a lake from the broker, ask it about the rebalances, and write the report to ``page``."""
    stage.chapter(
        "All that has happened, as a page",
        """Commits, members and the causes of rebalances are in the broker's own topics. `kohort lake` makes
        tables of them, from any Kafka cluster; `make run` keeps them up to date. Here it runs once:""",
    )
    for command in (
        ("lake", "backfill", "--from", bootstrap),
        ("lake", "query", REBALANCES),
        ("lake", "report", "--out", str(page)),
    ):
        stage.show_command(*command, "--to", lake.name)
        answer = await stage.wait_for("Spark is working", spark.ask("kohort", *command, "--to", str(lake)))
        stage.show_output(str(answer["printed"]))
        if answer["code"]:
            raise KohortError(f"`kohort {' '.join(command)}` ended with {answer['code']}")
    stage.say("")
    stage.say(f"`{page}` stays when the tour is over. Open it in a browser.")
    await stage.read(10)
