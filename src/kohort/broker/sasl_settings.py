"""The SASL settings of a listener: mechanisms, users of its configuration, and limits (security 3)."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kohort.broker.login_limits import FailedLogins, HalfOpen
from kohort.broker.sasl_mechanisms import (
    OAUTHBEARER,
    PLAIN,
    SCRAM,
    PlainExchange,
    SaslExchange,
    ScramExchange,
)
from kohort.model.errors import KohortError
from kohort.security.jaas import parse_jaas
from kohort.security.listeners import find_setting, split_list
from kohort.security.secret import Secret

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState
    from kohort.broker.oauthbearer import BearerTokens

logger = logging.getLogger("kohort.sasl")

MECHANISMS = (PLAIN, *SCRAM, OAUTHBEARER)


class SaslSettings:
    """What the connections of one SASL listener share."""

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        listed = split_list(find_setting(settings, name, "sasl.enabled.mechanisms") or "")
        self.mechanisms = list(dict.fromkeys(listed))
        unknown = [one for one in self.mechanisms if one not in MECHANISMS]
        if unknown or not self.mechanisms:
            wrong = f"{', '.join(unknown)} is not supported" if unknown else "no mechanism is enabled"
            raise KohortError(
                f"listener {name}: {wrong}",
                hint=f"set sasl.enabled.mechanisms to some of {', '.join(MECHANISMS)}",
            )
        self.fixed_users = _fixed_users(settings, name)
        self.tokens = _tokens(name, settings) if OAUTHBEARER in self.mechanisms else None
        self.max_session_ms = _number(settings, name, "connections.max.reauth.ms", 0)
        self.max_frame = _number(settings, name, "sasl.server.max.receive.size", 524_288)
        self.half_open = HalfOpen(_number(settings, name, "kohort.authentication.timeout.ms", 10_000) / 1_000)
        delay_ms = _number(settings, name, "connection.failed.authentication.delay.ms", 100)
        self.failed = FailedLogins(delay_ms / 1_000)

    def exchange(self, mechanism: str, broker: "BrokerState") -> SaslExchange:
        """A new log-in."""
        if mechanism == PLAIN:
            return PlainExchange(broker.users, self.fixed_users)
        if self.tokens is not None and mechanism == OAUTHBEARER:
            return self.tokens.exchange(lambda: broker.clock.now().wall)
        return ScramExchange(broker.users, SCRAM[mechanism])


def _tokens(name: str, settings: Mapping[str, str]) -> "BearerTokens":
    from kohort.broker.oauthbearer import BearerTokens  # few brokers need it

    return BearerTokens(name, settings)


def _number(settings: Mapping[str, str], listener: str, key: str, default: int) -> int:
    return int(find_setting(settings, listener, key) or default)


def _fixed_users(settings: Mapping[str, str], listener: str) -> dict[str, Secret]:
    """The users of PLAIN in ``listener.name.NAME.plain.sasl.jaas.config``: ``user_NAME="PASSWORD"``.

    Raises SecretError if a password cannot be read now; it is read again at each log-in.
    """
    if "sasl.jaas.config" in settings:
        logger.warning(
            "sasl.jaas.config has no effect without the prefix listener.name.%s.plain.", listener.lower()
        )
    text = settings.get(f"listener.name.{listener.lower()}.plain.sasl.jaas.config")
    if text is None:
        return {}
    options = parse_jaas(text).options.items()
    users = {
        key.removeprefix("user_"): Secret.parse(value) for key, value in options if key.startswith("user_")
    }
    for password in users.values():
        password.reveal()
    return users
