"""Starting a broker: its settings are checked, its identity is kept, its port is its own."""

import asyncio
import socket
from pathlib import Path

import pytest
from tests.broker.asking import append, batch, create, metadata, values
from tests.broker.conftest import Restart
from tests.broker.grouping import find
from tests.broker.raw import Raw

from kohort.broker.server import Server
from kohort.broker.settings import Settings
from kohort.model.errors import KohortError
from kohort.testing.broker import Broker
from kohort.wire.messages.describe_cluster import DescribeClusterRequest


def started(**configs: str) -> None:
    with Broker(configs={name.replace("_", "."): value for name, value in configs.items()}):
        pass


@pytest.mark.parametrize(
    ("name", "advice"), [("num_partition", "did you mean num.partitions"), ("zzz", "configs.md lists all")]
)
def test_a_setting_that_is_not_known_is_accepted_with_a_warning(
    caplog: pytest.LogCaptureFixture, name: str, advice: str
) -> None:
    started(**{name: "3"})
    (message,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"the broker setting {name.replace('_', '.')} is not known" in message
    assert advice in message


def test_a_value_that_cannot_be_is_named() -> None:
    with pytest.raises(KohortError, match=r"num\.partitions cannot be 'many'"):
        started(num_partitions="many")


def test_a_port_that_is_taken_is_told_with_what_to_do() -> None:
    with Broker() as broker:
        port = int(broker.bootstrap.rsplit(":", 1)[1])

        async def start_another() -> None:
            await Server(Settings(port=port)).start()

        with pytest.raises(KohortError, match=f"cannot listen on 127.0.0.1:{port}"):
            broker.run(start_another())


def test_a_start_that_failed_leaves_nothing_running(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker, Raw(broker.bootstrap) as raw:
        create(raw, "well")
        create(raw, "ill")
        for name in ("well", "ill"):
            append(raw, name, batch("a"))
    of_another_topic = (tmp_path / "well-0" / "partition.metadata").read_text()
    (tmp_path / "ill-0" / "partition.metadata").write_text(of_another_topic)

    async def start_where_the_port_is_taken() -> set[str]:
        with (
            socket.create_server(("127.0.0.1", 0)) as taken,
            pytest.raises(KohortError, match="cannot listen"),
        ):
            await Server(Settings(data=tmp_path, port=taken.getsockname()[1])).start()
        return {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}}

    assert asyncio.run(start_where_the_port_is_taken()) == set()


def test_a_host_that_does_not_exist_is_told_in_words() -> None:
    async def start() -> None:
        await Server(Settings(host="no such host", port=0)).start()

    with pytest.raises(
        KohortError, match=r"cannot listen on no such host:0: .*(?:not known|service|nodename)"
    ):
        asyncio.run(start())


@pytest.mark.parametrize(
    "where",
    [
        {"host": "0.0.0.0"},
        {"host": "::"},
        {"host": "127.0.0.1", "advertised_host": "0.0.0.0"},
        {"host": "0.0.0.0", "advertised_host": "::0"},
    ],
    ids=str,
)
def test_an_address_that_no_client_can_use_is_refused_with_the_way_out(where: dict[str, str]) -> None:
    async def start() -> None:
        await Server(Settings(port=0, data=None, **where)).start()  # type: ignore[arg-type] # both are text

    with pytest.raises(KohortError, match="clients cannot be sent to") as refused:
        asyncio.run(start())
    assert "--advertise HOST:PORT" in (refused.value.hint or "")


def test_only_the_user_who_runs_the_broker_can_read_its_data(tmp_path: Path) -> None:
    home = tmp_path / "data"
    with Broker(data=home) as broker, Raw(broker.bootstrap) as raw:
        create(raw, "t")
        append(raw, "t", batch("a"))
    made = {home, *home.rglob("*")}
    assert len(made) > 5
    assert {path for path in made if path.stat().st_mode & 0o077} == set()


def test_a_second_broker_on_one_directory_is_refused(tmp_path: Path) -> None:
    with (
        Broker(data=tmp_path) as first,
        pytest.raises(KohortError, match=str(tmp_path)),
        Broker(data=tmp_path),
    ):
        assert first.bootstrap


def test_a_restart_keeps_cluster_id_topic_ids_and_records_and_epochs_never_shrink(restart: Restart) -> None:
    raw = restart()
    ids = {name: create(raw, name, 2) for name in ("a", "b")}
    append(raw, "a", batch("kept"))
    cluster_id = metadata(raw).cluster_id
    epochs = [0]
    for _ in range(3):
        raw = restart()
        reply = metadata(raw, "a", "b")
        assert reply.cluster_id == cluster_id
        assert {topic.name: topic.topic_id for topic in reply.topics} == ids
        now = {part.leader_epoch for topic in reply.topics for part in topic.partitions}
        assert len(now) == 1
        epochs += now
    assert epochs == sorted(epochs)
    assert values(raw, "a") == ["kept"]


def test_the_epoch_of_a_topic_begins_at_zero_and_grows_with_each_start(restart: Restart) -> None:
    raw = restart()
    raw = restart()
    create(raw, "late")
    assert metadata(raw, "late").topics[0].partitions[0].leader_epoch == 0
    assert metadata(restart(), "late").topics[0].partitions[0].leader_epoch == 1


def test_clients_are_told_the_advertised_address_everywhere() -> None:
    with Broker() as host:  # lends its loop to a broker behind another address
        settings = Settings(port=0, advertised_host="broker.example", advertised_port=19092, node_id=7)
        server = Server(settings)
        address = str(host.run(server.start()))
        try:
            with Raw(address) as raw:
                told = [metadata(raw).brokers[0], find(raw), raw.send(DescribeClusterRequest(), 2).brokers[0]]
                assert [(each.host, each.port) for each in told] == [("broker.example", 19092)] * 3
                nodes = {metadata(raw).controller_id, metadata(raw).brokers[0].node_id, find(raw).node_id}
                assert nodes == {7}
        finally:
            host.run(server.stop())
