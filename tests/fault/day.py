"""A broker whose disk, threads or memory may fail, and its clients, in virtual time and without sockets.

Every step is what a client does: it asks, and asks again after a retriable code. Once the outage is over a
step has ten seconds of the broker's clock to succeed; nothing acknowledged may be missing at any check.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.broker.asking import TOPIC, batch, fetch_request, part, produce_request, records_of
from tests.broker.grouping import GROUP, commit_request, join_request, sync_request

from kohort.broker.broker import BrokerState
from kohort.broker.clock import VirtualClock
from kohort.broker.connection import BrokerConnection
from kohort.broker.dispatch import Dispatch
from kohort.broker.endpoints import Endpoint
from kohort.broker.maintenance import BrokerMaintenance
from kohort.broker.settings import Settings
from kohort.broker.storage import open_data
from kohort.codec.compiled import decode, encode
from kohort.codec.schema import Message
from kohort.log.log import SyncPolicy
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import Instant
from kohort.security.principals import ANONYMOUS
from kohort.testing.faults import FakeDisk, FaultyExecutor, Kind, Outage
from kohort.wire.apis import APIS, ApiKey
from kohort.wire.headers import RequestHeader, read_response_header, request_header
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.wire.messages.delete_topics import DeleteTopicsRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

PATIENCE_MS = 10_000
STEP_MS = 50
TURNS = 8  # of the loop, after which everything that is not waiting for time has happened

RETRIABLE = {
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
REJOIN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
THREADS = (Kind.THREAD, Kind.MEMORY)
CONFIGS = {
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "1000",
    "auto.create.topics.enable": "false",
}


class Peer(BrokerConnection):
    """The other end of every request."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.client_host = "/127.0.0.1"
        self.principal = ANONYMOUS
        self.endpoint = endpoint

    def asks(self, _requests: object) -> bool:
        """It recognises nothing that it has sent before."""
        return False


class Day:
    """One broker on one disk, with everything that was acknowledged."""

    def __init__(self, policy: SyncPolicy) -> None:
        self.disk = FakeDisk()
        self.disk.make_directory("node")
        self.disk.sync_directory("")
        self.executor = FaultyExecutor()
        self.clock = VirtualClock()
        self.disk.clock = lambda: self.clock.now().wall
        self._settings = Settings(
            data=Path("node/data"), fsync=policy, fsync_interval_ms=0, overrides=CONFIGS
        )
        self._healed_at = Instant(0)
        self._member = ("", -1)
        self._epoch = 0  # of the member of a consumer group
        self.committed = -1
        self.produced: dict[str, list[str]] = {}
        self.asked: Counter[Kind] = Counter()  # while an outage was possible
        self.failed_starts: list[str] = []
        self.out_of_memory = False  # at a start

    # -- the machine -----------------------------------------------------------------------------------

    def suffer(self, outage: Outage | None) -> None:
        if outage is None:
            self.disk.suffer(None)
            self.executor.suffer(None)
        else:
            (self.executor if outage.kind in THREADS else self.disk).suffer(outage)

    @property
    def _is_suffering(self) -> bool:
        return self.disk.is_suffering or self.executor.is_suffering

    async def start(self, attempts: int = 100) -> bool:
        """Start as an operator does: again, if the disk did not let it; whether it started."""
        for _ in range(attempts):
            try:
                catalog, storage = await open_data(self._settings, self.disk, self.executor)
                try:
                    self.broker = BrokerState(self._settings, catalog, storage, self.clock, self.executor)
                    await self.broker.start()
                except BaseException:
                    await storage.close(started=False)
                    raise
                break
            except (KohortError, OSError) as error:
                self.failed_starts.append(str(error))
                if len(self.failed_starts) > 3:
                    self.suffer(None)
            except MemoryError:  # which has no text; the command says "out of memory"
                self.out_of_memory = True
                self.suffer(None)
        else:
            return False
        self._dispatch = Dispatch(self.broker)
        self._maintenance = BrokerMaintenance(self.broker)
        self._maintenance.start()
        return True

    async def stop(self) -> None:
        await self._settled(self._stop())

    async def _stop(self) -> None:
        await self._maintenance.stop()
        await self.broker.stop_coordinating()
        await self._dispatch.drain()
        await self.broker.stop()

    async def lose_power(self) -> None:
        """What was acknowledged is on the disk, where the policy says so; elsewhere stop cleanly."""
        if self._settings.fsync is SyncPolicy.COMMIT:
            await self._maintenance.stop()
            self.disk.crash()
        else:
            await self.stop()

    async def pass_time(self, milliseconds: int) -> None:
        for _ in range(0, milliseconds, STEP_MS):
            await self._step()

    async def _step(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        self.clock.advance(STEP_MS)

    async def _settled(self, work: Awaitable[Any]) -> Any:  # noqa: ANN401 - whatever it brings
        """Wait in virtual time; an outage ends when something has waited for long."""
        future = asyncio.ensure_future(work)
        since = self.clock.now().instant
        while True:
            for _ in range(TURNS):
                if future.done():
                    return future.result()
                await asyncio.sleep(0)
            since = self._wait_on(since, "no answer")

    def _wait_on(self, since: Instant, problem: str) -> Instant:
        """Let a moment pass for something that waits; returns since when it waits without an outage."""
        now = self.clock.now().instant
        if self._is_suffering and now - since >= PATIENCE_MS:
            self.suffer(None)
            self._healed_at = now
        since = max(since, self._healed_at)
        assert now - since <= PATIENCE_MS or self._is_suffering, f"{problem} for ten seconds"
        self.clock.advance(STEP_MS)
        return since

    # -- requests --------------------------------------------------------------------------------------

    async def ask(self, request: Message, version: int) -> Any:  # noqa: ANN401 - the caller knows the class
        key = ApiKey(request.api_key or 0)
        header = request_header(RequestHeader(key, version, 1, "day"))
        result = self._dispatch.serve(header + encode(request, version), Peer(self.broker.endpoints[0]))
        while not isinstance(result, list | None):
            await self._settled(asyncio.wait([result.future]))
            result = result.parts()
        assert result is not None
        frame = b"".join(result)[4:]
        spec = APIS[key]
        _, position = read_response_header(frame, spec.response_header_is_flexible(version))
        return decode(spec.response_class, version, frame[position:])

    async def until_done(self, attempt: Callable[[], Awaitable[ErrorCode]]) -> None:
        """Try until the code is NONE; from the end of the outage on, for ten seconds."""
        since = self.clock.now().instant
        while code := await attempt():
            assert code in RETRIABLE, f"{code.name} is not retriable"
            for _ in range(TURNS):
                await asyncio.sleep(0)
            since = self._wait_on(since, code.name)

    # -- steps -----------------------------------------------------------------------------------------

    async def create(self, name: str, **configs: object) -> None:
        wanted = CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=str(value))
                for key, value in configs.items()
            ],
        )

        async def attempt() -> ErrorCode:
            (result,) = (await self.ask(CreateTopicsRequest(topics=[wanted]), 7)).topics
            return ErrorCode(result.error_code)

        await self.until_done(attempt)
        self.produced[name] = []

    async def delete(self, name: str) -> None:
        async def attempt() -> ErrorCode:
            (result,) = (await self.ask(DeleteTopicsRequest(topic_names=[name]), 5)).responses
            return ErrorCode(result.error_code)

        await self.until_done(attempt)
        del self.produced[name]

    async def add_partition(self, name: str, total: int) -> None:
        topic = CreatePartitionsTopic(name=name, count=total, assignments=None)

        async def attempt() -> ErrorCode:
            (result,) = (await self.ask(CreatePartitionsRequest(topics=[topic]), 3)).results
            return ErrorCode(result.error_code)

        await self.until_done(attempt)

    async def produce(self, name: str, value: str, key: str = "k") -> None:
        self.clock.advance(STEP_MS)  # so that each begins a segment where that lasts for a millisecond
        content = batch(value, key=key, at=self.clock.now().wall)

        async def attempt() -> ErrorCode:
            reply = await self.ask(produce_request(name, content), 12)
            return ErrorCode(reply.responses[0].partition_responses[0].error_code)

        await self.until_done(attempt)
        self.produced[name].append(value)

    async def delete_records(self, name: str, offset: int) -> None:
        wanted = DeleteRecordsTopic(
            name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
        )

        async def attempt() -> ErrorCode:
            reply = await self.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=1_000), 2)
            return ErrorCode(reply.topics[0].partitions[0].error_code)

        await self.until_done(attempt)

    async def commit(self, offset: int) -> None:
        """As a static member, which joins again when the group does not know it any more."""

        async def attempt() -> ErrorCode:
            if self._member[1] < 0 and (code := await self._join()):
                return code
            request = commit_request((0, offset), topic="t", member=self._member)
            reply = await self.ask(request, 8)
            code = ErrorCode(reply.topics[0].partitions[0].error_code)
            if code in REJOIN:
                self._member = ("", -1)
                return ErrorCode.NOT_COORDINATOR
            return code

        await self.until_done(attempt)
        self.committed = offset

    async def _join(self) -> ErrorCode:
        found = await self.ask(FindCoordinatorRequest(key=GROUP), 3)
        if found.error_code:
            return ErrorCode(found.error_code)
        joined = await self.ask(join_request(instance="i"), 5)
        if joined.error_code:
            return ErrorCode(joined.error_code)
        member, generation = joined.member_id, joined.generation_id
        request = sync_request(member, generation, {member: b"all"})
        request.group_instance_id = "i"
        synced = await self.ask(request, 5)
        code = ErrorCode(synced.error_code)
        if code is ErrorCode.NONE:
            self._member = (member, generation)
        return ErrorCode.NOT_COORDINATOR if code in REJOIN else code

    async def subscribe(self) -> None:
        """As a member of a consumer group, to topics that are found in a thread."""

        async def attempt() -> ErrorCode:
            request = ConsumerGroupHeartbeatRequest(
                group_id="modern", member_id="m", member_epoch=self._epoch, rebalance_timeout_ms=300_000,
                subscribed_topic_regex="t|gone", topic_partitions=[],
            )  # fmt: skip
            reply = await self.ask(request, 1)
            code = ErrorCode(reply.error_code)
            if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
                self._epoch = 0
                return ErrorCode.NOT_COORDINATOR
            self._epoch = self._epoch if code else reply.member_epoch
            has_all = reply.assignment is not None and len(reply.assignment.topic_partitions) == 2
            return code if code or has_all else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

        await self.until_done(attempt)

    async def find_by_time(self, name: str) -> None:
        async def attempt() -> ErrorCode:
            wanted = ListOffsetsPartition(partition_index=0, timestamp=self.clock.now().wall - STEP_MS)
            topics = [ListOffsetsTopic(name=name, partitions=[wanted])]
            reply = await self.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
            return ErrorCode(reply.topics[0].partitions[0].error_code)

        await self.until_done(attempt)

    async def alter_configs(self, name: str) -> None:
        config = AlterableConfig(name="retention.ms", config_operation=0, value="-1")
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[config])

        async def attempt() -> ErrorCode:
            reply = await self.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            return ErrorCode(reply.responses[0].error_code)

        await self.until_done(attempt)

    async def get_producer_id(self) -> None:
        async def attempt() -> ErrorCode:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
            reply = await self.ask(request, 4)
            return ErrorCode(reply.error_code)

        await self.until_done(attempt)

    # -- checks ----------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Everything acknowledged is there, and every topic can be used."""
        for name, values in self.produced.items():
            found = await self._values(name)
            wanted = values if name != "compacted" else values[-1:]
            assert set(wanted) <= set(found), f"{name} lost {set(wanted) - set(found)}"
            order = [value for value in dict.fromkeys(found) if value in wanted]
            assert order == wanted
        reply = await self.ask(MetadataRequest(topics=None), 12)
        listed = {topic.name for topic in reply.topics if not topic.is_internal}
        assert listed == set(self.produced)
        if self.committed >= 0:
            await self.until_done(self._check_commit)

    async def _values(self, name: str) -> list[str]:
        values: list[str] = []
        offset = self.broker.topics.get(name).logs[0].start_offset  # type: ignore[union-attr] # it is there
        at_end = False

        async def attempt() -> ErrorCode:
            nonlocal offset, at_end
            reply = await self.ask(fetch_request({name: [part(offset=offset)]}), 12)
            result = reply.responses[0].partitions[0]
            records = records_of(result.records or b"")
            values.extend((record.value or b"").decode() for record in records if record.offset >= offset)
            at_end = not records
            offset = records[-1].offset + 1 if records else offset
            return ErrorCode(result.error_code)

        while not at_end:
            await self.until_done(attempt)
        return values

    async def _check_commit(self) -> ErrorCode:
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        reply = await self.ask(OffsetFetchRequest(group_id=GROUP, topics=topics), 5)
        if reply.error_code:
            return ErrorCode(reply.error_code)
        entry = reply.topics[0].partitions[0]
        if not entry.error_code:
            assert entry.committed_offset >= self.committed
        return ErrorCode(entry.error_code)
