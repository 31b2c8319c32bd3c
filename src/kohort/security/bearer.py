"""OAUTHBEARER: the client's first message (RFC 7628), and JWTs checked against a key set (security 3).

Signatures are checked by PyJWT, which is loaded with the first token. What may be believed is decided here:
the algorithms, the choice of the key, and the claims.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kohort.model.errors import KohortError

MOST_TOKEN_BYTES = 16 * 1024
_LEAST_RSA_BITS = 2_048
_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST = re.compile(rf"n,(?:a=({_SASL_NAME}))?,\x01((?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01", re.ASCII)
_BEARER = re.compile(r"(?i:bearer) +([-_~+/.A-Za-z0-9]+=*)")
# What a key must be for an algorithm. Symmetric ones are missing: a public key would be their secret.
_KINDS: Mapping[str, tuple[str, str | None]] = {
    **{f"{kind}{size}": ("RSA", None) for kind in ("RS", "PS") for size in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}

Key = Mapping[str, Any]
"""A key of a set, as RFC 7517 writes it."""


class BearerError(KohortError):
    """A malformed first message, or a file that is not a key set."""


class TokenError(KohortError):
    """A token that is not accepted. ``status`` is for the client, the text for the log."""

    def __init__(self, reason: str, status: str = "invalid_token") -> None:
        super().__init__(reason)
        self.status = status


class UnknownKeyError(TokenError):
    """The token names a key that is not in the set: it may be newer than the set."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no key with the id {key_id[:100]!r}")
        self.key_id = key_id


class ClientInitial(NamedTuple):
    """The client's first message."""

    authzid: str
    token: str

    def __repr__(self) -> str:
        return f"ClientInitial({self.authzid!r})"


class TokenRules(NamedTuple):
    """What a token must say to be accepted."""

    issuer: str | None = None
    audiences: frozenset[str] = frozenset()
    user_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    skew_seconds: int = 30
    unsecured: bool = False  # accept tokens without a signature, and no others


class Accepted(NamedTuple):
    """Who a token is for, and when it ends, in milliseconds of wall time."""

    user: str
    expires_at: int


def read_client_initial(message: bytes) -> ClientInitial:
    """Raises BearerError. Extensions are allowed and not judged."""
    try:
        found = _FIRST.fullmatch(message.decode("ascii"))
    except UnicodeDecodeError:
        raise BearerError("a first message that is not ASCII") from None
    if found is None:
        raise BearerError("a first message in another form than n,,^Aauth=Bearer TOKEN^A^A")
    pairs = [pair.split("=", 1) for pair in found[2].split("\x01") if pair]
    bearers = [_BEARER.fullmatch(value) for key, value in pairs if key == "auth"]
    if len(bearers) != 1 or bearers[0] is None:
        raise BearerError("a first message without exactly one auth=Bearer TOKEN")
    authzid = (found[1] or "").replace("=2C", ",").replace("=3D", "=")
    return ClientInitial(authzid, bearers[0][1])


def read_key_set(text: bytes) -> list[Key]:
    """The keys of a JSON text; raises BearerError if it is no key set or has no key that could serve."""
    try:
        found = json.loads(text)["keys"]
        keys: list[Key] = [one for one in found if isinstance(one, dict)]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise BearerError("it is not a key set: a JSON object with a list 'keys'") from None
    usable = [key for key in keys if any(_fits(key, algorithm) for algorithm in _KINDS)]
    if not usable:
        raise BearerError(f"none of its {len(keys)} keys can check a signature of {', '.join(_KINDS)}")
    return usable


def check_token(token: str, keys: Sequence[Key], rules: TokenRules, now_ms: int) -> Accepted:
    """Raises TokenError, UnknownKeyError if a newer key set may know the token's key."""
    if len(token) > MOST_TOKEN_BYTES:
        raise TokenError(f"a token of {len(token)} bytes")
    header, claims, signature = _parts(token)
    if "crit" in header:
        raise TokenError("the header has 'crit'")
    algorithm = header.get("alg")
    if rules.unsecured:
        if algorithm != "none" or signature:
            raise TokenError("kohort.oauthbearer.unsecured accepts tokens with alg 'none' only")
        return _check_unsecured(claims, rules, now_ms / 1_000)
    if not isinstance(algorithm, str) or algorithm not in _KINDS:
        raise TokenError(f"the algorithm {str(algorithm)[:50]!r} is not accepted")
    _check_signature(token, _key_for(header, algorithm, keys), algorithm)
    return _check_claims(claims, rules, now_ms / 1_000)


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenError(f"a token of {len(parts)} parts")
    return _json(parts[0], "header"), _json(parts[1], "claims"), parts[2]


def _json(part: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise TokenError(f"the {what} of the token are not base64 of JSON") from None
    if not isinstance(found, dict):
        raise TokenError(f"the {what} of the token are not a JSON object")
    return found


def _key_for(header: Mapping[str, Any], algorithm: str, keys: Sequence[Key]) -> Key:
    fitting = [key for key in keys if _fits(key, algorithm)]
    key_id = header.get("kid")
    if key_id is None:
        if len(fitting) != 1:
            raise TokenError(f"no 'kid', and {len(fitting)} keys fit {algorithm}")
        return fitting[0]
    if not isinstance(key_id, str) or len(key_id) > 1_000:
        raise TokenError("the 'kid' is not text, or is too long")
    if not any(key.get("kid") == key_id for key in keys):
        raise UnknownKeyError(key_id)
    named = next((key for key in fitting if key.get("kid") == key_id), None)
    if named is None:
        raise TokenError(f"the key {key_id[:100]!r} is not for {algorithm}")
    return named


def _fits(key: Key, algorithm: str) -> bool:
    kind, curve = _KINDS[algorithm]
    operations = key.get("key_ops")
    return (
        key.get("kty") == kind
        and (curve is None or key.get("crv") == curve)
        and key.get("alg") in (None, algorithm)
        and key.get("use") in (None, "sig")
        and (operations is None or (isinstance(operations, list) and "verify" in operations))
        and (kind != "RSA" or _bits(key.get("n")) >= _LEAST_RSA_BITS)
    )


def _bits(number: object) -> int:
    """Of a number in base64, as RFC 7518 writes it."""
    if not isinstance(number, str):
        return 0
    try:
        return int.from_bytes(base64.urlsafe_b64decode(number + "=" * (-len(number) % 4))).bit_length()
    except (binascii.Error, ValueError):
        return 0


def _check_signature(token: str, key: Key, algorithm: str) -> None:
    import jwt

    try:
        # The algorithm is bound to the key: what the header says has been compared with it.
        jwt.PyJWS().decode(token, jwt.PyJWK(dict(key), algorithm), algorithms=[algorithm])
    except jwt.PyJWTError as error:
        raise TokenError(f"the signature cannot be believed: {type(error).__name__}") from None


def _check_claims(claims: Mapping[str, Any], rules: TokenRules, now: float) -> Accepted:
    """All that is checked once the signature is good."""
    expires, issued = _time(claims, "exp"), _time(claims, "iat")
    if expires is None or issued is None:
        raise TokenError("'exp' and 'iat' are required")
    if expires <= now:  # also within the skew: such a session would end with its first request
        raise TokenError("it has expired")
    if issued > now + rules.skew_seconds:
        raise TokenError("'iat' is in the future")
    begins = _time(claims, "nbf")
    if begins is not None and begins - rules.skew_seconds > now:
        raise TokenError("'nbf' is in the future")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenError(f"the issuer is {str(claims.get('iss'))[:200]!r}")
    if rules.audiences and not rules.audiences.intersection(_texts(claims.get("aud"))):
        raise TokenError(f"the audience is {str(claims.get('aud'))[:200]!r}")
    user = _user(claims, rules)
    _check_scope(claims, rules)
    return Accepted(user, int(expires * 1_000))


def _check_unsecured(claims: Mapping[str, Any], rules: TokenRules, now: float) -> Accepted:
    """The checks of Kafka for tokens without a signature."""
    user = _user(claims, rules)
    issued, begins, expires = (_time(claims, name) for name in ("iat", "nbf", "exp"))
    if expires is None or expires <= now:
        raise TokenError("'exp' is missing or past")
    if issued is not None and (issued > now or issued >= expires):
        raise TokenError("'iat' is in the future or not before 'exp'")
    if begins is not None and (begins >= expires or begins < (issued or begins)):
        raise TokenError("'nbf' is not before 'exp', or before 'iat'")
    _check_scope(claims, rules)
    return Accepted(user, int(expires * 1_000))


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**40:
        raise TokenError(f"{name!r} is not a time in seconds")
    return value


def _user(claims: Mapping[str, Any], rules: TokenRules) -> str:
    user = claims.get(rules.user_claim)
    # A name with line breaks could forge log lines; * would match every rule for all users.
    if not isinstance(user, str) or not user.strip() or not user.isprintable() or user == "*":
        raise TokenError(f"the claim {rules.user_claim!r} is not the name of a user")
    return user


def _check_scope(claims: Mapping[str, Any], rules: TokenRules) -> None:
    scope = claims.get(rules.scope_claim)
    given = set(scope.split() if isinstance(scope, str) else _texts(scope))
    if not given.issuperset(rules.required_scope):
        raise TokenError("the required scope is missing", "insufficient_scope")


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else ()
