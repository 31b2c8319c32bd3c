"""Consumer groups (KIP-848) seen from outside: offsets, lists, descriptions, deletion, configs, migration."""

from collections.abc import Iterator

from tests.interop.scripts.configs import DELETE, SET, changing
from tests.interop.scripts.configs import describing as describing_configs
from tests.interop.scripts.consumer_groups import group_of
from tests.interop.scripts.consumers import ConsumerMember, describing, name_topics
from tests.interop.scripts.exchange import Answer, Exchange, Reply
from tests.interop.scripts.members import Member, new_member, stable_pair, subscription
from tests.interop.scripts.offsets import at, committing, fetching
from tests.interop.scripts.setting import make_topic, ready_group, settle

from kohort.codec.compiled import encode
from kohort.wire.messages import alter_configs
from kohort.wire.messages.alter_configs import AlterConfigsRequest
from kohort.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kohort.wire.messages.consumer_protocol import TopicPartition as AssignedTopic
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest

Steps = Iterator[tuple[str, Answer]]
GROUP = 32  # the type of a resource
SESSION_TIMEOUT, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def commit_as(member: ConsumerMember, topic: str | bytes, epoch: int, offset: int = 1) -> OffsetCommitRequest:
    request = committing(member.group, topic, at(0, offset))
    request.member_id, request.generation_id_or_member_epoch = member.name, epoch
    return request


def fetch_as(member_id: str | None, group: str, topic: str, epoch: int) -> OffsetFetchRequest:
    request = fetching(group, topic, 0)
    request.groups[0].member_id, request.groups[0].member_epoch = member_id, epoch
    return request


def consumer_offsets(x: Exchange) -> Steps:
    """Modern-groups 18, scenarios 11, 68 to 70."""
    topic, group = "script.consumer-offsets", "script.consumer-offsets"
    topic_id = make_topic(x, topic, 1)
    yield "topic", name_topics(x, topic)
    one, two = group_of(x, group, "one", "two")
    yield "before there is a group", x.get(committing(group, topic, at(0, 7)), 9)
    one.join("script.consumer-none")
    yield "still there", x.get(fetching(group, topic, 0), 9)
    one.beat(subscribed_topic_names=[topic])
    for version in (2, 7, 8, 9):
        yield f"commit v{version}", x.get(commit_as(one, topic, 2), version)
    yield "commit v10", x.get(commit_as(one, topic_id, 2, 10), 10)
    for epoch in (1, 3, 0, -1):
        for version in (8, 9):
            yield f"commit at epoch {epoch} v{version}", x.get(commit_as(one, topic, epoch), version)
    yield "commit of an unknown member", x.get(commit_as(two, topic, 2), 9)
    yield "commit of no member", x.get(committing(group, topic, at(0, 3)), 9)
    yield "commit of an unknown member, epoch -1", x.get(commit_as(two, topic, -1), 9)
    for epoch in (2, 1, 3, 0, -1):
        yield f"fetch at epoch {epoch}", x.get(fetch_as("one", group, topic, epoch), 9)
    yield "fetch of an unknown member", x.get(fetch_as("two", group, topic, 2), 9)
    yield "fetch of an unknown member, epoch -1", x.get(fetch_as("two", group, topic, -1), 9)
    yield "fetch of no member", x.get(fetch_as(None, group, topic, -1), 9)
    yield "fetch of no member at an epoch", x.get(fetch_as(None, group, topic, 1), 9)
    yield "fetch of an empty member", x.get(fetch_as("", group, topic, -1), 9)
    yield "fetch v8", x.get(fetching(group, topic, 0), 8)
    one.leave()
    yield "commit of no member when empty", x.get(committing(group, topic, at(0, 11)), 9)
    yield "commit of the one that left", x.get(commit_as(one, topic, 2), 9)


OURS = "script.kinds-"


def only_ours(answer: Answer) -> Answer:
    """Without the groups of other scripts."""
    assert isinstance(answer, Reply)
    assert isinstance(answer.message, ListGroupsResponse)
    answer.message.groups = [each for each in answer.message.groups if each.group_id.startswith(OURS)]
    return answer


def consumer_lists(x: Exchange) -> Steps:
    """Modern-groups 18, scenarios 72, 73, 75."""
    topic = "script.kinds"
    make_topic(x, topic, 2)
    yield "topic", name_topics(x, topic)
    (stable,) = group_of(x, f"{OURS}stable", "stable")
    stable.join(topic)
    (empty,) = group_of(x, f"{OURS}empty", "empty")
    empty.join(topic)
    empty.leave()
    a, b = group_of(x, f"{OURS}reconciling", "a", "b")
    a.join(topic)
    b.join(topic)
    classic = ready_group(x, f"{OURS}classic")
    x.ask(committing(classic, topic, at(0, 1)), 9)
    for version in range(6):
        yield f"list v{version}", only_ours(x.get(ListGroupsRequest(), version))
    for types, states in (
        (["consumer"], []),
        (["CONSUMER"], ["stable"]),
        (["consumer", "classic"], ["Empty"]),
        (["classic"], []),
        (["bogus"], []),
        (["share"], []),
        ([], ["reconciling"]),
        ([], ["Assigning"]),
    ):
        request = ListGroupsRequest(types_filter=types, states_filter=states)
        yield f"list {types} {states}", only_ours(x.get(request, 5))
    names = [f"{OURS}{name}" for name in ("stable", "empty", "reconciling", "classic", "none")]
    for name in ("classic", "none"):
        ready_group(x, f"{OURS}{name}")
    for version in (0, 1):
        for name in names:
            yield f"describe {name} v{version}", x.get(describing(name), version)
    yield "describe no id", x.get(describing(""), 1)
    yield "describe none", x.get(describing(), 1)
    for version in (0, 5, 6):
        yield f"describe as classic v{version}", x.get(DescribeGroupsRequest(groups=[stable.group]), version)
    yield "delete", x.get(DeleteGroupsRequest(groups_names=[stable.group, empty.group]), 2)
    yield "deleted", x.get(describing(empty.group), 1)
    yield "listed", only_ours(x.get(ListGroupsRequest(), 5))


def group_configs(x: Exchange) -> Steps:
    """Modern-groups 16: the configs of a group and their bounds."""
    group = "script.group-configs"
    only = [SESSION_TIMEOUT, INTERVAL]
    yield "described", x.get(describing_configs(group, GROUP, only), 4)
    yield "described with synonyms", x.get(describing_configs(group, GROUP, only, synonyms=True), 4)
    yield "unknown key", x.get(describing_configs(group, GROUP, ["no.such"]), 4)
    yield "no id", x.get(describing_configs("", GROUP), 4)
    for name, value in (
        (SESSION_TIMEOUT, "999"),
        (SESSION_TIMEOUT, "60001"),
        (SESSION_TIMEOUT, "x"),
        (SESSION_TIMEOUT, None),
        (INTERVAL, "99"),
        (INTERVAL, "15001"),
        (INTERVAL, "0"),
        ("no.such", "1"),
    ):
        yield f"{name}={value}", x.get(changing(group, (name, SET, value), kind=GROUP), 1)
    yield "for no group", x.get(changing("", (INTERVAL, SET, "6000"), kind=GROUP), 1)
    yield "only checked", x.get(changing(group, (INTERVAL, SET, "6000"), kind=GROUP, check=True), 1)
    yield "appended", x.get(changing(group, (INTERVAL, 2, "6000"), kind=GROUP), 1)
    yield (
        "set",
        x.get(changing(group, (INTERVAL, SET, "7000"), (SESSION_TIMEOUT, SET, "50000"), kind=GROUP), 1),
    )
    wait_for_interval(x, group, 7_000)
    yield "described when set", x.get(describing_configs(group, GROUP, only, synonyms=True), 4)
    yield (
        "session timeout below the interval",
        x.get(changing(group, (INTERVAL, SET, "50000"), kind=GROUP), 1),
    )
    yield "deleted", x.get(changing(group, (INTERVAL, DELETE, None), kind=GROUP), 1)
    wait_for_interval(x, group, 5_000)
    yield "described when deleted", x.get(describing_configs(group, GROUP, only), 4)
    yield "replaced", x.get(replacing_group(group, {INTERVAL: "8000"}), 2)
    wait_for_interval(x, group, 8_000)
    yield "described when replaced", x.get(describing_configs(group, GROUP, only), 4)
    for version, types in ((0, []), (1, [GROUP]), (1, [2]), (1, [])):
        answer = x.get(ListConfigResourcesRequest(resource_types=types), version)
        yield f"resources with configs v{version} {types}", only_group(answer, group)


def only_group(answer: Answer, group: str) -> Answer:
    """Without the resources of other scripts."""
    assert isinstance(answer, Reply)
    assert isinstance(answer.message, ListConfigResourcesResponse)
    found = answer.message.config_resources
    answer.message.config_resources = [each for each in found if each.resource_name == group]
    return answer


def replacing_group(group: str, values: dict[str, str]) -> AlterConfigsRequest:
    entries = [alter_configs.AlterableConfig(name=name, value=value) for name, value in values.items()]
    resource = alter_configs.AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=entries)
    return AlterConfigsRequest(resources=[resource])


def consumer_interval(x: Exchange) -> Steps:
    """Modern-groups 18, scenario 39: what a member is told when the configs of its group change."""
    group = "script.consumer-interval"
    (one,) = group_of(x, group, "one")
    x.ask(changing(group, (INTERVAL, SET, "7000"), kind=GROUP), 1)
    wait_for_interval(x, group, 7_000)
    yield "joins", one.join()
    x.ask(changing(group, (INTERVAL, DELETE, None), kind=GROUP), 1)
    wait_for_interval(x, group, 5_000)
    yield "the config is gone", one.beat()


def wait_for_interval(x: Exchange, group: str, interval: int) -> None:
    """Until the config of a group has this value."""

    def told() -> bool:
        request = describing_configs(group, GROUP, [INTERVAL])
        return bool(x.ask(request, 4, on="admin").results[0].configs[0].value == str(interval))

    settle(f"interval {interval}", told)


def assigned(topic: str, *partitions: int) -> bytes:
    """An assignment of the classic protocol, version 0 with its version in front."""
    parts = [AssignedTopic(topic=topic, partitions=list(partitions))] if partitions else []
    return b"\0\0" + encode(ConsumerProtocolAssignment(assigned_partitions=parts), 0)


def consumer_upgrade(x: Exchange) -> Steps:
    """Modern-groups 18, scenarios 76, 77, 79, 82, 83: a classic group, a consumer member comes and goes."""
    topic, group = "script.upgrade", "script.upgrade"
    make_topic(x, topic, 4)
    yield "topic", name_topics(x, topic)
    wanted = {"range": subscription(topic)}
    lead = new_member(x, group, "lead")
    lead.get_id()
    lead.join(wanted)
    lead.sync({lead.member_id: assigned(topic, 0, 1, 2, 3)})
    new = ConsumerMember(x, group, "new")
    yield "consumer member of an epoch", new.send(1, None)
    yield "consumer member joins", new.join(topic)
    yield "described", x.get(describing(group), 1)
    yield "described as classic", x.get(DescribeGroupsRequest(groups=[group]), 6)
    yield "the classic one heartbeats", lead.beat()
    yield "the classic one joins", lead.join(wanted)
    yield "the classic one syncs", lead.sync()
    yield "the classic one heartbeats again", lead.beat()
    yield "the new one waits", new.beat()
    owning = {"range": subscription_owning(topic, 0, 1)}
    yield "the classic one joins with less", lead.join(owning)
    yield "the classic one syncs with less", lead.sync()
    yield "the new one gets", new.beat()
    yield "the classic one is stable", lead.beat()
    yield "stable", x.get(describing(group), 1)
    stale = Member(x, group, "lead", lead.member_id, lead.generation - 1)
    yield "sync of an old generation", stale.sync()
    yield "heartbeat of an old generation", stale.beat()
    yield "sync of the new one", Member(x, group, "new", "new", new.epoch).sync()
    yield "heartbeat of the new one", Member(x, group, "new", "new", new.epoch).beat()
    other = Member(x, group, "other")
    yield "classic join of another kind", x.get(other.join_request(wanted, "connect"), 9, "other", "other")
    yield "classic join of another protocol", other.join({"sticky": subscription(topic)})
    yield "classic join without id", without_member_id(other.join(wanted))
    yield "the new one leaves", new.leave()
    yield "classic again", x.get(DescribeGroupsRequest(groups=[group]), 6)
    yield "no consumer group", x.get(describing(group), 1)
    yield "the classic one is told", lead.beat()


def consumer_upgrade_again(x: Exchange) -> Steps:
    """Modern-groups 14.3: downgraded before the classic member revoked, upgraded before it hears of it."""
    topic, group = "script.upgrade-again", "script.upgrade-again"
    make_topic(x, topic, 2)
    yield "topic", name_topics(x, topic)
    lead = new_member(x, group, "lead")
    lead.get_id()
    lead.join({"range": subscription(topic)})
    lead.sync({lead.member_id: assigned(topic, 0, 1)})
    new, next_one = ConsumerMember(x, group, "new"), ConsumerMember(x, group, "next")
    yield "consumer member joins", new.join(topic)
    yield "it leaves before the classic one revoked", new.leave()
    yield "classic again, with the target", x.get(DescribeGroupsRequest(groups=[group]), 5)
    commit = committing(group, topic, at(1, 5), by=lead)
    yield "the classic one commits what it has yet to revoke", x.get(commit, 9)
    yield "another consumer member joins, and reads it", next_one.join(topic)
    yield "upgraded", x.get(describing(group), 1)
    yield "the classic one commits it once more", x.get(commit, 9)
    yield "the classic one heartbeats", lead.beat()


def without_member_id(answer: Answer) -> Answer:
    """An id that a broker made, in the form it likes, is left out."""
    assert isinstance(answer, Reply)
    assert isinstance(answer.message, JoinGroupResponse)
    assert answer.message.member_id
    answer.message.member_id = "<made>"
    return answer


def subscription_owning(topic: str, *partitions: int) -> bytes:
    """A subscription, version 1, that owns partitions."""
    owned = [AssignedTopic(topic=topic, partitions=list(partitions))]
    return b"\0\1" + encode(ConsumerProtocolSubscription(topics=[topic], owned_partitions=owned), 1)


def consumer_upgrade_refused(x: Exchange) -> Steps:
    """Modern-groups 18, scenarios 78 and 84: what does not convert, and what always does."""
    group = "script.upgrade-refused"
    lead, _ = stable_pair(x, group)  # its assignments are no consumer's
    yield "assignments of no consumer", ConsumerMember(x, group, "new").join("t")
    yield "still classic", lead.beat()
    (one,) = group_of(x, f"{group}-empty", "one")
    one.join("t")
    one.leave()
    yield "classic member of an unknown id", Member(x, one.group, "stranger", "stranger").join()
    yield "is a consumer group", x.get(describing(one.group), 1)
    classic = Member(x, one.group, "classic")
    classic.get_id()
    yield "classic member of an empty group", classic.join()
    yield "is classic", x.get(describing(one.group), 1)
    topic = "script.upgrade-refused"
    make_topic(x, topic, 1)
    yield "topic", name_topics(x, topic)
    (changing,) = group_of(x, f"{group}-changing", "changing")
    changing.join(topic)
    same = Member(x, changing.group, "changing", "changing")
    yield "a dynamic member changes to the classic protocol", same.join({"range": subscription(topic)})
    yield "is a consumer group of a classic member", x.get(describing(changing.group), 1)
    same.instance = "unknown"
    yield "classic join of an unknown instance", same.join({"range": subscription(topic)})
    yield "it changes back", changing.beat()
    yield "is a consumer group of a consumer member", x.get(describing(changing.group), 1)
