"""``Broker(security=…)``: a secured broker in one line, for our clients and for others."""

import pytest
from confluent_kafka.admin import AdminClient

from kohort import Admin, AuthenticationError, AuthorizationError, Consumer, KohortError, NewTopic, Producer
from kohort.testing import Broker


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"])
def test_its_users_produce_and_consume_in_a_group(mechanism: str) -> None:
    configs = {"group.initial.rebalance.delay.ms": 0}
    with Broker(security={"alice": "secret"}, configs=configs) as broker:
        broker.create_topic("t")
        alice = broker.client_security("alice", mechanism)
        with Producer(bootstrap_servers=broker.bootstrap, **alice) as producer:
            producer.send("t", b"hello")
        broker.create_group("g", {("t", 0): 0})
        with Consumer(bootstrap_servers=broker.bootstrap, group_id="g", **alice) as consumer:
            consumer.subscribe(["t"])
            values: list[bytes | None] = []
            while not values:
                values += [one.value for batch in consumer.poll(timeout_ms=500).values() for one in batch]
        assert values == [b"hello"]


def test_others_get_in_with_its_certificate_and_nobody_with_a_wrong_password() -> None:
    with Broker(security={"alice": "secret"}) as broker:
        wrong = broker.client_security("alice") | {"sasl_plain_password": "wrong"}
        with pytest.raises(AuthenticationError), Admin(broker.bootstrap, **wrong):
            pytest.fail("it got in")
        confluent = AdminClient(
            {
                "bootstrap.servers": broker.bootstrap,
                "security.protocol": "SASL_SSL",
                "ssl.ca.pem": broker.certificate,
                "sasl.mechanisms": "SCRAM-SHA-512",
                "sasl.username": "alice",
                "sasl.password": "secret",
            }
        )
        assert confluent.list_topics(timeout=20).brokers


def test_a_certificate_is_the_log_in_at_the_listener_for_it_also_after_a_restart() -> None:
    configs = {"authorizer": "acl", "super.users": "User:alice"}
    with Broker(security={"alice": "secret"}, configs=configs) as broker:
        broker.restart()
        alice = broker.client_tls("alice")
        with Producer(bootstrap_servers=broker.tls_bootstrap, **alice) as producer:
            assert producer.send("t", b"as a super user").result().offset == 0
        with Admin(broker.tls_bootstrap, **broker.client_tls("bob")) as admin:
            (refusal,) = admin.create_topics([NewTopic("u")]).values()
            assert isinstance(refusal, AuthorizationError)
        with (
            pytest.raises(KohortError, match="certificate"),
            Admin(broker.tls_bootstrap, security_protocol="SSL", ssl_cafile=str(broker.credentials.ca_file)),
        ):
            pytest.fail("it got in without a certificate")
