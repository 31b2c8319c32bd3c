"""Who a peer is: principals, and the rules that turn a certificate's name into one (security 2)."""

import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from kohort.model.errors import KohortError

ANONYMOUS = "User:ANONYMOUS"
MAPPING_RULES = "ssl.principal.mapping.rules"
_LONGEST_NAME = 4_096  # characters of a distinguished name
_RULE = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<result>(?:\\.|[^\\/])*)/(?P<case>[LU]?)")
# What Java's patterns have and Python's have not, or read otherwise.
_JAVA_ONLY = re.compile(r"\\p\{|\\P\{|[*+?}]\+")


class MappingRuleError(KohortError):
    """Rules that cannot be read."""


class NoRuleMatchesError(KohortError):
    """A certificate's name that none of the rules takes."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None  # None: DEFAULT
    result: str = ""
    case: str = ""


class PrincipalMapper:
    """The rules of ``ssl.principal.mapping.rules``; the first that matches the whole name decides."""

    def __init__(self, text: str) -> None:
        self._rules = list(_rules(text))

    def principal(self, name: str) -> str:
        """The principal of a distinguished name; raises NoRuleMatchesError."""
        return f"User:{self._map(name)}"

    def _map(self, name: str) -> str:
        if len(name) > _LONGEST_NAME:
            raise NoRuleMatchesError(f"a certificate's name of {len(name)} characters")
        for pattern, result, case in self._rules:
            if pattern is None:
                return name
            if pattern.fullmatch(name):
                mapped = pattern.sub(partial(_fill, result), name)
                return mapped.lower() if case == "L" else mapped.upper() if case == "U" else mapped
        raise NoRuleMatchesError(
            f"no rule of {MAPPING_RULES} matches {name}", hint="add DEFAULT as the last rule"
        )


def _rules(text: str) -> Iterator[_Rule]:
    position = 0
    text = text.strip()
    if not text:
        yield _Rule(None)
    while position < len(text):
        if text[position] in ", \t\n":
            position += 1
            continue
        if text.startswith("DEFAULT", position):
            yield _Rule(None)
            position += len("DEFAULT")
        else:
            match = _RULE.match(text, position)
            if match is None:
                raise MappingRuleError(
                    f"{MAPPING_RULES}: cannot read {text[position:][:80]!r}",
                    hint="a rule is DEFAULT or RULE:pattern/replacement/ with L or U behind it, if wanted",
                )
            yield _Rule(_compile(match["pattern"]), _unescape(match["result"]), match["case"])
            position = match.end()
        if position < len(text) and text[position] not in ", \t\n":
            raise MappingRuleError(
                f"{MAPPING_RULES}: cannot read {text[position:][:80]!r}", hint="separate rules with commas"
            )


def _compile(pattern: str) -> re.Pattern[str]:
    if _JAVA_ONLY.search(pattern):
        raise MappingRuleError(
            f"{MAPPING_RULES}: {pattern!r} has possessive quantifiers or character properties",
            hint="write it without them: patterns are Python's",
        )
    try:
        return re.compile(pattern.replace("\\/", "/"))
    except re.error as error:
        raise MappingRuleError(f"{MAPPING_RULES}: {pattern!r} is not a pattern: {error}") from None


def _unescape(result: str) -> str:
    return result.replace("\\/", "/")


def _fill(result: str, match: re.Match[str]) -> str:
    """``$n`` is a group; one that does not exist stays as it is written; ``\\x`` is x."""

    def group(found: re.Match[str]) -> str:
        if found[0].startswith("\\"):
            return found[0][1:]
        digits = found[1]
        for length in range(len(digits), 0, -1):
            if int(digits[:length]) <= match.re.groups:
                return (match[int(digits[:length])] or "") + digits[length:]
        return found[0]

    return re.sub(r"\\.|\$([0-9]+)", group, result, flags=re.DOTALL)
