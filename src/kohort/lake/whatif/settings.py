"""``--set NAME=VALUE``: settings of a group's clients that a what-if may change."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, Final, NamedTuple

from kohort.assign.registry import BUILT_IN
from kohort.lake.whatif.happenings import ClientSettings
from kohort.model.errors import KohortError

_SESSION_MS, _BEAT_MS = 45_000, 5_000  # of the group protocol consumer, set at the broker
_MOST_VARIANTS: Final = 10_000
ASSIGNORS: Final = tuple(make().name for make in BUILT_IN)


class WhatIfSettingError(KohortError):
    """A setting that a what-if does not know, or a value that it cannot have."""


class Variant(NamedTuple):
    """Settings to try, and how they differ from the recorded ones."""

    label: str
    settings: ClientSettings


def _millis(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("it must be 1 or more")
    return number


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("it is true or false")
    return text == "true"


def _protocol(text: str) -> str:
    if text not in ("classic", "consumer"):
        raise ValueError("it is classic or consumer")
    return text


def _assignor(text: str) -> str:
    if text not in ASSIGNORS:
        raise ValueError(f"a replay can assign with {', '.join(ASSIGNORS)}")
    return text


_NAMES: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "session.timeout.ms": ("session_timeout_ms", _millis),
    "heartbeat.interval.ms": ("heartbeat_interval_ms", _millis),
    "max.poll.interval.ms": ("max_poll_interval_ms", _millis),
    "group.initial.rebalance.delay.ms": ("initial_delay_ms", _millis),
    "assignor": ("assignor", _assignor),
    "static": ("static", _flag),
    "group.protocol": ("protocol", _protocol),
}
NAMES: Final = tuple(_NAMES)


def parse_changes(texts: Iterable[str]) -> dict[str, list[Any]]:
    """The values to try by the name of their setting: ``NAME=VALUE`` or ``NAME=VALUE,VALUE``.

    Raises ``WhatIfSettingError``.
    """
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if name not in _NAMES or not equals or not values:
            raise WhatIfSettingError(
                f"cannot set {text!r}", hint=f"write NAME=VALUE with one of {', '.join(NAMES)}"
            )
        try:
            found.setdefault(name, []).extend(_NAMES[name][1](one.strip()) for one in values.split(","))
        except ValueError as error:
            raise WhatIfSettingError(f"{name} cannot be {values!r}: {error}") from error
    return found


def variants(recorded: ClientSettings, changes: Mapping[str, Iterable[Any]]) -> list[Variant]:
    """The recorded settings first, then every combination of the changes."""
    names = list(changes)
    made = [Variant("as recorded", recorded)]
    for values in product(*changes.values()):
        chosen = dict(zip(names, values, strict=True))
        made.append(
            Variant(
                " ".join(f"{name}={_shown(value)}" for name, value in chosen.items()), _with(recorded, chosen)
            )
        )
        if len(made) > _MOST_VARIANTS:
            raise WhatIfSettingError(
                f"these are more than {_MOST_VARIANTS:,} combinations", hint="name fewer values"
            )
    return made if names else made[:1]


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with(recorded: ClientSettings, chosen: Mapping[str, Any]) -> ClientSettings:
    changed = replace(recorded, **{_NAMES[name][0]: value for name, value in chosen.items()})
    if changed.protocol == "consumer" and recorded.protocol != "consumer":
        # The broker decides there, and its defaults are other ones.
        if "session.timeout.ms" not in chosen:
            changed = replace(changed, session_timeout_ms=_SESSION_MS)
        if "heartbeat.interval.ms" not in chosen:
            changed = replace(changed, heartbeat_interval_ms=_BEAT_MS)
    return changed
