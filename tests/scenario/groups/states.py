"""The six columns of the table "state x request": a group in each state, with the same cast everywhere."""

from pathlib import Path

from kohort.groups.classic.transitions import Phase
from kohort.model.ids import Generation, InstanceId, MemberId
from kohort.sim.driver import Scenario

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "group-states.md"
LETTERS = {
    Phase.EMPTY: "E",
    Phase.PREPARING_REBALANCE: "P",
    Phase.COMPLETING_REBALANCE: "C",
    Phase.STABLE: "S",
    Phase.DEAD: "D",
}
STATES = "∅EPCSD"
INSTANCE = InstanceId("i1")
LONG = 600_000  # the session timeout of a handed-out id that is to outlast the story


def in_state(state: str) -> Scenario:
    """A group in this state.

    "a" leads, "b" follows, "s" is static; an id was handed out to "p"; offset 7 of t-0 is committed.
    Empty: they have left. PreparingRebalance: "late" has joined (version 3), the others not again yet.
    Dead: it was Stable. Nothing of all that where there is no group.
    """
    scenario = Scenario()
    if state == "∅":
        return scenario
    for name in "ab":
        scenario.join(name)
    scenario.join("s", instance=INSTANCE)
    scenario.sleep(6_000)
    if state == "C":
        _hand_out(scenario)
        return scenario
    scenario.sync_all()
    scenario.commit("a", {("t", 0): 7, ("u", 0): 7})
    if state == "E":
        scenario.leave("a", "b", "s")
    _hand_out(scenario)
    if state == "P":
        scenario.join("late", version=3)
    if state == "D":
        scenario.unload()
    assert state_letter(scenario) == state
    return scenario


def _hand_out(scenario: Scenario) -> None:
    scenario.join_once("p", session_timeout=LONG)


def state_letter(scenario: Scenario) -> str:
    """The state as a letter."""
    return LETTERS[scenario.phase] if scenario.exists else "∅"


def id_or_any(scenario: Scenario, name: str) -> MemberId:
    """The id of a member; where there is no group some id."""
    return scenario.id_of(name) or MemberId("x")


def current_generation(scenario: Scenario) -> Generation:
    """The group's generation, so that only the state decides; 3 where there is no group."""
    return scenario.group.generation if scenario.exists else Generation(3)


def table_of(heading: str) -> tuple[list[str], dict[str, list[str]]]:
    """The table "state x request" of the page: its states, and the cells of each request."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = section.partition("\n| request |")[2].partition("\n\n")[0].splitlines()
    header, _, *rows = ([cell.strip() for cell in line.strip("| ").split("|")] for line in lines)
    return header, {request: cells for request, *cells in rows}
