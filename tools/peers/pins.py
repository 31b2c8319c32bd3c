"""Which peers we are judged with, by exact version.

Go modules are pinned in ``tests/interop/go/go.mod`` and npm packages in ``tests/interop/js/package.json``,
where their own tools read them.
"""

from enum import Enum
from typing import NamedTuple


class Artifact(NamedTuple):
    """One Maven coordinate."""

    group: str
    name: str
    version: str


class Peer(Enum):
    """What can be fetched and run; the value names its folder in the cache."""

    KAFKA = "kafka"
    JAVA_39 = "java-3.9"
    JAVA_4 = "java-4"
    SPARK_CONNECTOR = "spark-connector"
    DELTA_RS = "delta-rs"
    KAFKAJS = "kafkajs"
    GO = "go"


# The newest 4.2 patch whose broker *and* tools were both published.
KAFKA_VERSION = "4.2.1"
LOG4J_VERSION = "2.26.1"
# The newest there is: no connector was published with Spark 4.3.0, on which we run it.
CONNECTOR_VERSION = "4.2.0"
KAFKA_GROUP = "org.apache.kafka"
SPARK_GROUP = "org.apache.spark"
LOG4J_GROUP = "org.apache.logging.log4j"

LOGGING = (
    Artifact(LOG4J_GROUP, "log4j-slf4j-impl", LOG4J_VERSION),
    Artifact(LOG4J_GROUP, "log4j-core", LOG4J_VERSION),
)

ARTIFACTS: dict[Peer, tuple[Artifact, ...]] = {
    Peer.KAFKA: (
        Artifact(KAFKA_GROUP, "kafka_2.13", KAFKA_VERSION),
        Artifact(KAFKA_GROUP, "kafka-tools", KAFKA_VERSION),
        *LOGGING,
    ),
    Peer.JAVA_39: (Artifact(KAFKA_GROUP, "kafka-clients", "3.9.2"), *LOGGING),
    Peer.JAVA_4: (Artifact(KAFKA_GROUP, "kafka-clients", "4.4.0"), *LOGGING),
    # Spark's own Kafka source and sink with what Spark itself does not bring. The part for delegation tokens
    # is older: no other 4.x of it was published.
    Peer.SPARK_CONNECTOR: (
        Artifact(SPARK_GROUP, "spark-sql-kafka-0-10_2.13", CONNECTOR_VERSION),
        Artifact(SPARK_GROUP, "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        Artifact(KAFKA_GROUP, "kafka-clients", "3.9.2"),
        Artifact("org.apache.commons", "commons-pool2", "2.13.1"),
    ),
}

# Python's packages with what they need and we do not have. Delta's own library is for Spark 4.2 at most:
# its 4.4.0 fails on 4.3 with a NoSuchMethodError.
PACKAGES: dict[Peer, tuple[str, ...]] = {
    Peer.DELTA_RS: ("deltalake==1.6.6", "arro3-core==0.9.1", "deprecated==1.3.1", "wrapt==2.5.2"),
}

# Their list is complete. Spark's own would bring all of Spark, from a repository that only its POM names.
WITHOUT_DEPENDENCIES = frozenset({Peer.SPARK_CONNECTOR})

TOOLCHAINS: dict[Peer, tuple[str, ...]] = {
    Peer.KAFKA: ("java", "javac", "mvn"),
    Peer.JAVA_39: ("java", "javac", "mvn"),
    Peer.JAVA_4: ("java", "javac", "mvn"),
    Peer.SPARK_CONNECTOR: ("java", "mvn"),
    Peer.DELTA_RS: (),
    Peer.KAFKAJS: ("node", "npm"),
    Peer.GO: ("go",),
}
