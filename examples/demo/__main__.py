"""``make demo``, or ``python -m examples.demo``: a guided tour of a few minutes. ``--fast`` leaves no time to
read.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from examples.demo.stage import Stage, TourPace, new_console
from examples.demo.tour import Tour

from kohort.model.errors import KohortError

HELD, NOT_HELD, BROKEN, INTERRUPTED = 0, 1, 2, 130
REPORT = "demo-report.html"
PACE = TourPace(reading=1.0, per_second=60, session_ms=6_000)
FAST = TourPace(reading=0.0, per_second=100, session_ms=2_000)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 if every order was processed, 1 if not, 2 if the tour could not be finished."""
    parser = argparse.ArgumentParser(
        prog="make demo", description="A guided tour of Kohort, on the terminal."
    )
    parser.add_argument("--fast", action="store_true", help="no time to read")
    parser.add_argument(
        "--report", type=Path, default=Path(REPORT), help="the page it ends with", metavar="FILE"
    )
    given = parser.parse_args(arguments)
    pace = FAST if given.fast else PACE
    try:
        with tempfile.TemporaryDirectory(prefix="kohort-demo-") as directory:
            return asyncio.run(_go(pace, Path(directory), given.report))
    except KohortError as error:
        print(f"kohort: error: {error}", file=sys.stderr)
        return BROKEN
    except KeyboardInterrupt:
        print("stopped")
        return INTERRUPTED


async def _go(pace: TourPace, root: Path, page: Path) -> int:
    stage = Stage(new_console(), pace)
    with stage.listening():
        return HELD if await Tour(stage, root, page).go() else NOT_HELD


if __name__ == "__main__":
    sys.exit(main())
