"""``sasl.jaas.config``: the log-in module and its options, as Java's clients and brokers write them.

``CLASS FLAG (KEY=VALUE)* ;`` with exactly one entry. No error quotes a value: it may be a password.
"""

import re
from dataclasses import dataclass

from kohort.model.errors import KohortError

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<word>[A-Za-z0-9._$-]+)
    | (?P<quoted>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    | (?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_FLAGS = ("required", "requisite", "sufficient", "optional")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class JaasError(KohortError, ValueError):
    """Text that is no entry of a JAAS configuration."""


@dataclass(frozen=True, slots=True, repr=False)
class JaasEntry:
    """A log-in module and its options."""

    module: str
    flag: str
    options: dict[str, str]

    @property
    def name(self) -> str:
        """The class without its package: vendors move Kafka's classes into packages of their own."""
        return re.split(r"[.$]", self.module)[-1]

    def __repr__(self) -> str:
        return f"JaasEntry({self.module}, {', '.join(self.options)})"


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    kind: str
    position: int


def parse_jaas(text: str) -> JaasEntry:
    """The one entry of the text; raises JaasError with the position of what is wrong."""
    tokens = _tokens(text)
    if len(tokens) < 2:
        raise _wrong("expected a class, a flag, options and a semicolon", 0)
    module, flag, *rest = tokens
    if module.kind != "word":
        raise _wrong("expected the name of a log-in module", module.position)
    if flag.text.lower() not in _FLAGS:
        raise _wrong(f"expected one of {', '.join(_FLAGS)} behind {module.text}", flag.position)
    options: dict[str, str] = {}
    while rest and (rest[0].kind, rest[0].text) != ("sign", ";"):
        key = rest[0]
        if key.kind != "word":
            raise _wrong("expected the name of an option", key.position)
        if len(rest) < 3 or rest[1].kind != "sign" or rest[1].text != "=":
            raise _wrong("expected NAME=VALUE", key.position)  # the word may be the rest of a password
        if rest[2].kind == "sign":
            raise _wrong(f"expected a value behind {key.text}=", rest[2].position)
        options[key.text] = rest[2].text
        rest = rest[3:]
    if not rest:
        raise _wrong("the semicolon at the end is missing", len(text))
    if len(rest) > 1:
        raise _wrong("there is more than one entry", rest[1].position)
    return JaasEntry(module.text, flag.text.lower(), options)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _wrong("there is a quote that is not closed, or a character that must be quoted", position)
        if match.lastgroup == "quoted":
            found.append(_Token(_ESCAPE.sub(_unescaped, match[0][1:-1]), "quoted", position))
        elif match.lastgroup is not None:
            found.append(_Token(match[0], match.lastgroup, position))
        position = match.end()
    return found


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8) & 0xFF)
    return _ESCAPES.get(escaped, escaped)


def _wrong(why: str, position: int) -> JaasError:
    return JaasError(
        f"sasl.jaas.config: {why} (at character {position + 1})",
        hint='for example: org.apache.kafka.common.security.scram.ScramLoginModule required username="…" '
        'password="…";',
    )
