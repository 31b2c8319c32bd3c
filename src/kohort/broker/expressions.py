"""The regular expressions of subscriptions: RE2, as in Kafka; what they match is found in a thread.

RE2 takes time in proportion to a name's length, whatever the expression. It has no look-around and no
back-references; an expression that needs more memory than ``_MEMORY`` is refused.
"""

from collections.abc import Iterable
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, TypeAlias

from kohort.model.ids import TopicName

Matches: TypeAlias = tuple[tuple[str, tuple[TopicName, ...]], ...]
"""Each expression with the names it matches."""

_MEMORY = 8 * 1024 * 1024  # of a compiled expression; RE2's own default
_REMEMBERED = 256  # expressions: all members of a group send the same one with every full heartbeat

# Kafka's words (RE2/J) for what RE2 says.
_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "unexpected )",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
}


@lru_cache(_REMEMBERED)
def wrong_with(expression: str) -> str | None:
    """Why this is no expression, in Kafka's words; ``None`` if it is one."""
    try:
        _compiled(expression)
    except _re2().error as error:
        said = error.args[0]
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        reason = text.split(": ", 1)[0]
        return _WORDS.get(reason, reason)
    return None


def resolve(expressions: Iterable[str], names: Iterable[TopicName]) -> Matches:
    """The names that each expression matches from their first to their last letter."""
    names = list(names)
    found = []
    for expression in expressions:
        if wrong_with(expression) is None:
            matches = _compiled(expression).fullmatch
            found.append((expression, tuple(name for name in names if matches(name))))
    return tuple(found)


@lru_cache(_REMEMBERED)
def _compiled(expression: str) -> Any:  # noqa: ANN401 - the library has no types
    options = _re2().Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    return _re2().compile(expression, options)


@cache
def _re2() -> Any:  # noqa: ANN401 - as above
    """Imported with the first expression: most brokers never see one."""
    return import_module("re2")
