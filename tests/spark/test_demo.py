"""The guided tour: its parts as plain objects, and the whole of it as ``make demo`` would run it."""

import asyncio
import io
import re
import subprocess
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from examples.demo import company as company_module
from examples.demo.company import Company, DemoMember, MemberDiedError, MemberSettings
from examples.demo.ledger import Done, OrderLedger, in_words
from examples.demo.orders import GOODS, orders
from examples.demo.tour import NEXT
from examples.demo.view import GroupView, SharedPartition, draw, line
from rich.console import Console
from tests.spark.test_submit import without_java

ROOT = Path(__file__).parents[2]


def done(*numbers: int) -> list[Done]:
    return [Done(0, number, number) for number in numbers]


def test_the_verdict_holds_when_every_order_was_processed_at_least_once() -> None:
    ledger = OrderLedger()
    ledger.note("a", done(0, 1))
    ledger.note("b", done(1, 2, 3))
    verdict = ledger.verdict(written=4)
    assert verdict.holds
    assert verdict.repeated == ledger.repeated["b"] == 1
    assert "`none missing`. 1 were processed a second time" in in_words(verdict)
    assert ledger.processed == {"a": 2, "b": 3}


def test_an_order_that_nobody_processed_is_missing() -> None:
    ledger = OrderLedger()
    ledger.note("a", done(0, 2, 2))
    verdict = ledger.verdict(written=4)
    assert verdict.missing == (1, 3)
    assert "`2 missing`" in in_words(verdict)
    assert not verdict.holds


def test_an_order_that_nobody_wrote_breaks_the_verdict() -> None:
    ledger = OrderLedger()
    ledger.note("a", done(0, 7))
    verdict = ledger.verdict(written=1)
    assert verdict.unknown == (7,)
    assert "None was processed twice" in in_words(verdict)
    assert not verdict.holds


def test_what_to_read_next_exists() -> None:
    pages = [page for _, what in NEXT for page in re.findall(r"[\w/-]+\.md", what)]
    assert len(pages) >= len(NEXT) - 1
    assert [page for page in pages if not (ROOT / page).exists()] == []


def test_orders_are_the_same_every_time_and_keep_all_partitions_busy() -> None:
    from kohort.client.producer.records import partition_for_key

    some = list(islice(orders(), 500))
    assert some == list(islice(orders(), 500))
    assert {partition_for_key(key, 6) for key, _ in some} == set(range(6))
    assert all(any(item.encode() in value for item in GOODS) for _, value in some)


VIEW = GroupView(
    "Stable",
    ("till-1", "spark"),
    (
        SharedPartition(0, "spark", 5, 9),
        SharedPartition(1, "till-1", 7, 7),
        SharedPartition(2, "till-1", 0, 30),
    ),
)


def test_a_group_is_shared_when_its_members_have_all_partitions_between_them() -> None:
    assert VIEW.is_shared_by("till-1", "spark")
    assert not VIEW.is_shared_by("till-1")
    assert not VIEW.is_shared_by("till-1", "spark", "till-2")
    nobody = GroupView("Stable", VIEW.members, (*VIEW.partitions, SharedPartition(3, None, 0, 0)))
    assert not nobody.is_shared_by("till-1", "spark")
    assert not GroupView("PreparingRebalance", VIEW.members, VIEW.partitions).is_shared_by("till-1", "spark")


def test_a_group_is_told_in_one_line() -> None:
    assert line(VIEW) == "Stable: spark 0, till-1 1 2; lag 34"
    assert line(GroupView("Empty", (), ())) == "Empty: no members; lag 0"


def test_the_picture_shows_members_and_lag(tmp_path: Path) -> None:
    company = Company(MemberSettings("127.0.0.1:1", "orders", "order-desk", 6_000, tmp_path))
    for name, library in (("till-1", "kafka-python"), ("till-2", "confluent-kafka"), ("spark", "Spark")):
        company.members[name] = DemoMember(name, library, "green", company.ledger)
    company.ledger.note("till-2", done(1))
    drawn = io.StringIO()
    Console(file=drawn, width=80).print(draw(VIEW, company, written=46))
    lines = [" ".join(text.split()) for text in drawn.getvalue().splitlines()]
    assert "group order-desk classic Stable orders written 46 lag 34" in lines
    assert "till-1 kafka-python 1 2 0" in lines
    assert "till-2 confluent-kafka gone 1" in lines
    assert "2 till-1 0 30 30 ████████████████████" in lines
    assert "0 spark 5 9 4 ███" in lines


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Company:
    """A company whose members run a program of this text."""
    (tmp_path / "member.py").write_text(text)
    monkeypatch.setitem(company_module.LIBRARIES, "Spark", str(tmp_path / "member.py"))
    return Company(MemberSettings("127.0.0.1:1", "orders", "order-desk", 6_000, tmp_path))


@pytest.mark.slow
def test_what_a_member_told_before_it_was_killed_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = """import sys
print('[[0, 0, 7], [0, 1, 8]]\\n{"ready": true}\\n[[0, 2,', end="", flush=True)
sys.stdin.read()"""

    async def play() -> Company:
        company = program(tmp_path, monkeypatch, told)
        member = await company.hire("spark", "Spark")
        assert await member.answer() == {"ready": True}
        company.check()
        await member.kill()
        company.check()  # it is gone because we wanted that
        return company

    company = asyncio.run(play())
    assert company.ledger.processed == {"spark": 2}


@pytest.mark.slow
def test_a_member_that_ends_by_itself_ends_the_tour_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        company = program(tmp_path, monkeypatch, "raise SystemExit('no brokers here')")
        member = await company.hire("spark", "Spark")
        with pytest.raises(MemberDiedError, match="has ended by itself: no brokers here"):
            await member.answer()
        await member.end()

    asyncio.run(play())


@pytest.mark.interop  # nothing beyond PyPI, but it takes a minute
@pytest.mark.timeout(600)
def test_the_tour_ends_well_without_java_and_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = without_java(tmp_path / "tools") | {"TMPDIR": str(tmp_path)}
    tour = subprocess.run(
        [sys.executable, "-m", "examples.demo", "--fast", "--report", str(tmp_path / "report.html")],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tour.returncode == 0, tour.stdout + tour.stderr
    assert re.search(r"[\d,]+ orders were written: none missing", tour.stdout)
    assert re.search(r"session of till-2-…\w+ expired", tour.stdout)
    assert re.search(
        r"^ ?classic +[\d.,]+ +[\d.,]+ *\n ?consumer +[\d.,]+ +[\d.,]+", tour.stdout, re.MULTILINE
    )
    assert "✓ the archive has each of them exactly once" in tour.stdout
    rebalances = re.findall(r"^order-desk +\d+ +(\w+) +\d+ +\d+ +\d+", tour.stdout, re.MULTILINE)
    assert {"MemberArrived", "MemberLeft", "SessionExpired"} <= set(rebalances), tour.stdout
    assert "order-desk" in (tmp_path / "report.html").read_text()
    assert "\x1b" not in tour.stdout, "plain lines where there is no terminal"
    assert not list(tmp_path.glob("kohort-demo-*"))
    address = re.search(r"127\.0\.0\.1:\d+", tour.stdout)
    assert address
    assert not processes_told(address[0])


def processes_told(address: str) -> list[str]:
    """The command lines that name an address: all members are told the broker's."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # gone meanwhile
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if address in line]
