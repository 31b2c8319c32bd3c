"""An issuer of tokens: keys of each kind, their key set, and a small HTTP server with both endpoints."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

KEYS: dict[str, Any] = {
    "RSA": rsa.generate_private_key(65_537, 2_048),
    "P-256": ec.generate_private_key(ec.SECP256R1()),
    "P-384": ec.generate_private_key(ec.SECP384R1()),
    "P-521": ec.generate_private_key(ec.SECP521R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate(),
}
KEY_OF = {
    **{f"{kind}{size}": "RSA" for kind in ("RS", "PS") for size in (256, 384, 512)},
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
    "EdDSA": "Ed25519",
}
ALGORITHMS = {"RSA": "RS256", "P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA"}


def public_jwk(
    kind: str,
    key_id: str | None = None,
    private: Any = None,  # noqa: ANN401
) -> dict[str, Any]:
    algorithm = jwt.algorithms.get_default_algorithms()[ALGORITHMS[kind]]
    found = json.loads(algorithm.to_jwk((private or KEYS[kind]).public_key()))
    found.pop("key_ops", None)
    return {**found, "kid": key_id or kind}


def key_set(*keys: Mapping[str, Any]) -> str:
    return json.dumps({"keys": list(keys) or [public_jwk(kind) for kind in KEYS]})


def public_pem(kind: str = "RSA") -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    pem: bytes = KEYS[kind].public_key().public_bytes(encoding, form)
    return pem


def claims(now: float, **changed: object) -> dict[str, Any]:
    """Good ones for an hour; None leaves one out."""
    good = {"iss": "https://issuer", "aud": "kafka", "sub": "alice", "iat": int(now), "exp": int(now) + 3_600}
    return {name: value for name, value in {**good, **changed}.items() if value is not None}


def signed(content: Mapping[str, Any], algorithm: str = "RS256", **header: object) -> str:
    kind = KEY_OF[algorithm]
    headers = {name: value for name, value in {"kid": kind, **header}.items() if value is not None}
    return jwt.encode(dict(content), KEYS[kind], algorithm, headers=headers)


def part(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def unsecured(content: Mapping[str, Any], **header: object) -> str:
    return f"{part({'alg': 'none', **header})}.{part(content)}."


class Issuer:
    """Answers GET with the key set, and POST with a token for clients that know the secret."""

    def __init__(self) -> None:
        self.keys = key_set()
        self.asked = 0
        self.posts: list[tuple[str, str]] = []  # the log-in and the form of each
        self.status = 200
        self.answer: dict[str, Any] = {}
        self.redirect = ""
        self.url = ""
        self._asked = threading.Condition()

    def note_asked(self) -> None:
        with self._asked:
            self.asked += 1
            self._asked.notify_all()

    def wait_until_asked(self, more: int) -> None:
        """Until the key set has been asked for so many times from now on."""
        with self._asked:
            wanted = self.asked + more
            assert self._asked.wait_for(lambda: self.asked >= wanted, timeout=30)


@contextmanager
def issuing(context: ssl.SSLContext | None = None) -> Iterator[Issuer]:
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.note_asked()
            self._reply(issuer.keys.encode())

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            issuer.posts.append((self.headers.get("Authorization", ""), form))
            self._reply(json.dumps(issuer.answer).encode())

        def _reply(self, body: bytes) -> None:
            self.send_response(302 if issuer.redirect else issuer.status)
            if issuer.redirect:
                self.send_header("Location", issuer.redirect)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    issuer.url = f"http{'' if context is None else 's'}://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
