"""A real Apache Kafka broker (KRaft, one node) on loopback: the oracle.

``python -m tools.peers.kafka_broker`` starts one in the foreground and prints its address, for work by hand.
"""

import base64
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.peers import jvm, probe
from tools.peers.cache import digest, keep
from tools.peers.fetch import class_path
from tools.peers.pins import Peer

from kohort.testing.ports import HeldPort

START_SECONDS = 120.0
STOP_SECONDS = 60.0
LOG_TAIL = 60

PROPERTIES: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Quick starts matter more here than throughput.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "controller.quorum.election.timeout.ms": "200",
    "controller.quorum.election.backoff.max.ms": "100",
    "log.cleaner.dedupe.buffer.size": "8388608",
}


class BrokerStartError(Exception):
    """The broker did not come up; the message ends with the tail of its log."""


@dataclass(frozen=True, slots=True)
class KafkaBroker:
    """A running broker. ``data`` holds its logs and may be read after the broker has stopped."""

    host: str
    port: int
    pid: int
    home: Path

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.home / "broker.log"

    def log_tail(self) -> str:
        """The last lines the broker wrote, for a failure message."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL:])


def properties_for(
    home: Path, ports: tuple[int, int], settings: Mapping[str, str], more: Mapping[str, int] | None = None
) -> str:
    """The text of server.properties; ``settings`` override everything but the addresses.

    ``more`` has the ports of other listeners by their names.
    """
    broker_port, controller_port = ports
    others = "".join(f",{name}://127.0.0.1:{port}" for name, port in (more or {}).items())
    values = {
        **PROPERTIES,
        **settings,
        "listeners": f"PLAINTEXT://127.0.0.1:{broker_port},CONTROLLER://127.0.0.1:{controller_port}{others}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "log.dirs": str(home / "data"),
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def new_cluster_id() -> str:
    """Sixteen random bytes in the text form Kafka uses; never with a leading dash, which its tools refuse."""
    text = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
    return "k" + text[1:]


def _format(home: Path, log_config: Path, users: Sequence[str] = ()) -> None:
    """``users`` are credentials as ``--add-scram`` takes them."""
    args = ["format", "-t", new_cluster_id(), "-c", str(home / "server.properties")]
    args += [part for user in users for part in ("--add-scram", user)]
    tool = jvm.command(
        class_path(Peer.KAFKA), "kafka.tools.StorageTool", *args, options=[jvm.logging_to(log_config)]
    )
    done = subprocess.run(tool, capture_output=True, text=True, timeout=START_SECONDS, check=False)
    if done.returncode != 0:
        raise BrokerStartError(f"formatting failed:\n{done.stdout}{done.stderr}")


def prepared() -> Path:
    """What brokers start from, made once: ``data`` as Kafka's own tool formats it, and ``classes.jsa``, the
    classes of a broker laid out for the JVM. Without them a start takes twice as long.
    """

    def build(home: Path) -> None:
        trial = home / "trial"
        trial.mkdir()
        with HeldPort() as port, HeldPort() as controller_port:
            text = properties_for(trial, (port.number, controller_port.number), {})
            (trial / "server.properties").write_text(text)
            _format(trial, jvm.write_log_config(trial))
            shutil.copytree(trial / "data", home / "data")
            with _started(trial, port.number, f"-XX:ArchiveClassesAtExit={home / 'classes.jsa'}"):
                pass
        shutil.rmtree(trial)

    return keep("kafka-prepared", digest([class_path(Peer.KAFKA)]), build)


def class_archive_option() -> str:
    """For any program on the class path of the broker."""
    return f"-XX:SharedArchiveFile={prepared() / 'classes.jsa'}"


def _lay_out(home: Path) -> None:
    """A formatted folder with a cluster id of its own."""
    jvm.write_log_config(home)
    shutil.copytree(prepared() / "data", home / "data")
    meta = home / "data" / "meta.properties"
    meta.write_text(re.sub(r"(?m)^cluster\.id=.*$", f"cluster.id={new_cluster_id()}", meta.read_text()))


def _wait_until_ready(process: "subprocess.Popen[bytes]", broker: KafkaBroker) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not probe.answers(broker.host, broker.port):
        if process.poll() is not None:
            raise BrokerStartError(f"the broker exited with {process.returncode}:\n{broker.log_tail()}")
        if time.monotonic() > deadline:
            raise BrokerStartError(f"no answer within {START_SECONDS:.0f} s:\n{broker.log_tail()}")
        probe.pause()


def _stop(process: "subprocess.Popen[bytes]", clean: bool) -> None:
    """Ask first, so that indexes are trimmed and the clean-shutdown marker written; insist after a while."""
    if clean:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            clean = False
    if not clean:
        process.kill()
        process.wait()


@contextmanager
def running(home: Path, port: int | None = None) -> Iterator[KafkaBroker]:
    """Run the broker configured in ``home`` until the block ends; raises BrokerStartError."""
    if port is None:
        listeners = next(
            line for line in (home / "server.properties").read_text().splitlines() if "listeners=P" in line
        )
        port = int(listeners.split(",")[0].rsplit(":", 1)[1])
    with _started(home, port, class_archive_option()) as broker:
        yield broker


@contextmanager
def _started(home: Path, port: int, archive: str) -> Iterator[KafkaBroker]:
    log_config = jvm.write_log_config(home, "INFO")
    server = jvm.command(
        class_path(Peer.KAFKA),
        "kafka.Kafka",
        str(home / "server.properties"),
        heap="512m",
        options=[jvm.logging_to(log_config), archive],
    )
    with (home / "broker.log").open("ab") as log:
        process = subprocess.Popen(server, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=home)
    broker = KafkaBroker("127.0.0.1", port, process.pid, home)
    clean = False
    try:
        _wait_until_ready(process, broker)
        clean = True
        yield broker
    finally:
        _stop(process, clean)


@contextmanager
def kafka_broker(
    settings: Mapping[str, str] | None = None, home: Path | None = None
) -> Iterator[KafkaBroker]:
    """A freshly formatted broker, ready for requests, stopped when the block ends; raises BrokerStartError.

    Without ``home`` its folder is temporary and disappears with it.
    """
    where = Path(tempfile.mkdtemp(prefix="kafka-")) if home is None else home
    try:
        where.mkdir(parents=True, exist_ok=True)
        with HeldPort() as port, HeldPort() as controller_port:  # until Java gets to them
            text = properties_for(where, (port.number, controller_port.number), settings or {})
            (where / "server.properties").write_text(text)
            _lay_out(where)
            with running(where, port.number) as broker:
                yield broker
    finally:
        if home is None:
            shutil.rmtree(where, ignore_errors=True)


SECURED = {
    "SSL": "SSL",
    "MTLS": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}
"""The listeners of a secured broker beside PLAINTEXT, and the protocol of each."""

_LOGIN = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class SecuredKafka:
    """A broker with an authorizer and a listener for each way in; ``admin`` and ANONYMOUS are super users."""

    broker: KafkaBroker
    ports: Mapping[str, int]
    certificates: Path
    passwords: Mapping[str, str]

    def bootstrap(self, listener: str, host: str = "localhost") -> str:
        return f"{host}:{self.ports[listener]}"


def _security(certificates: Path, passwords: Mapping[str, str]) -> dict[str, str]:
    plain = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        + ",".join(f"{name}:{protocol}" for name, protocol in SECURED.items()),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.pem"),
        "listener.name.mtls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{listener}"
        settings[f"{prefix}.plain.sasl.jaas.config"] = f"{_LOGIN}.plain.PlainLoginModule required {plain};"
        for number in (256, 512):
            key = f"{prefix}.scram-sha-{number}.sasl.jaas.config"
            settings[key] = f"{_LOGIN}.scram.ScramLoginModule required;"
        settings[f"{prefix}.oauthbearer.sasl.jaas.config"] = (
            f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=broker;"
        )
    return settings


@contextmanager
def secured_kafka(
    certificates: Path, passwords: Mapping[str, str], home: Path, settings: Mapping[str, str] | None = None
) -> Iterator[SecuredKafka]:
    """A broker with the ``ca.pem`` and ``broker.pem`` of ``certificates``, and users for SCRAM and PLAIN."""
    home.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        held = [stack.enter_context(HeldPort()).number for _ in range(2 + len(SECURED))]
        ports = dict(zip(SECURED, held[2:], strict=True))
        values = {**_security(certificates, passwords), **(settings or {})}
        (home / "server.properties").write_text(properties_for(home, (held[0], held[1]), values, ports))
        users = [
            f"SCRAM-SHA-{number}=[name={name},password={password}]"
            for name, password in passwords.items()
            for number in (256, 512)
        ]
        _format(home, jvm.write_log_config(home), users)
        broker = stack.enter_context(running(home, held[0]))
        yield SecuredKafka(broker, ports, certificates, passwords)


def main() -> int:
    """Run a broker until standard input ends."""
    started = time.monotonic()
    with kafka_broker() as broker:
        print(
            f"kafka: listening on {broker.bootstrap} (started in {time.monotonic() - started:.1f} s)",
            flush=True,
        )
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
