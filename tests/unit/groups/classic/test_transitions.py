"""The table of phases."""

from itertools import product

from kohort.groups.classic.transitions import CAN_REBALANCE, TRANSITIONS, Phase, as_mermaid, is_legal

E, P, C, S, D = Phase.EMPTY, Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE, Phase.STABLE, Phase.DEAD


def test_exactly_the_transitions_of_the_protocol_are_legal() -> None:
    legal = {(E, P), (C, P), (S, P), (P, C), (C, S), (P, E), (E, D), (P, D), (C, D), (S, D), (D, D)}
    assert {pair for pair in product(Phase, Phase) if is_legal(*pair)} == legal


def test_every_transition_says_what_triggers_it() -> None:
    assert all(each.triggers for each in TRANSITIONS)
    assert len({(each.source, each.target) for each in TRANSITIONS}) == len(TRANSITIONS)


def test_a_rebalance_can_start_where_preparing_may_follow() -> None:
    assert set(CAN_REBALANCE) == {phase for phase in Phase if is_legal(phase, P)}


def test_phases_have_kafkas_names() -> None:
    names = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
    assert [phase.value for phase in Phase] == names


def test_the_diagram_has_every_transition() -> None:
    diagram = as_mermaid()
    assert diagram.startswith("stateDiagram-v2\n    [*] --> Empty\n")
    assert "    PreparingRebalance --> Empty: the join phase ends with no members\n" in diagram
    assert diagram.count(" --> ") == len(TRANSITIONS) - 1 + 2  # without Dead to Dead; with both ends
