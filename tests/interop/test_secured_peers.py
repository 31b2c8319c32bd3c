"""The clients of Java, Go and JavaScript at a secured Kohort: over TLS, with a log-in that is renewed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.security.secured import USERS, Certificates, RunningServer, serving
from tests.broker.security.test_doors import count_log_ins
from tests.interop.conftest import need
from tests.interop.peers import BY_NAME, CLIENTS, Client, PeerError, run_steps, started
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
# Java's log-ins with a wrong password are in test_security_tools.py.
REFUSED = [client for client in CLIENTS if not client.name.startswith("java")]


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


def test_kafkajs_produces_and_consumes_in_a_group_with_the_rights_for_it(tmp_path: Path) -> None:
    """Security scenario 54. Given TLS, SCRAM and rules for one topic and group, when 1,000 records go
    through the group, then none is lost.
    """
    client = BY_NAME["kafkajs"]
    need(client.peer)
    certificates = Certificates(tmp_path)
    settings = certificates.settings(
        sasl_enabled_mechanisms="SCRAM-SHA-256",
        group_initial_rebalance_delay_ms="0",
        authorizer="acl",
        super_users="User:admin",
    )
    options: dict[str, object] = {"ca": certificates.ca, "topic": "rows", "group": "readers"}
    admin = options | {"user": "admin", "password": USERS["admin"]}
    alice = options | {"user": "alice", "password": USERS["alice"]}
    with serving("SASL_SSL", settings=settings) as server:
        address = f"localhost:{server.ports['SASL_SSL']}"
        run_steps(client, address, "create", **admin)
        with pytest.raises(PeerError, match=r"(?i)not authorized"):
            run_steps(client, address, "spread", count=1, **alice)
        server.allow(AclResourceType.TOPIC, "rows", Operation.WRITE)
        server.allow(AclResourceType.TOPIC, "rows", Operation.READ)
        server.allow(AclResourceType.GROUP, "readers", Operation.READ)
        run_steps(client, address, "spread", count=RECORDS, **alice)
        with started(client, address, "group", **alice) as member:
            member.until("every record", lambda peer: len(values(peer)) >= RECORDS)
            member.leave()
            assert sorted(values(member)) == sorted(f"v{number}" for number in range(RECORDS))


@pytest.mark.parametrize("client", REFUSED, ids=str)
def test_a_client_with_a_wrong_password_says_so(
    secured: tuple[RunningServer, Certificates], client: Client
) -> None:
    """Security scenario 55. Given a wrong password, then the client reports an authentication error."""
    need(client.peer)
    server, certificates = secured
    address = f"localhost:{server.ports['SASL_SSL']}"
    with pytest.raises(PeerError, match=r"(?i)authentication|sasl|credentials"):
        run_steps(client, address, "connect", ca=certificates.ca, user="alice", password="wrong")
