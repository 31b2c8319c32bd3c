"""``Broker(security=…)``: a secured broker in one line, for our clients and for others."""

import pytest
from confluent_kafka.admin import AdminClient

from kohort import Admin, AuthenticationError, Consumer, Producer
from kohort.testing import Broker


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_its_users_produce_and_consume_in_a_group(mechanism: str) -> None:
    with Broker(security={"alice": "secret"}) as broker:
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
