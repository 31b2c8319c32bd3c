"""OAUTHBEARER: the first message, and which tokens are believed."""

from collections.abc import Mapping
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.broker.security.issuer import (
    KEY_OF,
    KEYS,
    claims,
    key_set,
    part,
    public_jwk,
    public_pem,
    signed,
    unsecured,
)

from kohort.security.bearer import (
    MOST_TOKEN_BYTES,
    Accepted,
    BearerError,
    TokenError,
    TokenRules,
    UnknownKeyError,
    check_token,
    read_client_initial,
    read_key_set,
)

NOW = 1_700_000_000
RULES = TokenRules(issuer="https://issuer", audiences=frozenset({"kafka", "other"}))
SET = read_key_set(key_set().encode())


def check(token: str, rules: TokenRules = RULES, keys: Any = SET) -> Accepted:  # noqa: ANN401
    return check_token(token, keys, rules, NOW * 1_000)


@pytest.mark.parametrize("algorithm", KEY_OF)
def test_each_algorithm_with_a_public_key_is_believed(algorithm: str) -> None:
    token = signed(claims(NOW), algorithm)
    assert check(token) == Accepted("alice", (NOW + 3_600) * 1_000)
    header, content, signature = token.split(".")
    assert content != part(claims(NOW, sub="admin"))
    with pytest.raises(TokenError, match="cannot be believed"):
        check(f"{header}.{part(claims(NOW, sub='admin'))}.{signature}")


def test_a_token_without_a_key_id_is_checked_by_the_only_key_that_fits() -> None:
    assert check(signed(claims(NOW), "ES256", kid=None)).user == "alice"
    two = [*SET, public_jwk("P-256", "second")]
    with pytest.raises(TokenError, match="2 keys fit ES256"):
        check(signed(claims(NOW), "ES256", kid=None), keys=two)


def with_secret(secret: bytes) -> str:
    """What PyJWT itself would not make: a public key as the secret of a symmetric algorithm."""
    signing = f"{part({'alg': 'HS256', 'kid': 'RSA'})}.{part(claims(NOW))}"
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(
        signing.encode(), secret
    )
    return f"{signing}.{jwt.utils.base64url_encode(signature).decode()}"


HEADERS: Mapping[str, str] = {
    "no signature": unsecured(claims(NOW), kid="RSA"),
    "no signature, in capitals": unsecured(claims(NOW), kid="RSA", alg="NONE"),
    "the public key as a secret": with_secret(public_pem()),
    "an empty secret": with_secret(b""),
    "an algorithm that is a list": unsecured(claims(NOW), alg=["RS256"]),
    "no algorithm": f"{part({})}.{part(claims(NOW))}.",
    "the key of another algorithm": signed(claims(NOW), "RS256", kid="P-256"),
    "crit": signed(claims(NOW), crit=["exp"]),
    "a key id that is a number": f"{part({'alg': 'RS256', 'kid': 1})}.{part(claims(NOW))}.c2ln",
    "a long key id": signed(claims(NOW), kid="x" * 1_001),
    "two parts": "a.b",
    "four parts": signed(claims(NOW)) + ".x",
    "no base64": "!.!.!",
    "no JSON": "eA.eA.eA",
    "a list for claims": f"{part({'alg': 'none'})}.{part([])}.",
    "deep nesting": f"{part({'alg': 'RS256'})}.{'W1tb' * 3_000}.eA",
    "a large token": "a" * (MOST_TOKEN_BYTES + 1),
    "a changed signature": signed(claims(NOW))[:-6] + "AAAAAA",
    "an empty signature": signed(claims(NOW)).rpartition(".")[0] + ".",
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_token_that_proves_nothing_is_refused(case: str) -> None:
    with pytest.raises(TokenError) as refused:
        check(HEADERS[case])
    assert refused.value.status == "invalid_token"


@pytest.mark.parametrize("header", ["jku", "x5u", "jwk", "x5c"])
def test_keys_that_a_token_brings_along_are_not_used(header: str) -> None:
    other = rsa.generate_private_key(65_537, 2_048)
    brought = {"jwk": public_jwk("RSA", "RSA", other)}.get(header, "https://127.0.0.1:1/keys")
    token = jwt.encode(claims(NOW), other, "RS256", headers={"kid": "RSA", header: brought})
    with pytest.raises(TokenError, match="cannot be believed"):
        check(token)


CLAIMS: Mapping[str, dict[str, object]] = {
    "another issuer": {"iss": "https://issuer/"},
    "no issuer": {"iss": None},
    "another audience": {"aud": "kafkas"},
    "no audience": {"aud": None},
    "an audience in a list of lists": {"aud": [["kafka"]]},
    "expired": {"exp": NOW},
    "expired within the skew": {"exp": NOW - 1},
    "no end": {"exp": None},
    "an end that is text": {"exp": str(NOW + 10)},
    "an end that is true": {"exp": True},
    "an infinite end": {"exp": float("inf")},
    "an end that is not a number": {"exp": float("nan")},
    "not issued": {"iat": None},
    "issued in the future": {"iat": NOW + 31},
    "begins in the future": {"nbf": NOW + 31},
    "no user": {"sub": None},
    "a blank user": {"sub": "  "},
    "a user that is a list": {"sub": ["alice"]},
    "all users": {"sub": "*"},
    "a user with a line break": {"sub": "alice\nUser:admin"},
}


@pytest.mark.parametrize("case", CLAIMS)
def test_a_token_with_wrong_claims_is_refused(case: str) -> None:
    signing = f"{part({'alg': 'RS256', 'kid': 'RSA'})}.{part(claims(NOW, **CLAIMS[case]))}"
    algorithm = jwt.algorithms.get_default_algorithms()["RS256"]
    signature = jwt.utils.base64url_encode(algorithm.sign(signing.encode(), KEYS["RSA"])).decode()
    with pytest.raises(TokenError) as refused:
        check(f"{signing}.{signature}")
    assert "cannot be believed" not in str(refused.value)


@pytest.mark.parametrize(
    "changed", [{"iat": NOW + 30}, {"nbf": NOW + 30}, {"aud": ["x", "other"]}, {"exp": NOW + 0.5}]
)
def test_clocks_may_differ_a_little_and_one_audience_is_enough(changed: dict[str, object]) -> None:
    assert check(signed(claims(NOW, **changed))).user == "alice"


@pytest.mark.parametrize(
    ("scope", "is_enough"),
    [("read write", True), (["write", "read", "x"], True), ("read", False), (None, False), (7, False)],
)
def test_a_required_scope_must_be_there_as_a_whole(scope: object, is_enough: bool) -> None:
    rules = RULES._replace(required_scope=("read", "write"), scope_claim="scp", user_claim="azp")
    token = signed(claims(NOW, scp=scope, azp="service"))
    if is_enough:
        assert check(token, rules).user == "service"
        return
    with pytest.raises(TokenError) as refused:
        check(token, rules)
    assert refused.value.status == "insufficient_scope"


def test_a_key_that_is_not_in_the_set_is_named() -> None:
    with pytest.raises(UnknownKeyError) as unknown:
        check(signed(claims(NOW), kid="rotated"))
    assert unknown.value.key_id == "rotated"


@pytest.mark.parametrize(
    "change",
    [
        {"use": "enc"},
        {"key_ops": ["sign"]},
        {"key_ops": "verify"},
        {"alg": "RS512"},
        {"kty": "oct", "k": "AA"},
    ],
)
def test_a_key_that_is_for_something_else_checks_nothing(change: dict[str, object]) -> None:
    keys = [public_jwk("RSA") | change, public_jwk("P-256")]
    with pytest.raises(TokenError, match="is not for RS256"):
        check(signed(claims(NOW)), keys=keys)


def test_a_weak_rsa_key_checks_nothing() -> None:
    weak = rsa.generate_private_key(65_537, 1_024)
    with pytest.raises(BearerError, match="none of its 1 keys"):
        read_key_set(key_set(public_jwk("RSA", "weak", weak)).encode())


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"keys":[]}', b'{"keys":[1]}', b'{"keys":7}', b"[" * 9_999]
)
def test_a_text_that_is_no_key_set_is_refused(text: bytes) -> None:
    with pytest.raises(BearerError):
        read_key_set(text)


UNSECURED = TokenRules(unsecured=True, required_scope=("a",))


def test_an_unsecured_token_counts_only_where_it_is_asked_for() -> None:
    good = claims(NOW, iss=None, aud=None, iat=None, scope="a b")
    assert check(unsecured(good), UNSECURED) == Accepted("alice", (NOW + 3_600) * 1_000)
    with pytest.raises(TokenError):
        check(unsecured(good), TokenRules())
    with pytest.raises(TokenError, match="'none' only"):
        check(signed(good), UNSECURED)
    with pytest.raises(TokenError, match="'none' only"):
        check(unsecured(good) + "eA", UNSECURED)


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": NOW},
        {"exp": None},
        {"iat": NOW + 1},
        {"nbf": NOW + 3_600},
        {"nbf": NOW - 10, "iat": NOW - 5},
        {"sub": None},
        {"scope": "b"},
    ],
)
def test_an_unsecured_token_is_checked_as_by_kafka(changed: dict[str, object]) -> None:
    with pytest.raises(TokenError):
        check(unsecured(claims(NOW, **{"scope": "a", **changed})), UNSECURED)


@pytest.mark.parametrize(
    ("message", "authzid", "token"),
    [
        (b"n,,\x01auth=Bearer a.b.c\x01\x01", "", "a.b.c"),
        (b"n,a=al=2Cic=3De,\x01auth=bEARER   a.b-_~+/.c==\x01\x01", "al,ic=e", "a.b-_~+/.c=="),
        (b"n,,\x01host=x y\x01auth=Bearer t\x01port=1\r\n\x01\x01", "", "t"),
    ],
)
def test_the_first_message_is_read(message: bytes, authzid: str, token: str) -> None:
    assert read_client_initial(message) == (authzid, token)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer t\x01\x01",
        b"n,\x01auth=Bearer t\x01\x01",
        b"n,,auth=Bearer t\x01\x01",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer t\x01",
        b"n,,\x01auth=Bearer t\x01\x01\x01",
        b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01",
        b"n,,\x01auth=Bearer t\x01a1=x\x01\x01",
        b"n,a=a=2X,\x01auth=Bearer t\x01\x01",
        b"n,a=\xc3\xa9,\x01auth=Bearer t\x01\x01",
    ],
)
def test_a_malformed_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(BearerError):
        read_client_initial(message)
