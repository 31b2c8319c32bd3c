"""Every command has a handler, every event has its effect."""

from typing import get_args

from kohort.groups import apply
from kohort.groups.commands import Command
from kohort.groups.dispatch import HANDLERS
from kohort.groups.events import DurableEvent, Event, SoftEvent


def test_every_command_has_a_handler() -> None:
    assert set(HANDLERS) == set(get_args(Command))


def test_every_event_has_its_effect() -> None:
    assert set(apply._APPLY) == set(get_args(Event))


def test_an_event_is_soft_or_durable() -> None:
    assert set(get_args(Event)) == set(get_args(SoftEvent)) | set(get_args(DurableEvent))
    assert not set(get_args(SoftEvent)) & set(get_args(DurableEvent))


def test_every_event_names_its_group_and_its_cause() -> None:
    for event in get_args(Event):
        assert {"group_id", "cause"} <= set(event.__dataclass_fields__)
