"""What commands print: tables for people, the same facts as JSON for programs.

On a terminal tables are drawn; into a file or a pipe they are plain columns, never cut off.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from kohort.primitives.strings import visible

Json = dict[str, object] | list[object]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_BETWEEN = 3  # characters between the columns of a drawn table
_USUAL_WIDTH = 80  # of a terminal that does not say how wide it is
_ID_END = 4  # characters of the end of an id that is shortened
_TEXT = 16  # a longer text may be broken into lines of this length


class Column(NamedTuple):
    """The head of a column; numbers stand to the right. A narrow terminal leaves out the highest ranks."""

    title: str
    is_number: bool = False
    rank: int = 0  # 0 is always shown
    is_id: bool = False  # is shortened rather than broken into lines: its end tells it from others
    is_heading: bool = False  # on a terminal stands only where it changes


class TextTable(NamedTuple):
    """Rows of text under their columns."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]


def is_terminal() -> bool:
    return sys.stdout.isatty()


def say(text: str = "") -> None:
    """A line of result, or some."""
    print(_visible_lines(text))


def note(text: str) -> None:
    """Text that is not the result: what went on meanwhile, or went wrong. A terminal breaks no word of it."""
    if sys.stderr.isatty():
        width = os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_WIDTH
        text = "\n".join(broken(line, width) for line in text.split("\n"))
    print(_visible_lines(text), file=sys.stderr)


def _visible_lines(text: str) -> str:
    return text if text.isprintable() else "\n".join(map(visible, text.split("\n")))


def broken(line: str, width: int) -> str:
    """The line, broken between words where it is longer than the terminal is wide."""
    if len(line) <= width:
        return line
    import textwrap

    return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)


def stop_printing() -> None:
    """The reader has closed the pipe: nothing may be flushed into it at the exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_json(document: object) -> None:
    """One JSON document: indented for eyes, on one line for pipes."""
    print(json.dumps(document, ensure_ascii=False, indent=2 if is_terminal() else None))


def show_json_line(document: object) -> None:
    """One line of a stream of JSON documents, on a terminal or not."""
    print(json.dumps(document, ensure_ascii=False))


def show_table(table: TextTable, *, empty: str) -> None:
    """The table, or ``empty`` if it has no rows."""
    table = TextTable(table.columns, [[visible(cell) for cell in row] for row in table.rows])
    if not table.rows:
        say(empty)
    elif is_terminal():
        _draw(table)
    else:
        for line in plain_lines(table):
            say(line)


def plain_lines(table: TextTable) -> Iterable[str]:
    """Columns two spaces apart, as wide as their widest cell."""
    heads = [column.title.upper() for column in table.columns]
    lines = [heads, *(list(row) for row in table.rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(heads))]
    for line in lines:
        cells = [
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(line, widths, table.columns, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def width_of(table: TextTable, *, longest: int | None = None) -> int:
    """How wide a table is when it is drawn; texts count with ``longest`` characters at most."""
    return sum(_widths(table, longest)) + _around(table)


def _widths(table: TextTable, longest: int | None = None) -> list[int]:
    """How wide each column wants to be: no title and no number is broken."""
    widths = []
    for index, column in enumerate(table.columns):
        widest = max((len(row[index]) for row in table.rows), default=0)
        if longest is not None and not column.is_number:
            widest = min(widest, longest)
        widths.append(max(len(column.title), widest))
    return widths


def _around(table: TextTable) -> int:
    """What is drawn besides the cells: between the columns, and a space at each edge."""
    return _BETWEEN * len(table.columns) - 1


def column_widths(table: TextTable, width: int) -> list[int]:
    """The widths that fill a line of ``width``: the widest texts give way first, titles and numbers never."""
    widths, least = _widths(table), _widths(table, longest=0)
    for _ in range(sum(widths) + _around(table) - width):
        wide = [index for index, one in enumerate(widths) if one > least[index]]
        if not wide:
            break
        widths[max(wide, key=lambda index: widths[index])] -= 1
    return widths


def shortened(name: str, width: int) -> str:
    """An id in ``width`` characters: its beginning, and the end that tells it from others."""
    if len(name) <= width:
        return name
    end = name[name.rfind("…") :] if "…" in name else f"…{name[-_ID_END:]}"
    return name[: max(0, width - len(end))] + end


def fitted(table: TextTable, width: int) -> tuple[TextTable, list[str]]:
    """The table with the columns that have room, and the titles of the others."""
    left_out: list[str] = []
    while width_of(table, longest=_TEXT) > width and any(column.rank for column in table.columns):
        least = max(range(len(table.columns)), key=lambda index: table.columns[index].rank)
        left_out.append(table.columns[least].title)
        columns = [*table.columns[:least], *table.columns[least + 1 :]]
        table = TextTable(columns, [[*row[:least], *row[least + 1 :]] for row in table.rows])
    return table, left_out


def _draw(table: TextTable) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    table, left_out = fitted(table, console.width)
    widths = column_widths(table, console.width)
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column, width in zip(table.columns, widths, strict=True):
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        drawn.add_column(column.title, justify=justify, overflow="fold", width=width)
    above: Sequence[str] = [""] * len(widths)
    for row in table.rows:
        cells = zip(row, above, table.columns, widths, strict=True)
        drawn.add_row(*(Text(_drawn_cell(cell, before, one, width)) for cell, before, one, width in cells))
        above = row
    if (needed := sum(widths) + _around(table)) > console.width:
        console = Console(
            width=needed
        )  # Rich would leave out the last columns; the terminal breaks the lines
    console.print(drawn)
    if left_out:
        note(f"no room for: {', '.join(left_out)} (a wider terminal or --json shows them)")


def _drawn_cell(cell: str, above: str, column: Column, width: int) -> str:
    if column.is_heading and cell == above:
        return ""
    return shortened(cell, width) if column.is_id else cell


def show_facts(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """A heading, and the facts under it, name by name; further lines of a value stand under its first."""
    title, facts = visible(title), [(name, _visible_lines(value)) for name, value in facts]
    width = max((len(name) for name, _ in facts), default=0)
    facts = [(name, value.replace("\n", "\n" + " " * (width + 4))) for name, value in facts]
    if is_terminal():
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False)
        console.print(Text(title, style="bold"))
        for name, value in facts:
            console.print(Text.assemble("  ", (f"{name:{width}}", "dim"), "  ", value), soft_wrap=True)
        return
    say(title)
    for name, value in facts:
        say(f"  {name:{width}}  {value}")


def show_bytes(size: int) -> str:
    """A size as people say it; "-" if unknown."""
    if size < 0:
        return "-"
    amount = float(size)
    for unit in _UNITS:
        if amount < 1024 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
