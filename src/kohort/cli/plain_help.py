"""Help without the names of Python types: ``N`` for a number, choices as they are, nothing for flags."""

import re
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

_WORDS = {"int": "N", "float": "N", "str": "TEXT", "path": "PATH", "file": "FILE"}


class PlainHelp:
    """Mixed into commands and groups of commands."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - Typer's class for it has moved before
        params = super().get_params(ctx)  # type: ignore[misc]  # of the class it is mixed into
        for one in params:
            if isinstance(one, TyperArgument):  # its name says what it is
                one.display_type_rich = lambda ctx: None  # type: ignore[method-assign]  # Typer has no setting
            elif isinstance(one, TyperOption) and one.metavar is None:
                one.metavar = "" if one.is_flag else plain_type(one.display_type(ctx))
        return list(params)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - as above
        """``TOPIC``, where Typer writes ``{TOPIC}``."""
        pieces = super().collect_usage_pieces(ctx)  # type: ignore[misc]  # of the class it is mixed into
        return [re.sub(r"[{}]", "", piece) for piece in pieces]


def plain_type(shown: str) -> str:
    """``<list[int]>`` is ``N``: that an option may be repeated is said by its help."""
    bare = re.sub(r"^<(?:list\[)?(.*?)\]?(?: range)?>$", r"\1", shown)
    return _WORDS.get(bare, bare)


class PlainCommand(PlainHelp, TyperCommand):
    """A command with such help."""


class PlainGroup(PlainHelp, TyperGroup):
    """Commands under one name, with such help."""
