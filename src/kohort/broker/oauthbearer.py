"""OAUTHBEARER on the broker: its settings, and the exchange that takes a token (security 3)."""

from collections.abc import Callable, Mapping

from kohort.broker.key_sets import KeySet, KeySetSettings
from kohort.broker.sasl_mechanisms import OAUTHBEARER, LoginError, Step
from kohort.model.errors import KohortError
from kohort.security.bearer import (
    Accepted,
    BearerError,
    TokenError,
    TokenRules,
    UnknownKeyError,
    check_token,
    read_client_initial,
)
from kohort.security.listeners import Listener, find_setting, is_loopback, split_list

UNSECURED = "kohort.oauthbearer.unsecured"
_ISSUER, _AUDIENCE = "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.expected.audience"
_KEYS = "sasl.oauthbearer.jwks.endpoint"
_AGAIN = b"\x01"  # the client's answer to a refusal


class BearerTokens:
    """Checks the tokens of one listener. Between ``start`` and ``close`` it keeps the keys fresh."""

    def __init__(self, listener: str, settings: Mapping[str, str]) -> None:
        def get(key: str) -> str | None:
            return find_setting(settings, listener, key, OAUTHBEARER)

        self._rules = TokenRules(
            issuer=get(_ISSUER),
            audiences=frozenset(split_list(get(_AUDIENCE) or "")),
            user_claim=get("sasl.oauthbearer.sub.claim.name") or "sub",
            scope_claim=get("sasl.oauthbearer.scope.claim.name") or "scope",
            required_scope=tuple((get("kohort.oauthbearer.required.scope") or "").split()),
            skew_seconds=int(get("sasl.oauthbearer.clock.skew.seconds") or 30),
            unsecured=get(UNSECURED) == "true",
        )
        url = get(f"{_KEYS}.url")
        if not url and not self._rules.unsecured:
            raise KohortError(
                f"listener {listener}: OAUTHBEARER needs the keys that tokens are signed with",
                hint=f"set {_KEYS}.url to https://… or to a file, as in file:/etc/kohort/keys.json",
            )
        self._keys = None
        if url and not self._rules.unsecured:
            check_can_verify()
            times = (
                int(get(f"{_KEYS}.{name}") or default) / 1_000
                for name, default in (
                    ("refresh.ms", 3_600_000),
                    ("retry.backoff.ms", 100),
                    ("retry.backoff.max.ms", 10_000),
                )
            )
            self._keys = KeySet(KeySetSettings(url, *times))

    async def start(self) -> None:
        if self._keys is not None:
            await self._keys.start()

    def reload(self) -> None:
        """Read the keys again if they are in a file that changed."""
        if self._keys is not None:
            self._keys.reload()

    def close(self) -> None:
        if self._keys is not None:
            self._keys.close()

    def exchange(self, now_ms: Callable[[], int]) -> "BearerExchange":
        """A new log-in."""
        return BearerExchange(self, now_ms)

    async def check(self, token: str, now_ms: int) -> Accepted:
        """Raises TokenError."""
        keys = self._keys
        if keys is None:
            return check_token(token, (), self._rules, now_ms)
        try:
            return check_token(token, keys.keys, self._rules, now_ms)
        except UnknownKeyError as error:
            await keys.look_for(error.key_id)
            return check_token(token, keys.keys, self._rules, now_ms)

    @property
    def required_scope(self) -> str:
        return " ".join(self._rules.required_scope)


class BearerExchange:
    """RFC 7628. A refused token is answered with a reason; the client confirms it, and the log-in fails."""

    def __init__(self, tokens: BearerTokens, now_ms: Callable[[], int]) -> None:
        self._tokens = tokens
        self._now_ms = now_ms
        self._refusals: list[str] = []

    async def evaluate(self, token: bytes) -> Step:
        if self._refusals and (token == _AGAIN or len(self._refusals) > 1):
            raise LoginError(self._refusals[-1], reason="the token was refused")
        try:
            initial = read_client_initial(token)
        except BearerError as error:
            raise LoginError(reason=error.args[0]) from None
        try:
            accepted = await self._tokens.check(initial.token, self._now_ms())
        except TokenError as error:
            return self._refuse(error)
        if initial.authzid not in ("", accepted.user):
            raise LoginError(
                f"Authentication failed: Client requested an authorization id ({initial.authzid}) that is "
                f"different from the token's principal name ({accepted.user})",
                reason="an authorization id that is not the token's user",
            )
        return Step(b"", accepted.user, accepted.expires_at)

    def _refuse(self, error: TokenError) -> Step:
        scope = f', "scope":"{self._tokens.required_scope}"' if error.status == "insufficient_scope" else ""
        text = f'{{"status":"{error.status}"{scope}}}'
        self._refusals.append(text)
        return Step(text.encode(), note=f"a token is refused: {error.args[0]}")


def check_can_verify() -> None:
    """Raise KohortError without PyJWT or what it needs for signatures."""
    try:
        import cryptography  # noqa: F401
        import jwt  # noqa: F401
    except ImportError as error:
        raise KohortError(f"OAUTHBEARER needs {error.name}", hint="pip install 'kohort[oauth]'") from error


def check_bearer_risks(listener: Listener, settings: Mapping[str, str]) -> None:
    """Raise KohortError if tokens would let in others than those who are meant."""

    def get(key: str) -> str | None:
        return find_setting(settings, listener.name, key, OAUTHBEARER)

    if get(UNSECURED) == "true":
        if not is_loopback(listener.host):
            raise KohortError(
                f"listener {listener}: {UNSECURED} lets in everybody, and other machines can reach it",
                hint="use a loopback address, or --insecure if the network is trusted",
            )
    elif not get(_ISSUER) and not get(_AUDIENCE):
        raise KohortError(
            f"listener {listener}: OAUTHBEARER would accept every token that the keys have signed",
            hint=f"set {_ISSUER} or {_AUDIENCE}, or --insecure if all of them are meant",
        )
