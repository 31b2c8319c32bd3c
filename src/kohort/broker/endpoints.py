"""A listener that is open: what its connections share, and which combinations are too risky to open."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kohort.broker.listening import check_advertised
from kohort.broker.memory_budget import MemoryBudget
from kohort.broker.tls import ListenerTls
from kohort.model.errors import KohortError
from kohort.security.listeners import Listener, find_setting, is_loopback, show, split_list
from kohort.wire.framing import FrameBuffer

if TYPE_CHECKING:
    from kohort.broker.sasl_settings import SaslSettings

logger = logging.getLogger("kohort.listening")


class ListenAddress(NamedTuple):
    """Where a broker can be reached."""

    host: str
    port: int

    def __str__(self) -> str:
        return show(self.host, self.port)


class Endpoint:
    """One open listener."""

    def __init__(self, listener: Listener, settings: Mapping[str, str], budget: MemoryBudget) -> None:
        check_advertised(listener.advertised_host)
        self.listener = listener
        self.budget = budget
        self.tls = ListenerTls(listener, settings) if listener.protocol.has_tls else None
        self.sasl = _sasl_settings(listener, settings) if listener.protocol.has_sasl else None
        self.request_limits: Mapping[int, int] = {}  # the bytes of a request by the key of its API
        self.bound = self.advertised = ListenAddress("", 0)  # known once it is open

    def frames(self) -> FrameBuffer:
        """Cuts the bytes of a new connection; until its peer has logged in, no request may be large."""
        if self.sasl is None:
            return FrameBuffer(self.request_limits)
        return FrameBuffer(default=self.sasl.max_frame)

    def opened(self, port: int) -> None:
        """The socket has this port."""
        listener = self.listener
        self.bound = ListenAddress(listener.host, port)
        self.advertised = ListenAddress(listener.advertised_host, listener.advertised_port or port)

    def __str__(self) -> str:
        """The address with the name of the listener, unless it was given without one."""
        return str(self.bound) if self.listener.is_bare else f"{self.listener.name}://{self.bound}"


def _sasl_settings(listener: Listener, settings: Mapping[str, str]) -> "SaslSettings":
    from kohort.broker.sasl_settings import SaslSettings  # few brokers need it

    return SaslSettings(listener.name, settings)


def check_risks(listeners: Sequence[Listener], settings: Mapping[str, str], *, insecure: bool) -> None:
    """Raise KohortError for what would expose data or passwords; warn where there is no security at all."""
    for listener in listeners:
        if listener.protocol.has_sasl and not insecure:
            _check_tokens(listener, settings)
    open_to_others = [one for one in listeners if not is_loopback(one.host)]
    if not open_to_others:
        return
    authorizer = is_authorizer_on(settings)
    for listener in open_to_others:
        if listener.protocol.has_tls or insecure:
            continue
        if listener.protocol.has_sasl:
            is_risk = not {"PLAIN", "OAUTHBEARER"}.isdisjoint(_mechanisms(listener, settings))
            what, instead = "passwords or tokens", "SASL_SSL, the mechanism SCRAM-SHA-256"
        else:
            is_risk, what, instead = authorizer, "what the authorizer protects", "SSL"
        if is_risk:
            raise KohortError(
                f"listener {listener} sends {what} without encryption, and other machines can reach it",
                hint=f"use {instead}, a loopback address, or --insecure if the network is trusted",
            )
    bare = [str(one) for one in open_to_others if not (one.protocol.has_tls or one.protocol.has_sasl)]
    if bare and not authorizer:
        logger.warning(
            "every machine that reaches %s can read, write and delete everything: "
            "there is no TLS, no SASL and no authorizer",
            ", ".join(bare),
        )


def _mechanisms(listener: Listener, settings: Mapping[str, str]) -> list[str]:
    return split_list(find_setting(settings, listener.name, "sasl.enabled.mechanisms") or "")


def _check_tokens(listener: Listener, settings: Mapping[str, str]) -> None:
    if "OAUTHBEARER" in _mechanisms(listener, settings):
        from kohort.broker.oauthbearer import check_bearer_risks  # few brokers need it

        check_bearer_risks(listener, settings)


def is_authorizer_on(settings: Mapping[str, str]) -> bool:
    """Whether requests are checked against ACLs."""
    return bool(settings.get("authorizer") or settings.get("authorizer.class.name"))
