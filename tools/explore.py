"""``make explore``: every history of three members up to a depth, with a line for each depth reached."""

import argparse
import sys
import time

from kohort.sim.explore import ExplorationError, explore


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=7, help="how many steps a history has")
    options = parser.parse_args()
    for depth in range(1, options.depth + 1):
        started = time.perf_counter()
        try:
            found = explore(depth)
        except ExplorationError as error:
            print(f"depth {depth}: an invariant is broken: {error}")
            return 1
        seconds = time.perf_counter() - started
        print(
            f"depth {depth}: {found.states:,} states, {found.steps:,} steps, all well ({seconds:.1f} s)",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
