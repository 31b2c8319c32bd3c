"""What commands print."""

import io
import json
import sys

import pytest

from kohort.cli.screen import (
    Column,
    TextTable,
    broken,
    column_widths,
    fitted,
    note,
    plain_lines,
    say,
    shortened,
    show_bytes,
    show_facts,
    show_json,
    show_table,
)

TABLE = TextTable((Column("topic"), Column("size", True)), (("orders", "5 B"), ("x", "1.5 KiB")))


class Terminal(io.StringIO):
    """A standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    monkeypatch.setattr(sys, "stdout", made)
    return made


def test_into_a_pipe_a_table_is_plain_columns_with_numbers_to_the_right() -> None:
    assert list(plain_lines(TABLE)) == ["TOPIC      SIZE", "orders      5 B", "x       1.5 KiB"]


def test_a_long_cell_is_never_cut_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(TextTable((Column("a"),), (("x" * 500,),)), empty="")
    assert "x" * 500 in capsys.readouterr().out


def test_on_a_terminal_a_table_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    show_table(TABLE, empty="")
    text = terminal.getvalue()
    assert "─" in text
    assert "orders" in text


def test_a_number_is_not_broken_however_narrow_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    terminal = on_terminal(monkeypatch)
    numbers = [Column(title, True) for title in ("current-offset", "log-end-offset", "lag")]
    row = ("a-group-with-a-long-name", "orders", "1234567", "7654321", "6419754", "consumer-1-" + "f" * 36)
    show_table(
        TextTable([Column("group"), Column("topic"), *numbers, Column("consumer-id")], [row]), empty=""
    )
    assert {"1234567", "7654321", "6419754"} <= set(terminal.getvalue().split())


WIDE = TextTable(
    [Column("group", rank=3), Column("topic"), Column("lag", True), Column("host", rank=4), Column("id")],
    [("billing", "orders", "1234567", "10.0.0.1", "x" * 40)],
)


@pytest.mark.parametrize(("width", "left_out"), [(80, []), (55, ["host"]), (45, ["host", "group"])])
def test_a_narrow_terminal_leaves_out_the_highest_ranks_and_names_them(
    width: int, left_out: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", "24")  # without both, Rich takes a dumb terminal to have 80 columns
    monkeypatch.setenv("TERM", "dumb")  # no colours
    terminal = on_terminal(monkeypatch)
    show_table(WIDE, empty="")
    lines = terminal.getvalue().splitlines()
    heads = next(line.split() for line in lines if "topic" in line)
    assert heads == [column.title for column in WIDE.columns if column.title not in left_out]
    assert max(map(len, lines)) <= width
    assert f"no room for: {', '.join(left_out)} " in capsys.readouterr().err or not left_out


STATE = TextTable(
    [
        Column("group"),
        Column("coordinator (id)"),
        Column("assignment-strategy"),
        Column("state"),
        Column("#members", True),
    ],
    [("billing-service-production", "127.0.0.1:19211 (1)", "cooperative-sticky", "Stable", "12")],
)


@pytest.mark.parametrize("width", [20, 70, 80, 200])
def test_no_title_and_no_number_is_broken_and_the_widest_text_gives_way_first(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("TERM", "dumb")
    terminal = on_terminal(monkeypatch)
    show_table(STATE, empty="")
    text = terminal.getvalue()
    assert [title for title in (one.title for one in STATE.columns) if title in text] == [
        one.title for one in STATE.columns
    ]
    assert "12" in text.split()
    widths = column_widths(STATE, width)
    assert widths[0] == {20: 5, 70: 7, 80: 16, 200: 26}[width]
    assert widths[4] == len("#members")


@pytest.mark.parametrize(
    ("name", "width", "short"),
    [
        ("billing-1", 9, "billing-1"),
        ("billing-worker-1-5f3c77ab", 12, "billing…77ab"),
        ("billing-worker-1-…77ab", 12, "billing…77ab"),
    ],
)
def test_an_id_keeps_the_end_that_tells_it_from_others(name: str, width: int, short: str) -> None:
    assert shortened(name, width) == short


@pytest.mark.parametrize("width", range(20, 80, 7))
def test_whatever_the_width_a_title_is_not_broken(width: int) -> None:
    table, left_out = fitted(WIDE, width)
    assert {column.title for column in table.columns} | set(left_out) == {one.title for one in WIDE.columns}
    assert [len(row) for row in table.rows] == [len(table.columns)]


def test_a_note_is_broken_between_words() -> None:
    assert broken("short", 80) == "short"
    assert broken("one two-three /a/very/long/path", 10) == "one\ntwo-three\n/a/very/long/path"


def test_text_of_others_is_never_taken_for_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    show_table(TextTable((Column("a"),), (("[bold]x[/nonsense]",),)), empty="")
    show_facts("[red]", [("[a]", "[b]")])
    assert "[bold]x[/nonsense]" in terminal.getvalue()
    assert "[red]" in terminal.getvalue()


def test_a_table_without_rows_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(TextTable((Column("a"),), ()), empty="nothing there")
    assert capsys.readouterr().out == "nothing there\n"


def test_a_heading_stands_only_where_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    columns = (Column("group", is_heading=True), Column("topic"))
    table = TextTable(columns, (("billing", "a"), ("billing", "b"), ("audit", "b")))
    terminal = on_terminal(monkeypatch)
    show_table(table, empty="")
    shown = [line.split() for line in terminal.getvalue().splitlines() if line.strip() and "─" not in line]
    assert shown == [["group", "topic"], ["billing", "a"], ["b"], ["audit", "b"]]
    assert list(plain_lines(table))[2].split() == ["billing", "b"]


def test_further_lines_of_a_fact_stand_under_its_first(capsys: pytest.CaptureFixture[str]) -> None:
    show_facts("topic t", [("configs", "a=1\nb=2"), ("id", "1")])
    assert capsys.readouterr().out == "topic t\n  configs  a=1\n           b=2\n  id       1\n"


def test_facts_are_aligned_under_their_heading(capsys: pytest.CaptureFixture[str]) -> None:
    show_facts("topic t", [("id", "1"), ("records", "2")])
    assert capsys.readouterr().out == "topic t\n  id       1\n  records  2\n"


def test_json_is_one_line_in_a_pipe_and_indented_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show_json({"a": ["ü"]})
    assert capsys.readouterr().out == '{"a": ["ü"]}\n'
    made = on_terminal(monkeypatch)
    show_json({"a": 1})
    assert made.getvalue() == '{\n  "a": 1\n}\n'
    assert json.loads(made.getvalue()) == {"a": 1}


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 * 1024**3, "5.0 GiB"),
        (3 * 1024**5, "3072.0 TiB"),
        (-1, "-"),
    ],
)
def test_sizes_are_shown_as_people_say_them(size: int, text: str) -> None:
    assert show_bytes(size) == text


UNSAFE = "a\nb\x1b[2J\x9b\u202ec\té"
SAFE = r"a\nb\x1b[2J\x9b\u202ec" + "\té"


@pytest.mark.parametrize("on_a_terminal", [False, True])
def test_a_name_from_outside_begins_no_line_and_moves_no_cursor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], on_a_terminal: bool
) -> None:
    monkeypatch.setattr("kohort.cli.screen.is_terminal", lambda: on_a_terminal)
    show_table(TextTable([Column("group")], [[UNSAFE]]), empty="none")
    show_facts("about", [("group", UNSAFE)])
    say(UNSAFE.replace("\n", " "))
    note(UNSAFE.replace("\n", " "))
    shown = capsys.readouterr()
    for text in (shown.out, shown.err):
        assert not {"\x1b", "\x9b", "\u202e"} & set(text)
    assert r"a\nb\x1b[2J" in shown.out
    assert shown.err == SAFE.replace(r"\n", " ", 1) + "\n"
