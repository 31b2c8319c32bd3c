"""The clients of Java, Go and JavaScript at a secured Kohort: over TLS, with a log-in that is renewed."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.security.issuer import claims, key_set, signed
from tests.broker.security.secured import USERS, Certificates, RunningServer, serving
from tests.broker.security.test_doors import count_log_ins
from tests.interop.conftest import need
from tests.interop.peers import CLIENTS, Client, PeerError, run_steps, started
from tests.interop.test_groups import values

from kohort.security.acls import AclResourceType, Operation

pytestmark = [pytest.mark.interop, pytest.mark.slow]

RECORDS = 1_000
SESSION_MS = 1_500  # a shorter one cannot be renewed twice: a second must lie between two log-ins


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, Certificates]]:
    certificates = Certificates(tmp_path_factory.mktemp("secured"))
    settings = certificates.settings(
        sasl_enabled_mechanisms="SCRAM-SHA-256,PLAIN",
        connections_max_reauth_ms=str(SESSION_MS),
        connection_failed_authentication_delay_ms="0",
        group_initial_rebalance_delay_ms="0",
    )
    with serving("SASL_SSL", settings=settings) as server:
        yield server, certificates


# KafkaJS begins ten seconds before the end of a session, so these sessions are too short for it.
RENEWING = [client for client in CLIENTS if client.name != "kafkajs"]


@pytest.mark.parametrize("client", RENEWING, ids=str)
def test_a_client_logs_in_and_again_while_records_go_through_a_group(
    secured: tuple[RunningServer, Certificates], client: Client
) -> None:
    """Security scenarios 42, 54. Given sessions of 1.5 s, when 1,000 records go through a group whose member
    stays for several sessions, then there is no error and no record is lost.
    """
    need(client.peer)
    server, certificates = secured
    address, topic = f"localhost:{server.ports['SASL_SSL']}", f"secured-{client}"
    options: dict[str, object] = {
        "ca": certificates.ca, "user": "alice", "password": USERS["alice"], "topic": topic, "group": topic,
    }  # fmt: skip
    run_steps(client, address, "create,spread", count=RECORDS, **options)
    log_ins = count_log_ins(server)
    with started(client, address, "group", **options) as member:
        member.until("every record", lambda peer: len(values(peer)) >= RECORDS)
        renewed = len(log_ins) + 6
        member.until_outside("log-ins on open connections", lambda: len(log_ins) >= renewed)
        run_steps(client, address, "spread", count=30, **options)
        member.until("more records", lambda peer: len(values(peer)) >= RECORDS + 30)
        member.leave()
        assert sorted(values(member)) == sorted(
            [f"v{number}" for number in range(RECORDS)] + [f"v{number}" for number in range(30)]
        )


WAYS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER", "TLS", "mutual TLS")


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, Certificates]]:
    """A broker with a listener for each way in: one with log-ins, one for which TLS is enough, one for
    certificates. Its sessions do not end.
    """
    certificates = Certificates(tmp_path_factory.mktemp("ways"))
    certificates.issue("alice")
    keys = Path(certificates.write("keys.json", key_set()))
    certificates.write("token", signed(claims(time.time()), "ES256"))
    settings = certificates.settings(
        listener_security_protocol_map="SASL_SSL:SASL_SSL,SSL:SSL,MUTUAL:SSL",
        sasl_enabled_mechanisms="SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        sasl_oauthbearer_expected_issuer="https://issuer",
        sasl_oauthbearer_jwks_endpoint_url=keys.as_uri(),
        listener_name_mutual_ssl_client_auth="required",
        group_initial_rebalance_delay_ms="0",
    )
    with serving("SASL_SSL", "SSL", "MUTUAL", settings=settings) as server:
        yield server, certificates


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_a_thousand_records_go_through_a_group_by_each_way_in(
    ways: tuple[RunningServer, Certificates], client: Client, way: str
) -> None:
    """Security scenario 54. Given TLS alone, mutual TLS, or a mechanism, then no record is lost."""
    need(client.peer)
    server, certificates = ways
    listener = {"TLS": "SSL", "mutual TLS": "MUTUAL"}.get(way, "SASL_SSL")
    options: dict[str, object] = {
        "ca": certificates.ca, "user": "alice", "password": USERS["alice"],
        "mechanism": way if listener == "SASL_SSL" else "none",
        "token": certificates.directory / "token",
        "topic": f"{client}-{way}".replace(" ", "-"), "group": f"{client}-{way}",
    }  # fmt: skip
    if way == "mutual TLS":
        options["certificate"] = certificates.directory / "alice.pem"
    steps = "create,spread,group"
    events = run_steps(
        client, f"localhost:{server.ports[listener]}", steps, count=RECORDS, records=RECORDS, **options
    )
    found = [event["value"] for event in events if event["event"] == "record"]
    assert sorted(found) == sorted(f"v{number}" for number in range(RECORDS))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, Certificates]]:
    """A broker with rules."""
    certificates = Certificates(tmp_path_factory.mktemp("guarded"))
    settings = certificates.settings(
        sasl_enabled_mechanisms="SCRAM-SHA-256",
        group_initial_rebalance_delay_ms="0",
        authorizer="acl",
        super_users="User:admin",
    )
    with serving("SASL_SSL", settings=settings) as server:
        yield server, certificates


# The client's own words.
NO_TOPIC = r"(?i)topic.?authorization|authorized to access (this )?topic"
NO_GROUP = r"(?i)group.?authorization|authorized to access (this )?group"


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_a_client_names_the_right_it_lacks_and_ends(
    guarded: tuple[RunningServer, Certificates], client: Client
) -> None:
    """Security scenario 53. A right is missing on the topic to produce, on the group, on the topic to
    consume. With all three (and without IDEMPOTENT_WRITE, which WRITE implies) no record is lost.
    """
    need(client.peer)
    server, certificates = guarded
    address, topic = f"localhost:{server.ports['SASL_SSL']}", f"guarded-{client}"
    at: dict[str, object] = {"ca": certificates.ca, "topic": topic, "group": topic}
    alice = at | {"user": "alice", "password": USERS["alice"]}
    run_steps(client, address, "create", **at, user="admin", password=USERS["admin"])
    server.allow(AclResourceType.TOPIC, "another", Operation.WRITE)  # enough for InitProducerId
    server.allow(AclResourceType.TOPIC, topic, Operation.READ)
    with pytest.raises(PeerError, match=NO_TOPIC):
        run_steps(client, address, "spread", count=1, **alice)
    with pytest.raises(PeerError, match=NO_GROUP):
        run_steps(client, address, "group", records=1, **alice)
    server.allow(AclResourceType.GROUP, topic, Operation.READ)
    with pytest.raises(PeerError, match=NO_TOPIC):
        run_steps(client, address, "group", records=1, **alice | {"topic": "hidden"})
    server.allow(AclResourceType.TOPIC, topic, Operation.WRITE)
    events = run_steps(client, address, "spread,group", count=30, records=30, **alice)
    found = [event["value"] for event in events if event["event"] == "record"]
    assert sorted(found) == sorted(f"v{number}" for number in range(30))


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_a_client_with_a_wrong_password_says_so(
    secured: tuple[RunningServer, Certificates], client: Client
) -> None:
    """Security scenario 55. Given a wrong password, then the client reports an authentication error."""
    need(client.peer)
    server, certificates = secured
    address = f"localhost:{server.ports['SASL_SSL']}"
    with pytest.raises(PeerError, match=r"(?i)authentication|sasl|credentials"):
        run_steps(client, address, "connect", ca=certificates.ca, user="alice", password="wrong")
