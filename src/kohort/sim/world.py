"""A small world to explore: a node whose log is slow and may fail once, and three busy clients."""

import pickle
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import (
    NO_GENERATION,
    NO_MEMBER,
    CommitOffsets,
    CommitRow,
    Join,
    Leave,
    Leaver,
    Protocol,
    Request,
    Sync,
)
from kohort.groups.offsets.retention import SWEEP_KEY
from kohort.groups.replies import CommitReply, JoinReply, ReplyBody, SyncReply
from kohort.groups.settings import GroupSettings
from kohort.groups.shard import Shard
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, InstanceId, MemberId, Partition, ReplyTo, TopicName
from kohort.sim.clock import StandingWall
from kohort.sim.invariants import broken_invariants, durable_difference
from kohort.sim.members import subscription
from kohort.sim.node import SimulatedNode

GROUP = GroupId("g")
STATIC = "c"  # the client that has an instance id
_SETTINGS = GroupSettings()
_FOREVER_MS = 700_000  # longer than any timer of a group without requests, twice over
_LISTS = (
    (Protocol("range", subscription("t")), Protocol("roundrobin", subscription("t"))),
    (Protocol("roundrobin", subscription("t")), Protocol("range", subscription("t"))),
)


@dataclass(slots=True)
class Client:
    """What one of the three knows, and which request it waits for."""

    name: str
    instance_id: InstanceId | None
    member_id: MemberId = NO_MEMBER
    generation: Generation = NO_GENERATION
    leads: bool = False
    preference: int = 0  # which list of protocols it comes with
    ids: int = 0  # how many it was given
    waits_for: ReplyTo | None = None
    is_synced: bool = False

    def learn(self, reply: ReplyBody) -> None:
        """React as clients do."""
        if isinstance(reply, JoinReply):
            if reply.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id = reply.member_id
            if not reply.error:
                self.generation, self.leads = reply.generation, reply.leader == reply.member_id
                self.is_synced = False
        elif isinstance(reply, SyncReply):
            self.is_synced = not reply.error
        error = getattr(reply, "error", ErrorCode.NONE)
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id, self.generation = NO_MEMBER, NO_GENERATION


class Acknowledged(NamedTuple):
    """The newest of what the replies to clients say is done: it must never be lost."""

    assignment: int = -1  # a generation whose assignment a member has
    commit: int = -1  # an offset


class World:
    """Frozen at every fork of a history."""

    def __init__(self, clients: tuple[str, ...] = ("a", "b", STATIC)) -> None:
        self.node = SimulatedNode(_SETTINGS, StandingWall())
        self.node.hold_appends()
        self._stop_sweeping()
        self.clients = [Client(n, InstanceId(n) if n == STATIC else None) for n in clients]
        self.waiting: dict[ReplyTo, Client] = {}
        self.requests = 0
        self.generation = Generation(0)
        self.acknowledged = Acknowledged()
        self._loadable = 0, Acknowledged()  # what a shard that is loaded from a log of this length knows

    @classmethod
    def stable(cls, clients: tuple[str, ...] = ("a", "b", STATIC)) -> "World":
        """A world whose clients are in a stable group; the static one leads, it needs no second request."""
        world = cls(clients)
        while any(client.waits_for is None for client in world.clients):
            for client in world.clients:
                if client.waits_for is None:
                    world._join(client)
        while any(client.waits_for is not None for client in world.clients):
            world._let_time_pass()
        for client in world.clients:
            world._sync(client)
        world._store()
        return world

    def freeze(self) -> bytes:
        """The world as it is; ``thaw`` makes any number of worlds of it, each with its own future."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)

    @staticmethod
    def thaw(frozen: bytes) -> "World":
        """A world of its own in the frozen state."""
        world = pickle.loads(frozen)
        assert isinstance(world, World)
        return world

    def fingerprint(self) -> Hashable:
        """The shard's, and what the clients know; which request is which does not matter."""
        clients = tuple(
            (c.member_id, c.generation, c.leads, c.preference, c.waits_for is None, c.is_synced)
            for c in self.clients
        )
        node = self.node
        stored = {record.key: record.value for record in node.log}
        return (
            node.shard.fingerprint(node.clock.instant),
            clients,
            node.failures,
            self.acknowledged,
            tuple(stored.items()),
            tuple(append.records for append in node.unsettled),
        )

    def _stop_sweeping(self) -> None:
        """The retention sweep would tell states apart by their age."""
        self.node.shard.state.housekeeping.cancel(SWEEP_KEY)

    # --- what can happen ----------------------------------------------------------------------

    def steps(self) -> Iterator[tuple[str, Callable[["World"], None]]]:
        """Everything that can happen next, by name."""
        for index, client in enumerate(self.clients):
            for label, act in self._acts(client):
                yield f"{client.name} {label}", partial(_act, index, act)
        if self.node.shard.next_deadline() is not None:
            yield "time passes", World._let_time_pass
        if self.node.unsettled:
            yield "the log stores a batch", World._store
            if not self.node.failures:
                yield "the log refuses a batch, and the shard is loaded again", World._refuse

    def _acts(self, client: Client) -> Iterator[tuple[str, Callable[["World", Client], None]]]:
        if client.waits_for is not None:
            if client.name == "a":
                yield "loses its connection and joins again", World._join
            return
        yield "joins", World._join
        if client.name == "b":
            yield "joins with other preferences", World._join_changed
        if client.instance_id is not None and client.member_id:
            yield "restarts and joins", World._join_restarted
        if client.member_id:
            yield "leaves", World._leave
        if client.generation >= 0:
            if not client.is_synced:
                yield "syncs", World._sync
            if client.name == "a":
                yield "sends a heartbeat", World._heartbeat
            if client.name == "b":
                yield "commits", World._commit

    def _join(self, client: Client) -> None:
        if not client.member_id:
            client.ids += 1
        request = Join(
            reply_to=self._new_request(client),
            group_id=GROUP,
            member_id=client.member_id,
            instance_id=client.instance_id,
            protocols=_LISTS[client.preference],
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            client_id=client.name,
            fresh_id=str(client.ids),
        )
        self._send(request)

    def _join_changed(self, client: Client) -> None:
        client.preference = 1 - client.preference
        self._join(client)

    def _join_restarted(self, client: Client) -> None:
        client.member_id, client.generation = NO_MEMBER, NO_GENERATION
        self._join(client)

    def _sync(self, client: Client) -> None:
        group = self.node.shard.group(GROUP)
        everyone = tuple(group.members) if group is not None and client.leads else ()
        request = Sync(
            reply_to=self._new_request(client),
            group_id=GROUP,
            member_id=client.member_id,
            generation=client.generation,
            instance_id=client.instance_id,
            assignments=tuple((member_id, member_id.encode()) for member_id in everyone),
            version=4,
        )
        self._send(request)

    def _leave(self, client: Client) -> None:
        leaver = Leaver(client.member_id, client.instance_id)
        request = Leave(reply_to=self._new_request(client), group_id=GROUP, leavers=(leaver,))
        client.member_id, client.generation = NO_MEMBER, NO_GENERATION
        self._send(request)

    def _commit(self, client: Client) -> None:
        row = CommitRow(TopicName("t"), Partition(0), client.generation)
        request = CommitOffsets(
            reply_to=self._new_request(client),
            group_id=GROUP,
            rows=(row,),
            generation=client.generation,
            member_id=client.member_id,
        )
        self._send(request)

    def _heartbeat(self, client: Client) -> None:
        who, now = (GROUP, client.member_id), self.node.clock.instant
        self.node.shard.heartbeat(who, client.generation, client.instance_id, now)

    def _let_time_pass(self) -> None:
        """Until something happens; a wheel that only turns is nothing."""
        before = len(self.node.events)
        deadline = self.node.shard.next_deadline()
        while deadline is not None and len(self.node.events) == before:
            self.node.sleep(max(deadline - self.node.clock.instant, 0))
            deadline = self.node.shard.next_deadline()
        self._learn()

    def _store(self) -> None:
        self.node.release_appends(1)
        self._learn()

    def _refuse(self) -> None:
        self.node.fail_next_append(ErrorCode.NOT_ENOUGH_REPLICAS)
        self.node.release_appends(1)
        self._stop_sweeping()
        self.generation = Generation(0)  # the newest one that is stored comes back
        self._learn()

    def _new_request(self, client: Client) -> ReplyTo:
        self.requests += 1
        client.waits_for = ReplyTo(self.requests)
        self.waiting[client.waits_for] = client
        return client.waits_for

    def _send(self, request: Request) -> None:
        self.node.handle(request)
        self._learn()

    def _learn(self) -> None:
        for reply in self.node.sent:
            client = self.waiting.pop(reply.reply_to)  # a second answer finds no client
            if client.waits_for == reply.reply_to:
                client.waits_for = None
                self._acknowledge(client, reply.body)
                client.learn(reply.body)
        self.node.sent.clear()
        self.node.replies.clear()
        self.node.events.clear()

    def _acknowledge(self, client: Client, reply: ReplyBody) -> None:
        assignment, commit = self.acknowledged
        if isinstance(reply, SyncReply) and not reply.error:
            assignment = max(assignment, client.generation)
        elif isinstance(reply, CommitReply) and not reply.rows[0].error:
            commit = max(commit, client.generation)
        self.acknowledged = Acknowledged(assignment, commit)

    # --- what must be true --------------------------------------------------------------------

    def complaints(self) -> Iterator[str]:
        """What is wrong now."""
        yield from broken_invariants(self.node.shard, self.waiting)
        group = self.node.shard.group(GROUP)
        if group is not None:
            if group.generation < self.generation:
                yield f"generation {group.generation} after {self.generation}"
            self.generation = group.generation
        yield from self._lost()

    def _lost(self) -> Iterator[str]:
        """What replies say is done and a shard that is loaded now would not know."""
        if self._loadable[0] != len(self.node.log):
            self._loadable = len(self.node.log), self._load()
        assignment, commit = self._loadable[1]
        if assignment < self.acknowledged.assignment:
            yield f"the assignment of generation {self.acknowledged.assignment} was acknowledged and is lost"
        if commit < self.acknowledged.commit:
            yield f"the commit of offset {self.acknowledged.commit} was acknowledged and is lost"

    def _load(self) -> Acknowledged:
        loaded = Shard(_SETTINGS, self.node.clock.instant)
        loaded.replay(self.node.log)
        loaded.finish_load(self.node.clock.now)
        group = loaded.group(GROUP)
        row = loaded.state.offsets.get(GROUP, TopicName("t"), Partition(0))
        return Acknowledged(-1 if group is None else group.generation, -1 if row is None else row.offset)

    def fall_silent(self) -> None:
        """No client says anything any more; the log catches up, timers run."""
        self.node.release_appends()
        self.node.sleep(_FOREVER_MS)
        self._learn()

    def end_complaints(self) -> Iterator[str]:
        """What is wrong when no client has said anything for a long time."""
        yield from self.complaints()
        if self.waiting:
            yield f"requests {list(self.waiting)} are never answered"
        group = self.node.shard.group(GROUP)
        if group is not None and (group.phase is not Phase.EMPTY or group.pending):
            yield f"a group without requests is {group.phase.value}, with ids {list(group.pending)}"
        if self.node.shard.next_deadline() is not None:
            yield "timers run although there are no members"
        yield from durable_difference(self.node.shard, self.node.log, _SETTINGS)


def _act(index: int, act: Callable[[World, Client], None], world: World) -> None:
    act(world, world.clients[index])
