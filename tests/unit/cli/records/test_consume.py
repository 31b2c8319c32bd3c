"""The choices of ``kohort consume``."""

from kohort.assign.registry import BUILT_IN
from kohort.cli.records.consume import AssignorName


def test_every_assignor_can_be_asked_for() -> None:
    assert {choice.value for choice in AssignorName} == {assignor().name for assignor in BUILT_IN}
