"""``make explore``: every history of three members up to a depth, with a line for each depth reached.

Of a classic group, of a consumer group, and of a consumer group whose log is slow and fails and whose members
commit. Each begins without a group and with a settled one; the latter have more to do, and go less deep.
"""

import argparse
import sys
import time
from collections.abc import Callable

from kohort.sim.consumer_world import ConsumerWorld
from kohort.sim.explore import AnyWorld, ExplorationError, explore
from kohort.sim.world import World

WORLDS: dict[str, tuple[Callable[[], AnyWorld], int]] = {  # and how many steps less
    "classic group": (World, 0),
    "classic group, stable": (World.stable, 1),
    "consumer group": (ConsumerWorld, 1),
    "consumer group, settled": (ConsumerWorld.settled, 2),
    "consumer group, failing log": (lambda: ConsumerWorld(slow_log=True), 1),
    "consumer group, failing log, settled": (lambda: ConsumerWorld.settled(slow_log=True), 3),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=7, help="how many steps a history has")
    options = parser.parse_args()
    return max(_explore(name, make, options.depth - less) for name, (make, less) in WORLDS.items())


def _explore(name: str, make: Callable[[], AnyWorld], deepest: int) -> int:
    for depth in range(1, deepest + 1):
        started = time.perf_counter()
        try:
            found = explore(depth, make())
        except ExplorationError as error:
            print(f"{name}, depth {depth}: an invariant is broken: {error}")
            return 1
        seconds = time.perf_counter() - started
        seen = f"{found.states:,} states, {found.steps:,} steps, all well ({seconds:.1f} s)"
        print(f"{name}, depth {depth}: {seen}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
