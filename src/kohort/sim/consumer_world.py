"""A world of one consumer group to explore: members of both protocols, a topic that grows, restarts.

Clients behave as real ones do. They go on with the partitions that they own until they have taken the
assignment in their replies, and report what they own. So what is checked is what counts for users: no
two members ever own one partition, and everyone gets its share when all go on.

The classic member is a cooperative one beside a member and a static member of the consumer protocol. With
``eager`` there are two classic members beside one of the consumer protocol, and they give up everything
before each JoinGroup.

With ``slow_log`` the log stores a batch when it likes to and refuses one once, and clients commit what they
have read: what was acknowledged is never lost, and no offset goes back.
"""

import pickle
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import TypeAlias

from kohort.assign.protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kohort.groups.classic.state import Group
from kohort.groups.commands import (
    CommitOffsets,
    CommitRow,
    ConsumerHeartbeat,
    Heartbeat,
    Join,
    Leave,
    Leaver,
    OwnedTopic,
    Protocol,
    Request,
    Sync,
)
from kohort.groups.consumer.assignment import JOINING, LEAVING, LEFT_FOR_A_WHILE
from kohort.groups.consumer.state import ConsumerGroup
from kohort.groups.offsets.retention import SWEEP_KEY
from kohort.groups.replies import CommitReply, SyncReply
from kohort.groups.settings import GroupSettings
from kohort.groups.shard import Shard
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, InstanceId, MemberId, Partition, ReplyTo, TopicName
from kohort.model.topics import TopicPartition
from kohort.sim.clock import StandingWall
from kohort.sim.mixed_client import NOT_A_MEMBER, MixedClient, acknowledged, learn
from kohort.sim.node import SimulatedNode

GROUP = GroupId("g")
TOPIC = TopicName("t")
_PARTITIONS, _MOST_PARTITIONS = 3, 4
_MOST_COMMITS = 2  # of one partition
_ROUNDS = 30  # of heartbeats in which everyone must have its share
_SETTINGS = GroupSettings(initial_rebalance_delay_ms=0)


class ConsumerWorld:
    """Frozen at every fork of a history."""

    def __init__(self, *, slow_log: bool = False, eager: bool = False) -> None:
        self.node = SimulatedNode(_SETTINGS, StandingWall())
        self.has_slow_log = slow_log
        self.committed: dict[int, int] = {}  # by partition, the highest offset that was acknowledged
        self._stop_sweeping()
        self.topic_id = self.node.put_topic(TOPIC, _PARTITIONS)
        self.clients = [MixedClient("a", member_id=MemberId("a"))]
        if eager:
            self.clients += [MixedClient(name, is_classic=True, is_eager=True) for name in "cd"]
        else:
            self.clients += [
                MixedClient("s", instance_id=InstanceId("i"), member_id=MemberId("s")),
                MixedClient("c", is_classic=True),
            ]
        self.waiting: dict[ReplyTo, MixedClient] = {}
        self.requests = 0
        self.is_consumer_group = False
        if slow_log:
            self.node.hold_appends()

    @classmethod
    def settled(cls, *, slow_log: bool = False, eager: bool = False) -> "ConsumerWorld":
        """A world whose three clients share the partitions."""
        world = cls(slow_log=slow_log, eager=eager)
        world.node.release_appends()
        for client in world.clients:
            world._join(client)
        world.fall_silent()
        if slow_log:
            world.node.hold_appends()
        return world

    def freeze(self) -> bytes:
        """The world as it is, to be copied from."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)

    def fingerprint(self) -> Hashable:
        """The shard's, and what the clients know."""
        known = tuple(
            (
                *(c.member_id, c.epoch, c.owned, c.target, c.leads, tuple(c.positions.items())),
                *(c.lost, c.must_sync, c.must_join, c.must_say_everything, c.is_waiting),
            )
            for c in self.clients
        )
        node = self.node
        stored = {record.key: record.value for record in node.log} if self.has_slow_log else {}
        return (
            node.shard.fingerprint(node.clock.instant),
            known,
            len(node.topics),
            (node.failures, tuple(stored.items()), tuple(append.records for append in node.unsettled)),
            tuple(sorted(self.committed.items())),
        )

    # --- what can happen ----------------------------------------------------------------------

    def steps(self) -> Iterator[tuple[str, Callable[["ConsumerWorld"], None]]]:
        """Everything that can happen next, by name."""
        for index, client in enumerate(self.clients):
            for label, act in self._acts(client):
                yield f"{client.name} {label}", partial(_act, index, act)
        if self.node.topics[TOPIC].partitions < _MOST_PARTITIONS:
            yield "the topic grows", ConsumerWorld._grow
        if any(client.epoch != NOT_A_MEMBER for client in self.clients):
            yield "the coordinator restarts", ConsumerWorld._restart
            yield "time passes", ConsumerWorld._let_time_pass
        if self.node.unsettled:
            yield "the log stores a batch", ConsumerWorld._store
            if not self.node.failures:
                yield "the log refuses a batch, and the shard is loaded again", ConsumerWorld._refuse

    def _acts(
        self, client: MixedClient
    ) -> Iterator[tuple[str, Callable[["ConsumerWorld", MixedClient], None]]]:
        if client.is_waiting:
            return
        if client.epoch == NOT_A_MEMBER:
            yield "joins", ConsumerWorld._join
        if client.epoch != NOT_A_MEMBER:
            yield "goes on", ConsumerWorld._go_on
            yield "leaves", ConsumerWorld._leave
            if client.target is not None and client.target != client.owned:
                yield "takes what it shall own", ConsumerWorld._take
            if client.instance_id is not None:
                yield "leaves for a while", ConsumerWorld._pause
            has_read = any(each < _MOST_COMMITS for each in client.positions.values())
            if self.has_slow_log and has_read and not client.must_sync:
                yield "commits", ConsumerWorld._commit

    def _join(self, client: MixedClient) -> None:
        if client.is_eager:
            client.give_up_everything()
        if client.is_classic:
            owned = tuple(TopicPartition(TOPIC, Partition(number)) for number in sorted(client.owned))
            metadata = encode_subscription(Subscription((TOPIC,), owned=owned), 1)
            request: Request = Join(
                reply_to=self._new_request(client),
                group_id=GROUP,
                member_id=client.member_id,
                protocols=(Protocol(client.protocol, metadata),),
                session_timeout_ms=10_000,
                rebalance_timeout_ms=30_000,
                fresh_id=f"fresh{self.requests}",
                version=3,
            )
        else:
            client.lose_everything()
            request = self._heartbeat(client, JOINING, full=True)
        self._send(request)

    def _go_on(self, client: MixedClient) -> None:
        if not client.is_classic:
            self._send(self._heartbeat(client, client.epoch, full=client.must_say_everything))
        elif client.must_join:
            self._join(client)
        elif client.must_sync:
            self._sync(client)
        else:
            who = client.member_id
            generation = Generation(client.epoch)
            self._send(
                Heartbeat(
                    reply_to=self._new_request(client), group_id=GROUP, member_id=who, generation=generation
                )
            )

    def _sync(self, client: MixedClient) -> None:
        everything = [TopicPartition(TOPIC, Partition(n)) for n in range(self.node.topics[TOPIC].partitions)]
        count = len(client.leads)
        from_leader = tuple(
            (member, _assignment(everything[index::count])) for index, member in enumerate(client.leads)
        )
        self._send(
            Sync(
                reply_to=self._new_request(client),
                group_id=GROUP,
                member_id=client.member_id,
                generation=Generation(client.epoch),
                assignments=from_leader,
                version=3,
            )
        )

    def _leave(self, client: MixedClient) -> None:
        client.lose_everything()
        if client.is_classic:
            leavers = (Leaver(client.member_id),)
            self._send(Leave(reply_to=self._new_request(client), group_id=GROUP, leavers=leavers))
        else:
            self._send(self._heartbeat(client, LEAVING))

    def _pause(self, client: MixedClient) -> None:
        client.lose_everything()
        self._send(self._heartbeat(client, LEFT_FOR_A_WHILE))

    def _take(self, client: MixedClient) -> None:
        client.take(partial(_offset, self.node.shard))

    def _commit(self, client: MixedClient) -> None:
        """Read a record of every partition, and commit that."""
        client.positions = {number: offset + 1 for number, offset in client.positions.items()}
        rows = (CommitRow(TOPIC, Partition(number), offset) for number, offset in client.positions.items())
        self._send(
            CommitOffsets(
                reply_to=self._new_request(client),
                group_id=GROUP,
                rows=tuple(rows),
                generation=Generation(client.epoch),
                member_id=client.member_id,
                version=9,
            )
        )

    def _store(self) -> None:
        self.node.release_appends(1)
        self._learn()

    def _refuse(self) -> None:
        self.node.fail_next_append(ErrorCode.NOT_ENOUGH_REPLICAS)
        self.node.release_appends(1)
        self._stop_sweeping()
        self._learn()

    def _grow(self) -> None:
        self.node.put_topic(TOPIC, self.node.topics[TOPIC].partitions + 1)

    def _restart(self) -> None:
        self.node.restart()
        self._stop_sweeping()
        for client in self.waiting.values():
            client.lose_everything()  # its connection broke
        self.waiting.clear()

    def _let_time_pass(self) -> None:
        """Until a timer fires; those whom it removed learn of it with their next request."""
        before = len(self.node.events)
        deadline = self.node.shard.next_deadline()
        while deadline is not None and len(self.node.events) == before:
            self.node.sleep(max(deadline - self.node.clock.instant, 0))
            deadline = self.node.shard.next_deadline()
        self._learn()

    def _stop_sweeping(self) -> None:
        self.node.shard.state.housekeeping.cancel(SWEEP_KEY)

    def _heartbeat(self, client: MixedClient, epoch: int, *, full: bool = False) -> ConsumerHeartbeat:
        numbers = tuple(map(Partition, sorted(client.owned)))
        return ConsumerHeartbeat(
            reply_to=self._new_request(client),
            group_id=GROUP,
            member_id=client.member_id,
            member_epoch=epoch,
            instance_id=client.instance_id,
            rebalance_timeout_ms=60_000 if full else -1,
            names=(TOPIC,) if full else None,
            owned=(OwnedTopic(self.topic_id, numbers),) if numbers else (),
        )

    def _new_request(self, client: MixedClient) -> ReplyTo:
        self.requests += 1
        self.waiting[ReplyTo(self.requests)] = client
        client.is_waiting = True
        return ReplyTo(self.requests)

    def _send(self, request: Request) -> None:
        self.node.handle(request)
        self._learn()

    def _learn(self) -> None:
        classic = self.node.shard.group(GROUP)
        if classic is not None and self.is_consumer_group:
            self._downgraded(classic)
        self.is_consumer_group = self.node.shard.consumer_group(GROUP) is not None
        for reply in self.node.sent:
            client = self.waiting.pop(reply.reply_to)
            client.is_waiting = False
            if isinstance(reply.body, CommitReply):
                for topic_partition, offset in acknowledged(client, reply.body):
                    self.committed[topic_partition] = max(self.committed.get(topic_partition, 0), offset)
            learn(client, reply.body)
            if client.is_classic and client.target is not None and isinstance(reply.body, SyncReply):
                self._take(client)  # before it does anything else
        self.node.sent.clear()
        self.node.replies.clear()
        self.node.events.clear()

    # --- what must be true --------------------------------------------------------------------

    def complaints(self) -> Iterator[str]:
        """What is wrong now."""
        shard = self.node.shard
        yield from self._went_back(shard, "is at")
        if self.has_slow_log:
            yield from self._lost()
        group = shard.consumer_group(GROUP)
        if group is not None:
            yield from _about(group)
        found = shard.state.groups.get(GROUP)
        owners: dict[int, str] = {}
        for client in self.clients:
            is_member = found is not None and client.member_id in found.members
            if is_member and client.epoch != NOT_A_MEMBER and not client.must_sync:
                for number in client.owned - client.lost:
                    if owners.setdefault(number, client.name) != client.name:
                        yield f"{client.name} and {owners[number]} both own t-{number}"

    def _downgraded(self, group: Group) -> None:
        """The group knows its members' targets (modern-groups 14.3), not what they have yet to revoke."""
        for client in self.clients:
            member = group.members.get(client.member_id)
            if member is not None:
                kept = {number for _, number in decode_assignment(member.assignment).partitions}
                client.lost = client.owned - kept

    def _went_back(self, shard: Shard, verb: str) -> Iterator[str]:
        for number, offset in self.committed.items():
            if _offset(shard, number) < offset:
                yield f"t-{number} {verb} {_offset(shard, number)}, but {offset} was acknowledged"

    def _lost(self) -> Iterator[str]:
        """What clients know from replies, and a shard that is loaded now would not know."""
        loaded = Shard(_SETTINGS, self.node.clock.instant)
        loaded.replay(self.node.log)
        loaded.finish_load(self.node.clock.now)
        yield from self._went_back(loaded, "would be loaded as")
        group = loaded.consumer_group(GROUP)
        # The generation of a classic group is stored with its assignment, after the members know it.
        for client in (each for each in self.clients if not each.is_classic):
            member = None if group is None else group.members.get(client.member_id)
            if member is not None and JOINING < member.current.member_epoch < client.epoch:
                yield f"{client.name} has epoch {client.epoch}, stored is {member.current.member_epoch}"

    def fall_silent(self) -> None:
        """Everyone goes on, follows its replies, and nothing else happens; so it gets its share."""
        self.node.release_appends()
        self._learn()
        for _ in range(_ROUNDS):
            for client in self.clients:
                if client.target is not None:
                    self._take(client)
                if client.is_waiting:
                    self.node.sleep(1)
                    self._learn()
                elif client.epoch != NOT_A_MEMBER:
                    self._go_on(client)

    def end_complaints(self) -> Iterator[str]:
        """What is wrong when everyone has gone on for a while."""
        yield from self.complaints()
        group = self.node.shard.consumer_group(GROUP)
        if group is None or any(each.current.member_epoch < JOINING for each in group.members.values()):
            return  # a classic group, or a static member may still come back
        present = [client for client in self.clients if client.epoch != NOT_A_MEMBER]
        if {client.member_id for client in present} != set(group.members):
            return  # a session has yet to end
        owned = sorted(number for client in present for number in client.owned)
        if present and owned != list(range(self.node.topics[TOPIC].partitions)):
            yield f"only {owned} have an owner; the group is {group.state_name}: {self.clients}"


_Act: TypeAlias = Callable[[ConsumerWorld, MixedClient], None]


def _act(index: int, act: _Act, world: ConsumerWorld) -> None:
    act(world, world.clients[index])


def _assignment(partitions: list[TopicPartition]) -> bytes:
    return encode_assignment(Assignment(tuple(partitions)))


def _offset(shard: Shard, number: int) -> int:
    row = shard.state.offsets.get(GROUP, TOPIC, Partition(number))
    return 0 if row is None else row.offset


def _about(group: ConsumerGroup) -> Iterator[str]:
    if not group.epoch >= group.target_epoch:
        yield f"target epoch {group.target_epoch} above group epoch {group.epoch}"
    listed: dict[tuple[bytes, int], MemberId] = {}
    for member in group.members.values():
        if member.current.member_epoch > group.target_epoch:
            yield f"{member.member_id} is at {member.current.member_epoch}, above {group.target_epoch}"
        for partitions in (member.current.assigned, member.current.pending_revocation):
            for topic, numbers in partitions.items():
                for number in numbers:
                    if listed.setdefault((topic, number), member.member_id) != member.member_id:
                        yield f"{member.member_id} and {listed[topic, number]} have partition {number}"
    if group.subscriptions != Counter(member.details.subscription for member in group.members.values()):
        yield f"counts subscriptions {group.subscriptions}"
    kept = {(topic, n): owner for topic, owners in group.owners.items() for n, owner in owners.items()}
    if kept != listed:
        yield f"owners are {kept}, members list {listed}"
