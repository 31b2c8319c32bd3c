"""Log-ins (security 3): what Kafka's state machine answers, and what it leaves unanswered."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.asking import metadata
from tests.broker.raw import Raw, Reply, framed
from tests.broker.security.secured import USERS, Login, RunningServer, serving

from kohort.broker.clock import VirtualClock
from kohort.model.errors import ErrorCode, KohortError
from kohort.security.scram import ScramClient, ScramMechanism, salted_password
from kohort.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest

SETTINGS = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN,SCRAM-SHA-512",
    "connection.failed.authentication.delay.ms": "1",
}
SHA_256 = ScramMechanism.SHA_256
VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")


@pytest.fixture
def running() -> Iterator[RunningServer]:
    with serving("SASL_PLAINTEXT", settings=SETTINGS) as server:
        yield server


@pytest.fixture
def raw(running: RunningServer) -> Iterator[Raw]:
    with Raw(running.address("SASL_PLAINTEXT")) as connection:
        yield connection


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_scram_lets_in_who_knows_the_password(raw: Raw, mechanism: ScramMechanism) -> None:
    reply = Login(raw).scram(mechanism, "alice", USERS["alice"])
    assert (reply.error_code, reply.error_message, reply.session_lifetime_ms) == (0, "", 0)
    assert metadata(raw).brokers


@pytest.mark.parametrize("version", [0, 1, 2])
def test_plain_lets_in_who_knows_the_password(raw: Raw, version: int) -> None:
    reply = Login(raw, version=version).plain("alice", USERS["alice"])
    assert (reply.error_code, reply.auth_bytes) == (0, b"")
    assert metadata(raw).brokers


@pytest.mark.parametrize("user", ["alice", "nobody"])
@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_a_wrong_password_and_an_unknown_user_look_alike(
    raw: Raw, user: str, mechanism: ScramMechanism
) -> None:
    """Security scenario 27. See security 9."""
    reply = Login(raw).scram(mechanism, user, "wrong")
    assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert reply.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        + mechanism.value
    )
    assert raw.is_closed()


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"alice\0x", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0x\0y\0z", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0wrong", "Authentication failed: Invalid username or password"),
        (b"bob\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_plain_says_what_is_wrong_in_kafkas_words_and_order(raw: Raw, token: bytes, message: str) -> None:
    """Security trap 1. See security 10."""
    login = Login(raw)
    login.handshake("PLAIN")
    reply = login.token(token)
    assert (reply.error_code, reply.error_message) == (58, message)
    assert raw.is_closed()


@pytest.mark.parametrize(
    "first",
    [b"y,,n=alice,r=x", b"p=tls-unique,,n=alice,r=x", b"n,,n=al=2Xice,r=x", b"n,,n=alice", b"", b"\0\xff"],
)
def test_malformed_scram_messages_fail_with_the_general_text(raw: Raw, first: bytes) -> None:
    login = Login(raw)
    login.handshake("SCRAM-SHA-256")
    reply = login.token(first)
    assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert reply.error_message.endswith("with SASL mechanism SCRAM-SHA-256")
    assert raw.is_closed()


def test_a_request_before_the_log_in_is_closed_without_a_reply(raw: Raw) -> None:
    raw.post(MetadataRequest(topics=[]), 12)
    assert raw.is_closed()


def test_api_versions_is_answered_once_and_again_only_after_an_unsupported_version(raw: Raw) -> None:
    assert raw.send(VERSIONS, 4).error_code == 0
    raw.post(VERSIONS, 3)
    assert raw.is_closed()


def test_api_versions_of_a_version_to_come_may_be_followed_by_one_that_is_served(raw: Raw) -> None:
    raw.send_bytes(raw.frame_of(18, 4, b"")[:6] + b"\0\x63" + raw.frame_of(18, 4, b"")[8:])
    assert raw.receive_once()[8:10] == b"\0\x23"
    raw._waiting.clear()
    assert raw.send(VERSIONS, 3).error_code == 0
    assert Login(raw).plain("alice", USERS["alice"]).error_code == 0


@pytest.mark.parametrize("mechanism", ["plain", "GSSAPI", ""])
def test_a_mechanism_that_is_not_enabled_gets_the_list_and_is_closed(raw: Raw, mechanism: str) -> None:
    reply = Login(raw).handshake(mechanism)
    assert reply.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert reply.mechanisms == ["SCRAM-SHA-256", "PLAIN", "SCRAM-SHA-512"]
    assert raw.is_closed()


@pytest.mark.parametrize(
    ("request_", "version"), [(SaslHandshakeRequest(mechanism="PLAIN"), 1), (VERSIONS, 3)]
)
def test_another_request_in_the_middle_gets_illegal_sasl_state(
    raw: Raw, request_: SaslHandshakeRequest | ApiVersionsRequest, version: int
) -> None:
    Login(raw).handshake("PLAIN")
    assert raw.send(request_, version).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert raw.is_closed()


def test_api_versions_of_an_unknown_version_in_the_middle_is_closed_without_a_reply(raw: Raw) -> None:
    Login(raw).handshake("PLAIN")
    frame = raw.frame_of(18, 4, b"")
    raw.send_bytes(frame[:6] + b"\0\x63" + frame[8:])
    assert raw.is_closed()


def test_after_a_handshake_of_version_0_tokens_have_no_header(raw: Raw) -> None:
    Login(raw).handshake("PLAIN", 0)
    raw.send_bytes(framed(b"\0alice\0alice-secret"))
    assert raw.receive_once() == b"\0\0\0\0"
    assert metadata(raw).brokers


def test_a_bad_token_without_a_header_is_closed_without_a_word(raw: Raw) -> None:
    Login(raw).handshake("PLAIN", 0)
    raw.send_bytes(framed(b"\0alice\0wrong"))
    assert raw.is_closed()


def test_after_the_log_in_sasl_requests_are_out_of_place_but_harmless(raw: Raw) -> None:
    login = Login(raw)
    login.plain("alice", USERS["alice"])
    assert login.handshake("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    late = login.token(b"x")
    assert late.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert late.error_message == "SaslAuthenticate request received after successful authentication"
    assert metadata(raw).brokers


@pytest.mark.parametrize("password", ["alice-secret", "wrong"])
def test_what_is_sent_behind_the_token_is_served_only_if_the_log_in_succeeds(raw: Raw, password: str) -> None:
    """Security scenario 62. See security 9."""
    Login(raw).handshake("PLAIN")
    token = SaslAuthenticateRequest(auth_bytes=f"\0alice\0{password}".encode())
    raw.send_bytes(raw.frame(token, 2) + raw.frame(MetadataRequest(topics=None), 12))
    reply = raw.take()
    if reply.error_code:
        assert raw.is_closed()
    else:
        assert raw.take().brokers


def test_a_frame_above_the_limit_is_closed_before_the_log_in(raw: Raw) -> None:
    raw.send_bytes((600_000).to_bytes(4, "big") + b"\0\0\0\x0c")
    assert raw.is_closed()


def test_the_log_names_a_failed_log_in_but_no_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        serving("SASL_PLAINTEXT", settings=SETTINGS) as running,
        Raw(running.address("SASL_PLAINTEXT")) as raw,
    ):
        Login(raw).plain("alice", "hush-hush")
    assert "failed log-in from 127.0.0.1 at listener SASL_PLAINTEXT" in caplog.text
    assert "hush-hush" not in caplog.text


# Users


def upsertion(user: str, password: str, **change: object) -> ScramCredentialUpsertion:
    wanted = ScramCredentialUpsertion(
        name=user,
        mechanism=1,
        iterations=4_096,
        salt=b"salt",
        salted_password=salted_password(SHA_256, password, b"salt", 4_096),
    )
    for name, value in change.items():
        setattr(wanted, name, value)
    return wanted


def alter(raw: Raw, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> list[tuple[str, int]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
    )
    return [(one.user, one.error_code) for one in raw.send(request, 0).results]


def describe(raw: Raw, *users: str) -> Reply:
    wanted = [UserName(name=user) for user in users] or None
    return raw.send(DescribeUserScramCredentialsRequest(users=wanted), 0)


def test_users_come_and_go_and_survive_a_restart(tmp_path: Path) -> None:
    """Security scenario 32. See security 9."""
    for start in range(2):
        with serving("SASL_PLAINTEXT", "PLAINTEXT", settings=SETTINGS, data=tmp_path) as running:
            with Raw(running.address("PLAINTEXT")) as raw:
                if start == 0:
                    assert alter(raw, upsertion("carol", "carol-secret")) == [("carol", 0)]
                (found,) = describe(raw, "carol").results
                assert [(one.mechanism, one.iterations) for one in found.credential_infos] == [(1, 4_096)]
            for log_in in ("plain", "scram"):
                with Raw(running.address("SASL_PLAINTEXT")) as raw:
                    login = Login(raw)
                    if log_in == "plain":
                        assert login.plain("carol", "carol-secret").error_code == 0
                    else:
                        assert login.scram(SHA_256, "carol", "carol-secret").error_code == 0
            if start == 1:
                with Raw(running.address("PLAINTEXT")) as raw:
                    assert alter(raw, ScramCredentialDeletion(name="carol", mechanism=1)) == [("carol", 0)]
                with Raw(running.address("SASL_PLAINTEXT")) as raw:
                    assert (
                        Login(raw).plain("carol", "carol-secret").error_code
                        == ErrorCode.SASL_AUTHENTICATION_FAILED
                    )
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"carol" in stored
    assert b"carol-secret" not in stored
    assert salted_password(SHA_256, "carol-secret", b"salt", 4_096) not in stored


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion("", "p"), 93),
        (upsertion("*", "p"), 93),
        (upsertion("u", "p", mechanism=0), 33),
        (upsertion("u", "p", mechanism=3), 33),
        (upsertion("u", "p", iterations=4_095), 93),
        (upsertion("u", "p", iterations=16_385), 93),
        (upsertion("u", "p", salt=b""), 93),
        (upsertion("u", "p", salted_password=b"short"), 93),
        (ScramCredentialDeletion(name="u", mechanism=1), 91),
    ],
)
def test_a_credential_that_cannot_be_is_refused_and_changes_nothing(
    running: RunningServer, change: ScramCredentialUpsertion | ScramCredentialDeletion, code: int
) -> None:
    """Security trap 6. See security 10."""
    with Raw(running.address("SASL_PLAINTEXT")) as raw:
        Login(raw).plain("admin", USERS["admin"])
        before = len(describe(raw).results)
        assert alter(raw, change) == [(change.name, code)]
        assert len(describe(raw).results) == before


def test_a_user_named_twice_is_refused_and_the_others_are_stored(raw: Raw) -> None:
    Login(raw).plain("admin", USERS["admin"])
    twice = upsertion("twice", "p")
    assert sorted(alter(raw, twice, upsertion("once", "p"), twice)) == [("once", 0), ("twice", 92)]
    assert alter(raw, ScramCredentialDeletion(name="once", mechanism=1)) == [("once", 0)]
    results = describe(raw, "once", "alice", "alice").results
    assert [(one.user, one.error_code) for one in results] == [("once", 91), ("alice", 92)]


def test_an_invented_user_is_challenged_as_most_users_are(running: RunningServer) -> None:
    """Salts and iterations tell nothing about who exists, also when another tool made the users."""

    def challenge(user: str) -> ScramClient:
        with Raw(running.address("SASL_PLAINTEXT")) as raw:
            client, login = ScramClient(SHA_256, user, "nonce"), Login(raw)
            login.handshake(SHA_256.value)
            client.challenge(login.token(client.first()).auth_bytes)
            return client

    with Raw(running.address("SASL_PLAINTEXT")) as raw:
        Login(raw).plain("admin", USERS["admin"])
        for number in range(5):
            user = upsertion(f"u{number}", "p", salt=b"s" * 26, iterations=8_192)
            assert alter(raw, user) == [(user.name, 0)]
    known, invented = challenge("u1"), challenge("invented")
    assert (invented.iterations, len(invented.salt)) == (known.iterations, len(known.salt)) == (8_192, 26)
    assert challenge("invented").salt == invented.salt != challenge("another").salt


# Sessions that end


REAUTH = SETTINGS | {"connections.max.reauth.ms": "2000"}


@pytest.fixture
def session() -> Iterator[tuple[Raw, RunningServer, VirtualClock]]:
    clock = VirtualClock()
    with (
        serving("SASL_PLAINTEXT", settings=REAUTH, clock=clock) as running,
        Raw(running.address("SASL_PLAINTEXT")) as raw,
    ):
        assert Login(raw).plain("alice", USERS["alice"]).session_lifetime_ms == 2_000
        yield raw, running, clock


Session = tuple[Raw, RunningServer, VirtualClock]


def test_a_request_after_the_end_of_the_session_is_closed_without_a_reply(session: Session) -> None:
    raw, running, clock = session
    assert metadata(raw).brokers
    running.loop.do(lambda: clock.advance(2_000))
    raw.post(MetadataRequest(topics=[]), 12)
    assert raw.is_closed()


def test_a_peer_may_log_in_again_even_after_the_end_of_its_session(session: Session) -> None:
    raw, running, clock = session
    for _ in range(3):
        running.loop.do(lambda: clock.advance(3_000))
        assert Login(raw).plain("alice", USERS["alice"]).session_lifetime_ms == 2_000
        assert metadata(raw).brokers


def test_a_second_log_in_within_a_second_is_an_ordinary_request(session: Session) -> None:
    raw, running, clock = session
    running.loop.do(lambda: clock.advance(1_500))
    login = Login(raw)
    assert login.plain("alice", USERS["alice"]).error_code == 0
    assert login.handshake("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert metadata(raw).brokers


def test_a_log_in_as_another_user_is_refused(session: Session) -> None:
    raw, _, _ = session
    reply = Login(raw).plain("bob", USERS["bob"])
    text = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert (reply.error_code, reply.error_message) == (58, text)
    assert raw.is_closed()


def test_a_log_in_with_another_mechanism_is_closed_without_a_reply_to_its_token(session: Session) -> None:
    raw, _, _ = session
    login = Login(raw)
    assert login.handshake("SCRAM-SHA-256").error_code == 0
    raw.post(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=x"), 2)
    assert raw.is_closed()


# Peers that do not log in


def test_a_peer_that_does_not_log_in_is_closed_and_others_go_on() -> None:
    settings = SETTINGS | {"kohort.authentication.timeout.ms": "200"}
    with serving("SASL_PLAINTEXT", settings=settings) as running:
        address = running.address("SASL_PLAINTEXT")
        with Raw(address) as other, Raw(address) as silent:
            assert Login(other).plain("alice", USERS["alice"]).error_code == 0
            assert silent.is_closed()
            assert metadata(other).brokers


def test_a_peer_cannot_ask_for_versions_without_end(raw: Raw) -> None:
    """Each is answered, so a peer that has not logged in could keep the broker busy."""
    for _ in range(10):
        frame = raw.frame_of(18, 4, b"")
        raw.send_bytes(frame[:6] + b"\0\x63" + frame[8:])
        assert raw.receive_once()[8:10] == b"\0\x23"
    raw.send_bytes(frame[:6] + b"\0\x63" + frame[8:])
    assert raw.is_closed()


def test_more_passwords_than_can_be_checked_close_the_connection_which_clients_try_again(
    running: RunningServer, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.server.broker.users, "_waiting", 64)
    login = Login(raw)
    login.handshake("PLAIN")
    raw.post(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2)
    assert raw.is_closed()
    monkeypatch.undo()
    with Raw(running.address("SASL_PLAINTEXT")) as again:
        assert Login(again).plain("alice", USERS["alice"]).error_code == 0


def test_one_address_has_32_peers_that_have_not_logged_in_and_the_oldest_gives_way() -> None:
    with serving("SASL_PLAINTEXT", settings=SETTINGS) as running:
        address = running.address("SASL_PLAINTEXT")
        silent = [Raw(address) for _ in range(40)]
        try:
            with Raw(address) as other:
                assert Login(other).plain("alice", USERS["alice"]).error_code == 0
            assert all(raw.is_closed() for raw in silent[:9])
        finally:
            for raw in silent:
                raw.close()


@pytest.mark.parametrize(
    "settings", [{}, {"sasl.enabled.mechanisms": "GSSAPI"}, {"sasl.enabled.mechanisms": "plain"}]
)
def test_a_sasl_listener_needs_mechanisms_that_exist(settings: dict[str, str]) -> None:
    with (
        pytest.raises(KohortError, match=r"mechanism|not supported"),
        serving("SASL_PLAINTEXT", settings=settings),
    ):
        pass


def test_users_of_the_jaas_setting_can_log_in_with_plain() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_dora="dora-secret";'
    settings = SETTINGS | {"listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas}
    with serving("SASL_PLAINTEXT", settings=settings) as running:
        for password, code in (("dora-secret", 0), ("wrong", 58)):
            with Raw(running.address("SASL_PLAINTEXT")) as raw:
                assert Login(raw).plain("dora", password).error_code == code


def test_a_password_of_the_jaas_setting_may_be_in_a_file_or_a_variable_and_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("of-the-file\n")
    monkeypatch.setenv("DORAS_PASSWORD", "of-the-variable")
    users = f'user_anna="@{file}" user_dora="env:DORAS_PASSWORD" user_ella="@@literal"'
    jaas = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
    settings = SETTINGS | {"listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas}
    with serving("SASL_PLAINTEXT", settings=settings) as running:

        def code(user: str, password: str) -> int:
            with Raw(running.address("SASL_PLAINTEXT")) as raw:
                return int(Login(raw).plain(user, password).error_code)

        assert code("anna", "of-the-file") == code("dora", "of-the-variable") == code("ella", "@literal") == 0
        assert code("anna", f"@{file}") == code("dora", "env:DORAS_PASSWORD") == 58
        file.write_text("a new one\n")
        assert code("anna", "of-the-file") == 58
        assert code("anna", "a new one") == 0
        file.unlink()
        with pytest.raises(ConnectionError):  # clients try again
            code("anna", "a new one")
    with (
        pytest.raises(KohortError, match="cannot read the file"),
        serving("SASL_PLAINTEXT", settings=settings),
    ):
        pass
