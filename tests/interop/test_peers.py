"""The equipment itself: what a missing peer means, and that the smaller peers start."""

import pytest
from tests.interop.conftest import need
from tools.peers import fetch, probe
from tools.peers.cache import FetchError
from tools.peers.kfake import kfake_broker
from tools.peers.pins import ARTIFACTS, Peer


@pytest.mark.interop
@pytest.mark.slow
def test_kfake_starts_and_answers() -> None:
    need(Peer.GO)
    with kfake_broker() as address:
        host, port = address.rsplit(":", 1)
        assert probe.ask_api_versions(host, int(port)) > 0
    assert not probe.answers(host, int(port))


def test_a_package_source_that_does_not_answer_is_told_from_one_that_refuses() -> None:
    assert FetchError("Could not transfer artifact x: Unknown host repo").unreachable
    assert not FetchError("Could not find artifact org.apache.kafka:kafka_2.13:jar:9.9").unreachable


def test_a_missing_toolchain_is_a_reason_to_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tools.peers.fetch.shutil.which", lambda tool: None if tool == "mvn" else f"/bin/{tool}"
    )
    reason = fetch.available.__wrapped__(Peer.KAFKA)
    assert reason == "kafka: not installed here: mvn"


def test_a_refused_download_is_an_error_and_no_reason_to_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_peer: Peer) -> None:
        raise FetchError("Could not find artifact")

    monkeypatch.setattr("tools.peers.fetch.shutil.which", lambda tool: f"/bin/{tool}")
    monkeypatch.setattr("tools.peers.fetch.ensure", refuse)
    with pytest.raises(FetchError):
        fetch.available.__wrapped__(Peer.KAFKA)


def test_the_throw_away_project_names_every_artifact() -> None:
    text = fetch.pom_for(Peer.KAFKA)
    assert all(f"<artifactId>{artifact.name}</artifactId>" in text for artifact in ARTIFACTS[Peer.KAFKA])
    assert text.count("<dependency>") == len(ARTIFACTS[Peer.KAFKA])


def test_what_is_fetched_alone_brings_nothing_else() -> None:
    text = fetch.pom_for(Peer.SPARK_CONNECTOR)
    assert text.count("<exclusion><groupId>*</groupId>") == len(ARTIFACTS[Peer.SPARK_CONNECTOR])
    assert "<exclusion>" not in fetch.pom_for(Peer.KAFKA)
