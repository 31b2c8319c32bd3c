"""Finding the right node, and trying again."""

import asyncio

import pytest
from tests.unit.client.scripted import HASTY, Hangup, ScriptedCluster, Silence, in_turn, on_loop

from kohort.client.addresses import AddressError
from kohort.client.cluster import ClusterClient, ConnectionPurpose, CoordinatorOf, KeyType, Role
from kohort.client.errors import (
    BrokerError,
    ClientClosedError,
    DisconnectedError,
    NoBrokerError,
    UnknownTopicError,
    check,
)
from kohort.client.settings import ClientOptions
from kohort.codec.schema import Versions
from kohort.model.errors import ErrorCode
from kohort.model.ids import NodeId, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.apis import ApiKey
from kohort.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse


def beat_checked(reply: HeartbeatResponse) -> None:
    check(reply.error_code, "heartbeat")


def tp(topic: str, number: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), Partition(number))


@on_loop
async def test_entering_learns_the_brokers_over_one_connection() -> None:
    brokers = ScriptedCluster(nodes=2)
    async with brokers.client() as cluster:
        assert set(cluster.metadata.nodes) == {1, 2}
        assert cluster.metadata.cluster_id == "scripted"
        await cluster.connection(1)
    assert len(brokers.dialled) == 1


@on_loop
async def test_entering_takes_the_first_address_that_answers() -> None:
    brokers = ScriptedCluster(nodes=3)
    brokers.down |= {1, 2}
    async with brokers.client():
        assert [address.port for address in brokers.dialled] == [9001, 9002, 9003]


@on_loop
async def test_entering_asks_another_when_a_node_hangs_up_instead_of_naming_the_leaders() -> None:
    """As a node does that has lost its database."""
    brokers = ScriptedCluster(nodes=2)
    brokers.on(MetadataRequest, in_turn(Hangup(), brokers.scripts["MetadataRequest"]))
    async with brokers.client() as cluster:
        assert set(cluster.metadata.nodes) == {1, 2}
    assert [received.node_id for received in brokers.asked(MetadataRequest)] == [1, 2]


@on_loop
async def test_when_all_hang_up_entering_fails_at_once() -> None:
    brokers = ScriptedCluster(nodes=2)
    brokers.on(MetadataRequest, lambda _: Hangup())
    with pytest.raises(DisconnectedError, match="host:9002 closed the connection"):
        async with brokers.client():
            pass
    assert [received.node_id for received in brokers.asked(MetadataRequest)] == [1, 2]


def test_a_bootstrap_that_is_no_address_is_refused_before_anything_is_dialled() -> None:
    with pytest.raises(AddressError):
        ClusterClient("host:nine")


@on_loop
async def test_a_cluster_without_a_controller_is_worth_waiting_for() -> None:
    brokers = ScriptedCluster()
    brokers.controller = -1
    async with brokers.client() as cluster:
        with pytest.raises(BrokerError, match="cannot find the controller") as caught:
            await cluster.connection(Role.CONTROLLER)
    assert caught.value.retriable


@on_loop
async def test_a_group_is_asked_about_at_its_coordinator_which_is_looked_up_once() -> None:
    brokers = ScriptedCluster(nodes=2)
    brokers.coordinator = 2
    brokers.on(HeartbeatRequest, lambda _: HeartbeatResponse())
    async with brokers.client() as cluster:
        for _ in range(3):
            await cluster.ask(CoordinatorOf("g"), HeartbeatRequest(), HeartbeatResponse)
    assert [received.node_id for received in brokers.asked(HeartbeatRequest)] == [2, 2, 2]
    assert len(brokers.asked(FindCoordinatorRequest)) == 1


@pytest.mark.parametrize(
    ("code", "lookups"),
    [
        (ErrorCode.NOT_COORDINATOR, 2),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 2),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1),
    ],
)
@on_loop
async def test_a_coordinator_that_moved_is_looked_up_again_and_one_that_loads_is_not(
    code: ErrorCode, lookups: int
) -> None:
    brokers = ScriptedCluster()
    brokers.on(HeartbeatRequest, in_turn(HeartbeatResponse(error_code=code), HeartbeatResponse()))
    async with brokers.client() as cluster:
        await cluster.ask(CoordinatorOf("g"), HeartbeatRequest(), HeartbeatResponse, check=beat_checked)
    assert len(brokers.asked(HeartbeatRequest)) == 2
    assert len(brokers.asked(FindCoordinatorRequest)) == lookups


@on_loop
async def test_a_coordinator_that_is_not_ready_yet_is_waited_for() -> None:
    brokers = ScriptedCluster()
    found = brokers.scripts["FindCoordinatorRequest"]
    absent = Coordinator(key="g", node_id=-1, port=-1, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    brokers.on(
        FindCoordinatorRequest, in_turn(FindCoordinatorResponse(coordinators=[absent]), lambda r: found(r))
    )
    brokers.on(HeartbeatRequest, lambda _: HeartbeatResponse())
    async with brokers.client() as cluster:
        await cluster.ask(CoordinatorOf("g"), HeartbeatRequest(), HeartbeatResponse)
    assert len(brokers.asked(FindCoordinatorRequest)) == 2


@on_loop
async def test_older_brokers_name_the_coordinator_in_their_own_way() -> None:
    brokers = ScriptedCluster(nodes=2)
    brokers.coordinator = 2
    for peer in brokers.peers.values():
        peer.served[ApiKey.FIND_COORDINATOR] = Versions(0, 3)
    async with brokers.client() as cluster:
        node = await cluster.find_coordinator(CoordinatorOf("t", KeyType.TRANSACTION))
    assert node.node_id == 2
    asked = brokers.asked(FindCoordinatorRequest)[0].request
    assert isinstance(asked, FindCoordinatorRequest)
    assert (asked.key, asked.key_type) == ("t", 1)


@on_loop
async def test_a_lost_connection_is_replaced_and_the_question_repeated() -> None:
    brokers = ScriptedCluster()
    brokers.on(HeartbeatRequest, in_turn(Hangup(), HeartbeatResponse(throttle_time_ms=5)))
    async with brokers.client() as cluster:
        reply = await cluster.ask(1, HeartbeatRequest(), HeartbeatResponse)
    assert reply.throttle_time_ms == 5
    assert len(brokers.dialled) == 2


@on_loop
async def test_a_refusal_for_good_is_not_repeated() -> None:
    brokers = ScriptedCluster()
    refusal = HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    brokers.on(HeartbeatRequest, lambda _: refusal)
    async with brokers.client() as cluster:
        with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
            await cluster.ask(Role.ANY, HeartbeatRequest(), HeartbeatResponse, check=beat_checked)
    assert len(brokers.asked(HeartbeatRequest)) == 1


@on_loop
async def test_what_never_passes_is_raised_at_the_deadline() -> None:
    brokers = ScriptedCluster()
    loading = HeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    brokers.on(HeartbeatRequest, lambda _: loading)
    hasty = ClientOptions(api_timeout_ms=20, retry_backoff_ms=10, retry_backoff_max_ms=10)
    async with brokers.client(hasty) as cluster:
        with pytest.raises(BrokerError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await cluster.ask(Role.ANY, HeartbeatRequest(), HeartbeatResponse, check=beat_checked)


@on_loop
async def test_when_all_known_brokers_are_gone_the_bootstrap_addresses_are_tried_again() -> None:
    brokers = ScriptedCluster(nodes=2)
    cluster = ClusterClient("host:9001", HASTY, dial=brokers.dial)
    async with cluster:
        (await cluster.connection(1)).close()
        brokers.peers[3] = brokers.peers.pop(2)  # what was told about broker 2 is no longer true
        brokers.down |= {1, 2}
        with pytest.raises(NoBrokerError, match="host:9001, host:9002"):
            await cluster.refresh()
        brokers.down.clear()
        await cluster.refresh()
        assert set(cluster.metadata.nodes) == {1, 3}


@on_loop
async def test_topics_that_are_known_are_not_asked_for_again() -> None:
    brokers = ScriptedCluster(topics={"t": [1], "u": [1]})
    async with brokers.client() as cluster:
        await cluster.topics(["t"])
        await cluster.topics(["t"])
        assert len(brokers.asked(MetadataRequest)) == 2  # one on entering, one for the topic
        assert set((await cluster.topics(["t", "u"])).topics) == {"t", "u"}
        assert set((await cluster.refresh_all()).topics) == {"t", "u"}


@on_loop
async def test_a_node_that_is_no_longer_there_is_a_passing_error() -> None:
    async with ScriptedCluster().client() as cluster:
        with pytest.raises(BrokerError, match="find broker 9") as caught:
            await cluster.connection(9)
    assert caught.value.retriable


@on_loop
async def test_a_metadata_reply_that_says_start_over_is_an_error() -> None:
    brokers = ScriptedCluster()
    brokers.on(MetadataRequest, lambda _: MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))
    with pytest.raises(BrokerError, match="REBOOTSTRAP_REQUIRED"):
        async with brokers.client():
            pass


class Leaders:
    """Answers for partitions, one script of results for each."""

    def __init__(self, **scripts: list[str | ErrorCode]) -> None:
        self.scripts = scripts
        self.asked: list[tuple[int, list[str]]] = []

    async def __call__(
        self, node: NodeId, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, str | BrokerError]:
        self.asked.append((node, [str(partition) for partition in partitions]))
        return {partition: self._result(partition) for partition in partitions}

    def _result(self, partition: TopicPartition) -> str | BrokerError:
        result = self.scripts[f"p{partition.partition}"].pop(0)
        return BrokerError(result, f"ask {partition}") if isinstance(result, ErrorCode) else result


@on_loop
async def test_leaders_are_asked_at_once_and_only_what_failed_in_passing_is_asked_again() -> None:
    brokers = ScriptedCluster(nodes=2, topics={"t": [1, 2, 2]})
    leaders = Leaders(
        p0=["a"],
        p1=[ErrorCode.NOT_LEADER_OR_FOLLOWER, "b"],
        p2=[ErrorCode.TOPIC_AUTHORIZATION_FAILED],
    )
    async with brokers.client() as cluster:
        results = await cluster.ask_leaders([tp("t", 0), tp("t", 1), tp("t", 2)], leaders)
    assert results[tp("t", 0)] == "a"
    assert results[tp("t", 1)] == "b"
    assert isinstance(results[tp("t", 2)], BrokerError)
    assert leaders.asked == [(1, ["t-0"]), (2, ["t-1", "t-2"]), (2, ["t-1"])]


@on_loop
async def test_a_partition_without_a_leader_is_waited_for() -> None:
    brokers = ScriptedCluster(topics={"t": [-1]})
    leaders = Leaders(p0=["a"])
    metadata = brokers.scripts["MetadataRequest"]

    def elected(request: MetadataRequest) -> MetadataResponse:
        answer = metadata(request)
        brokers.topics["t"] = [1]
        assert isinstance(answer, MetadataResponse)
        return answer

    brokers.on(MetadataRequest, elected)
    async with brokers.client() as cluster:
        brokers.topics["t"] = [-1]
        assert await cluster.ask_leaders([tp("t", 0)], leaders) == {tp("t", 0): "a"}


@on_loop
async def test_a_partition_newer_than_what_is_known_is_found() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    leaders = Leaders(p1=["b"])
    async with brokers.client() as cluster:
        await cluster.topics(["t"])
        brokers.topics["t"] = [1, 1]
        assert await cluster.ask_leaders([tp("t", 1)], leaders) == {tp("t", 1): "b"}
        with pytest.raises(UnknownTopicError, match="no partition 2"):
            await cluster.ask_leaders([tp("t", 2)], leaders)


@on_loop
async def test_a_leader_that_leaves_a_partition_out_is_not_believed() -> None:
    async def forgetful(_node: NodeId, _partitions: list[TopicPartition]) -> dict[TopicPartition, str]:
        return {}

    brokers = ScriptedCluster(topics={"t": [1, 1, 1, 1]})
    async with brokers.client() as cluster:
        with pytest.raises(BrokerError, match="about t-0, t-1, t-2 …: no answer"):
            await cluster.ask_leaders([tp("t", number) for number in range(4)], forgetful)


@on_loop
async def test_one_leader_that_is_lost_does_not_cost_the_answers_of_the_others() -> None:
    brokers = ScriptedCluster(nodes=2, topics={"t": [1, 2]})
    lost = [True]
    asked: list[int] = []

    async def ask(node: NodeId, partitions: list[TopicPartition]) -> dict[TopicPartition, str]:
        asked.append(node)
        if node == 2 and lost:
            lost.pop()
            raise BrokerError(ErrorCode.NETWORK_EXCEPTION, "ask")
        return dict.fromkeys(partitions, "ok")

    async with brokers.client() as cluster:
        results = await cluster.ask_leaders([tp("t", 0), tp("t", 1)], ask)
    assert results == {tp("t", 0): "ok", tp("t", 1): "ok"}
    assert sorted(asked) == [1, 2, 2]


@on_loop
async def test_a_question_to_any_broker_never_goes_where_a_long_poll_may_be() -> None:
    async with ScriptedCluster().client() as cluster:
        polls = await cluster.connection(1, ConnectionPurpose.FETCH)
        (await cluster.connection(1)).close()
        assert await cluster.connection(Role.ANY) is not polls


@on_loop
async def test_a_closed_client_does_not_come_back_to_life_to_repeat_a_request() -> None:
    brokers = ScriptedCluster()
    arrived = asyncio.Event()

    def silent(_request: object) -> Silence:
        arrived.set()
        return Silence()

    brokers.on(HeartbeatRequest, silent)
    async with brokers.client() as cluster:
        asked = asyncio.ensure_future(cluster.ask(1, HeartbeatRequest(), HeartbeatResponse))
        await arrived.wait()
    with pytest.raises(ClientClosedError, match="client of host:9001 is closed"):
        await asked
    with pytest.raises(ClientClosedError):
        await cluster.refresh()
    assert len(brokers.dialled) == 1


@on_loop
async def test_a_client_can_be_entered_again() -> None:
    brokers = ScriptedCluster()
    cluster = brokers.client()
    for _ in range(2):
        async with cluster:
            assert (await cluster.connection(1)).is_open
    assert len(brokers.dialled) == 2
