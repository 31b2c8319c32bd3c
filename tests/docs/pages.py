"""Pages of the documentation as what they are for a reader: steps, taken one after the other.

What a writer has to know is in CONTRIBUTING.md: which blocks are run, and the marks that say otherwise.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = ("console", "shell", "python", "text")

_PIECE = re.compile(
    r"^<!-- (?P<mark>not run|interop|file|endless|pytest|given python|given)\b:?(?P<said>.*?)-->$"
    r"|^ *```(?P<kind>\w*)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Command:
    """A line for the shell, and what the page shows of its output; None: the page shows nothing."""

    text: str
    shown: str | None = None

    @property
    def runs_until_interrupted(self) -> bool:
        return "Ctrl-C" in self.text.partition(" # ")[2]

    @property
    def runs_beside(self) -> bool:
        """Whether it goes on while the next ones are typed."""
        return self.text.endswith(" &")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block, or the steps in a comment that prepare for the next one."""

    page: str
    line: int  # of the first line of its text, counted from 1
    kind: str
    text: str
    marks: dict[str, str]
    shown: str | None = None  # what a Python block prints, if the page shows it
    hidden: bool = False

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def why_not(self) -> str | None:
        """Why it is never run, if so."""
        return self.marks.get("not run")

    @property
    def needs_spark(self) -> bool:
        return self.kind == "python" and "spark" in self.text and not {"file", "not run"} & set(self.marks)

    @property
    def commands(self) -> list[Command]:
        lines = self.text.replace("\\\n", "").splitlines()
        if self.kind == "shell":
            return [Command(line) for line in lines if line.strip() and not line.startswith("#")]
        typed = re.split(r"^\$ ", "\n".join(lines), flags=re.MULTILINE)[1:]
        parts = (piece.partition("\n") for piece in typed)
        return [Command(command, shown.rstrip() or None) for command, _, shown in parts]


@dataclass(frozen=True)
class Page:
    """A Markdown file below the root of the repository."""

    name: str

    def __str__(self) -> str:
        return self.name

    @cached_property
    def blocks(self) -> list[Block]:
        """In order, with what prepares for them. ``text`` behind Python is that block's output."""
        found: list[Block] = []
        for block in _blocks(self.name, (ROOT / self.name).read_text()):
            before = found[-1] if found else None
            is_output = block.kind == "text" and "file" not in block.marks
            if is_output and before and before.kind == "python" and before.shown is None:
                found[-1] = _with_output(before, block.text)
            else:
                found.append(block)
        return found

    @property
    def to_run(self) -> list[Block]:
        steps = [block for block in self.blocks if block.kind != "text" or "file" in block.marks]
        return [block for block in steps if block.why_not is None]

    @property
    def needs_spark(self) -> bool:
        return any(block.needs_spark for block in self.blocks)

    @property
    def needs_interop(self) -> bool:
        return any("interop" in block.marks for block in self.to_run)


def _blocks(name: str, text: str) -> Iterator[Block]:
    marks: dict[str, str] = {}
    whole_page: dict[str, str] = {}
    for piece in _PIECE.finditer(text):
        if piece["mark"] is None:
            line = text.count("\n", 0, piece.start("text")) + 1
            yield Block(name, line, piece["kind"], piece["text"], whole_page | marks)
            marks = {}
        elif piece["mark"].startswith("given"):
            line = text.count("\n", 0, piece.start("said")) + 1
            kind = "python" if piece["mark"] == "given python" else "shell"
            yield Block(name, line, kind, piece["said"], whole_page | marks, hidden=True)
        elif piece.start() == 0:
            whole_page = {piece["mark"]: piece["said"].strip()}
        else:
            marks[piece["mark"]] = piece["said"].strip()


def _with_output(block: Block, shown: str) -> Block:
    return Block(block.page, block.line, block.kind, block.text, block.marks, shown, block.hidden)


def all_pages() -> list[Page]:
    """What promises a reader that its commands work."""
    folders = (ROOT / "docs" / "tutorial", ROOT / "docs" / "howto")
    found = [path for folder in folders for path in sorted(folder.glob("*.md"))]
    return [Page("README.md"), *(Page(str(path.relative_to(ROOT))) for path in found)]


def matches(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed: ``…`` is any text in a line, alone on a line any lines."""
    pattern = ""
    for line in shown.rstrip().splitlines():
        if line.strip() == "…":
            pattern += r"(?:.*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in line.rstrip().split("…")) + r" *\n"
    return re.fullmatch(pattern, printed.rstrip() + "\n") is not None
