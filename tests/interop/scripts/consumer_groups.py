"""ConsumerGroupHeartbeat: joining, epochs, reconciliation, leaving, static members, regular expressions."""

from collections.abc import Iterator

from tests.interop.scripts.consumers import REBALANCE, ConsumerMember, describing, name_topics
from tests.interop.scripts.exchange import Answer, AnyMessage, Exchange, Reply
from tests.interop.scripts.setting import make_topic, ready_group

from kohort.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

Steps = Iterator[tuple[str, Answer]]


def group_of(x: Exchange, group: str, *names: str) -> tuple[ConsumerMember, ...]:
    """Members that have not joined yet; their coordinator is ready."""
    ready_group(x, group)
    return tuple(ConsumerMember(x, group, name) for name in names)


def consumer_joins(x: Exchange) -> Steps:
    """Modern-groups 18, scenarios 1 to 10."""
    topic, group = "script.consumer-joins", "script.consumer-joins"
    make_topic(x, topic, 2)
    yield "topic", name_topics(x, topic)
    (one,) = group_of(x, group, "one")
    yield "epoch of no group", one.send(5, None)
    yield "leave of no group", one.leave()
    yield "unknown assignor", one.join(topic, server_assignor="foo")
    yield "no group was made", x.get(describing(group), 1)
    yield "joins", one.join(topic)
    yield "nothing new", one.beat()
    yield "full", one.beat(one.owned, rebalance_timeout_ms=REBALANCE, subscribed_topic_names=[topic])
    yield "names twice", one.beat(subscribed_topic_names=[topic, topic])
    yield "unknown member", ConsumerMember(x, group, "two").send(1, None)
    yield "unknown member leaves", ConsumerMember(x, group, "two").leave()
    yield "unknown assignor later", one.beat(server_assignor="foo")
    yield "other assignor", one.beat(server_assignor="range")
    yield "described", x.get(describing(group), 1)
    (old,) = group_of(x, f"{group}-0", "old")
    yield "v0 joins with its own id", old.join(topic, version=0)
    (none,) = group_of(x, f"{group}-none", "none")
    yield "no topics", none.join()
    yield "no such topic", none.beat(subscribed_topic_names=["script.consumer-later"])
    make_topic(x, "script.consumer-later", 1)
    yield "later", name_topics(x, "script.consumer-later")
    yield "the topic came", none.beat_until_assigned(1)
    (racked,) = group_of(x, f"{group}-rack", "racked")
    yield "with a rack", racked.join(topic, rack_id="r1", server_assignor="range")
    yield "described with a rack", x.get(describing(racked.group), 0)


def consumer_refusals(x: Exchange) -> Steps:
    """Modern-groups 3: what is an invalid request, one field at a time."""
    group = "script.consumer-refusals"
    (one,) = group_of(x, group, "one")
    ready_group(x, "")
    yield "v1 without id", one.join("t", member_id="")
    yield "v0 epoch 3 without id", one.send(3, None, version=0, member_id="")
    yield "v0 leaves without id", one.send(-1, None, version=0, member_id="")
    yield "no group id", one.join("t", group_id="")
    yield "blank id", one.join("t", member_id=" ")
    yield "blank group id", one.join("t", group_id="  ")
    yield "blank instance id", one.join("t", instance_id=" ")
    yield "blank rack", one.join("t", rack_id=" ")
    yield "empty instance id", one.join("t", instance_id="")
    yield "empty rack", one.join("t", rack_id="")
    yield "no rebalance timeout", one.join("t", rebalance_timeout_ms=-1)
    yield "rebalance timeout 0", one.join("t", rebalance_timeout_ms=0)
    yield "leaves again", one.leave()
    yield "owned null", one.send(0, None, rebalance_timeout_ms=1000, subscribed_topic_names=["t"])
    yield (
        "owned some",
        one.send(0, {b"\1" * 16: [0]}, rebalance_timeout_ms=1000, subscribed_topic_names=["t"]),
    )
    yield "no subscription", one.send(0, {}, rebalance_timeout_ms=1000)
    yield "epoch -2 without instance", one.send(-2, None)
    yield "epoch -3", one.send(-3, None)
    yield "epoch -3 with instance", one.send(-3, None, instance_id="i")
    yield "assignor of no text", one.join("t", server_assignor="")
    yield "bad regex", one.join(subscribed_topic_regex="a(", subscribed_topic_names=None)
    yield "look-ahead", one.join(subscribed_topic_regex="a(?=b)", subscribed_topic_names=None)
    yield "back-reference", one.join(subscribed_topic_regex=r"(a)\1", subscribed_topic_names=None)
    yield "described", x.get(describing(group), 1)


def consumer_epochs(x: Exchange) -> Steps:
    """Modern-groups 18, scenarios 13 to 20."""
    topic, group = "script.consumer-epochs", "script.consumer-epochs"
    topic_id = make_topic(x, topic, 2)
    yield "topic", name_topics(x, topic)
    (one,) = group_of(x, group, "one")
    one.join("script.consumer-none")
    yield "grows to 2", one.beat(subscribed_topic_names=[topic])
    yield "newer", one.send(3, None)
    yield "previous with a part", one.send(1, {topic_id: [0]})
    yield (
        "previous, full",
        one.send(1, {topic_id: [0]}, rebalance_timeout_ms=REBALANCE, subscribed_topic_names=[topic]),
    )
    yield "previous, owned null", one.send(1, None)
    yield "previous, owned another", one.send(1, {topic_id: [2]})
    yield "much older", one.send(0, {}, rebalance_timeout_ms=REBALANCE, subscribed_topic_names=[topic])
    yield "described", x.get(describing(group), 1)
    yield "adds a name", one.beat(subscribed_topic_names=[topic, "script.consumer-none"])
    yield "two behind", one.send(1, {topic_id: [0]})
    more = CreatePartitionsTopic(name=topic, count=3, assignments=None)
    x.ask(CreatePartitionsRequest(topics=[more], timeout_ms=5_000), 3)
    yield "a partition more", one.beat_until_assigned(3)


def consumer_reconciles(x: Exchange) -> Steps:
    """Modern-groups 18, scenarios 21 to 26, 61, 62, 74."""
    topic, group = "script.consumer-reconciles", "script.consumer-reconciles"
    make_topic(x, topic, 4)
    yield "topic", name_topics(x, topic)
    a, b, c = group_of(x, group, "a", "b", "c")
    yield "a joins", a.join(topic)
    yield "b joins", b.join(topic)
    yield "b waits", b.beat()
    yield "a is to revoke", a.beat()
    yield "revoking", x.get(describing(group), 1)
    yield "a has not yet", a.beat()
    yield "b waits still", b.beat()
    yield "c joins", c.join(topic)
    yield "a has not yet, and c came", a.beat()
    yield "a revoked", a.acknowledge()
    yield "a owns", a.acknowledge()
    yield "b gets", b.beat()
    yield "b owns", b.acknowledge()
    yield "c gets", c.beat()
    yield "stable", x.get(describing(group), 1)
    yield "b leaves", b.leave()
    yield "assigning", x.get(describing(group), 1)
    yield "a after the leave", a.beat()
    yield "c after the leave", c.beat()
    yield "stable again", x.get(describing(group), 1)
    a.leave()
    c.leave()
    yield "empty", x.get(describing(group), 1)


def consumer_unsubscribes(x: Exchange) -> Steps:
    """Modern-groups 18, scenarios 29, 31, 51, 53, 64, 66."""
    t, u = "script.consumer-unsub-t", "script.consumer-unsub-u"
    t_id = make_topic(x, t, 3)
    make_topic(x, u, 3)
    yield "topics", name_topics(x, t, u)
    a, b = group_of(x, "script.consumer-unsub", "a", "b")
    yield "a joins", a.join(t, u, server_assignor="range")
    yield "order of names", a.beat(subscribed_topic_names=[u, t])
    yield "a drops u", a.beat(subscribed_topic_names=[t])
    yield "described", x.get(describing(a.group), 1)
    yield "a revoked", a.acknowledge()
    yield "b joins", b.join(t, u, server_assignor="range")
    yield "a owns less already", a.beat({t_id: [0, 1]})
    yield "b gets", b.beat()
    yield "described again", x.get(describing(a.group), 1)
    a.instance = "i1"
    yield "an instance id comes later", a.beat()


def consumer_static(x: Exchange) -> Steps:
    """Modern-groups 18, scenarios 40 to 48."""
    topic, group = "script.consumer-static", "script.consumer-static"
    make_topic(x, topic, 2)
    yield "topic", name_topics(x, topic)
    m1, m2, m3 = group_of(x, group, "m1", "m2", "m3")
    for member in (m1, m2, m3):
        member.instance = "i1"
    yield "unknown instance", m1.send(1, None)
    yield "joins", m1.join(topic)
    yield "another joins with it", m2.join(topic)
    yield "joins again", m1.join(topic)
    yield "another heartbeats", m2.send(1, None)
    yield "another leaves", m2.leave()
    yield "another leaves for a while", m2.leave(-2)
    yield "without instance id", ConsumerMember(x, group, "m1").send(1, None)
    yield "leaves for a while", m1.leave(-2)
    yield "away", x.get(describing(group), 1)
    yield "heartbeats while away", m1.send(1, None)
    yield "another takes over", m2.join(topic)
    yield "replaced", x.get(describing(group), 1)
    yield "the old one heartbeats", m1.send(1, None)
    yield "the old one leaves", m1.leave()
    yield "away again", m2.leave(-2)
    yield "comes with other topics", m3.join("script.consumer-none", topic)
    yield "leaves", m3.leave()
    yield "empty", x.get(describing(group), 1)
    yield "is free", m1.join(topic)
    m1.leave()


def of_any_topic(answer: Answer) -> Answer:
    """Which of two topics a member gets follows from their ids, which are random."""
    assert isinstance(answer, Reply)
    reply: AnyMessage = answer.message
    for topic in reply.assignment.topic_partitions:
        topic.topic_id = bytes(16)
    return answer


def consumer_regex(x: Exchange) -> Steps:
    """Modern-groups 18, scenarios 54 to 57, 59, 60."""
    group, stem = "script.consumer-regex", "script.consumer-rx"
    for name in ("foo", "foobar", "xfoo"):
        make_topic(x, f"{stem}-{name}", 1)
    yield "topics", name_topics(x, *(f"{stem}-{name}" for name in ("foo", "foobar", "xfoo")))
    a, b = group_of(x, group, "a", "b")
    pattern = f"{stem}-foo.*"
    yield "joins", a.join(subscribed_topic_regex=pattern, subscribed_topic_names=None)
    yield "resolved", a.beat_until_assigned(2)
    yield "described", x.get(describing(group), 1)
    yield "second with it", b.join(subscribed_topic_regex=pattern, subscribed_topic_names=None)
    yield "first after the second", of_any_topic(a.beat())
    a.acknowledge()
    yield "second gets", of_any_topic(b.beat())
    yield "bad one later", b.beat(subscribed_topic_regex="[")
    yield "drops it for a name", b.beat(subscribed_topic_regex="", subscribed_topic_names=[f"{stem}-xfoo"])
    yield "second leaves", b.leave()
    yield "name and pattern", a.beat(subscribed_topic_names=[f"{stem}-xfoo"])
    yield "both", x.get(describing(group), 1)
    yield "drops it", a.beat(subscribed_topic_regex="")
    yield "only the name", x.get(describing(group), 1)
    (empty,) = group_of(x, f"{group}-empty", "empty")
    yield "joins with no text", empty.join(subscribed_topic_regex="", subscribed_topic_names=None)
