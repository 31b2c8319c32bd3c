"""Every history of three members, up to a number of steps: requests, timers and a slow or failing log.

A walk over copies of a simulated world. States that behave alike are visited once. After each step
all invariants are checked; and from each state everyone falls silent once, and then every request
must be answered and the group end up empty.
"""

import pickle
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from kohort.sim.world import World


class AnyWorld(Protocol):
    """What can be explored: a simulated world that knows what can happen in it, and what must be true."""

    def freeze(self) -> bytes: ...

    def fingerprint(self) -> Hashable: ...

    def steps(self) -> Iterator[tuple[str, Callable[[Any], None]]]: ...

    def complaints(self) -> Iterator[str]: ...

    def fall_silent(self) -> None: ...

    def end_complaints(self) -> Iterator[str]: ...


Visit: TypeAlias = tuple[bytes, tuple[str, ...]]  # a world, frozen, and how it came about


class ExplorationError(AssertionError):
    """A history that breaks an invariant, step by step."""

    def __init__(self, path: tuple[str, ...], complaint: str) -> None:
        super().__init__(f"{complaint}\nafter: " + ", ".join(path))
        self.path = path
        self.complaint = complaint


@dataclass(slots=True)
class Explored:
    """How much was seen."""

    states: int = 0
    steps: int = 0


def explore(depth: int, start: AnyWorld | None = None) -> Explored:
    """Walk every history of up to ``depth`` steps, from a world without a group or from ``start`` on.

    Raises ``ExplorationError`` at the first history that breaks an invariant.
    """
    explored = Explored()
    start = start or World()
    seen: set[Hashable] = {start.fingerprint()}
    frontier: list[Visit] = [_visit(start, (), explored)]
    for _ in range(depth):
        frontier = [
            _visit(world, path, explored)
            for visit in frontier
            for world, path in _next_worlds(visit, explored)
            if _is_new(world, seen)
        ]
    return explored


def _thaw(frozen: bytes) -> AnyWorld:
    world: AnyWorld = pickle.loads(frozen)
    return world


def _visit(world: AnyWorld, path: tuple[str, ...], explored: Explored) -> Visit:
    explored.states += 1
    _check(world, path)
    frozen = world.freeze()
    _check_end(_thaw(frozen), path)
    return frozen, path


def _next_worlds(visit: Visit, explored: Explored) -> Iterator[tuple[AnyWorld, tuple[str, ...]]]:
    frozen, path = visit
    for label, step in _thaw(frozen).steps():
        world = _thaw(frozen)
        try:
            step(world)
        except AssertionError as error:
            raise ExplorationError((*path, label), str(error)) from error
        explored.steps += 1
        yield world, (*path, label)


def _is_new(world: AnyWorld, seen: set[Hashable]) -> bool:
    state = world.fingerprint()
    if state in seen:
        return False
    seen.add(state)
    return True


def _check(world: AnyWorld, path: tuple[str, ...]) -> None:
    for complaint in world.complaints():
        raise ExplorationError(path, complaint)


def _check_end(world: AnyWorld, path: tuple[str, ...]) -> None:
    """Everyone falls silent: what then?"""
    world.fall_silent()
    for complaint in world.end_complaints():
        raise ExplorationError((*path, "everyone falls silent"), complaint)
