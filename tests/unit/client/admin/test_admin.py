"""``Admin`` and ``AsyncAdmin``: wrong arguments, pairs as partitions, and the form without an event loop."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kohort.client.admin import Admin, AsyncAdmin
from kohort.client.admin.results import (
    CommittedOffset,
    GroupInfo,
    ListedOffset,
    NewTopic,
    Resource,
    ResourceType,
)
from kohort.client.admin.topics import OffsetSpec
from kohort.client.cluster import ClusterClient
from kohort.client.errors import (
    BrokerError,
    ClientClosedError,
    NoBrokerError,
    SettingError,
    UnknownTopicError,
)
from kohort.client.settings import ClientOptions
from kohort.model.ids import GroupId, Offset, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.testing import Broker
from kohort.testing.plugin import Kohort


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda admin: admin.delete_topics("orders"), r"\['orders'\]"),
        (lambda admin: admin.describe_topics("orders"), r"\['orders'\]"),
        (lambda admin: admin.delete_groups("billing"), r"\['billing'\]"),
        (lambda admin: admin.describe_groups("billing"), r"\['billing'\]"),
        (lambda admin: admin.list_groups(states="Stable"), r"\['Stable'\]"),
        (lambda admin: admin.create_topic("orders"), "NewTopic"),
        (lambda admin: admin.create_topics(["orders"]), "NewTopic"),
        (lambda admin: admin.list_offsets({"orders": -1}), "pair of topic and number"),
    ],
)
def test_one_name_is_no_list_of_names(call: Callable[[Any], Coroutine[Any, Any, object]], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        asyncio.run(call(AsyncAdmin("127.0.0.1:1")))


def test_an_admin_shows_where_it_goes() -> None:
    assert repr(AsyncAdmin(bootstrap_servers=["a:1", "b:2"])) == "<AsyncAdmin of a:1,b:2>"
    assert repr(Admin("a:1")) == "<Admin of a:1>"


def test_pairs_are_partitions_and_numbers_are_offsets() -> None:
    async def administer(bootstrap: str) -> None:
        async with AsyncAdmin(bootstrap) as admin:
            await admin.create_topic(NewTopic("orders", partitions=2))
            assert await admin.alter_group_offsets("billing", {("orders", 1): 5}) == {("orders", 1): None}
            committed = await admin.list_group_offsets("billing", [("orders", 1)])
            assert committed == {("orders", 1): CommittedOffset(Offset(5))}
            (listed,) = await admin.list_offsets({("orders", 1): -1})
            assert type(listed) is TopicPartition

    with Broker() as broker:
        asyncio.run(administer(broker.bootstrap))


def test_both_forms_have_the_same_calls_with_the_same_arguments() -> None:
    def calls(form: type) -> dict[str, str]:
        found = inspect.getmembers(form, inspect.isfunction)
        return {name: str(inspect.signature(call)) for name, call in found if not name.startswith("_")}

    own = {"start", "close", "run"}
    assert {name: text for name, text in calls(Admin).items() if name not in own} == {
        name: text for name, text in calls(AsyncAdmin).items() if name != "connection_to"
    }


def test_an_admin_without_a_loop_does_all_of_it(kohort: Kohort) -> None:
    name, group = f"{kohort.topic()}-more", kohort.group()
    where, resource = TopicPartition(TopicName(name), Partition(0)), Resource(ResourceType.TOPIC, name)
    with Admin(kohort.bootstrap) as admin:
        assert admin.create_topic(NewTopic(name, partitions=1)).partitions == 1
        assert isinstance(admin.create_topics([NewTopic(name)])[where.topic], BrokerError)
        assert admin.create_partitions({name: 2}) == {name: None}
        assert len(admin.describe_topic(name).partitions) == 2
        assert name in admin.describe_topics([name])
        assert name in [topic.name for topic in admin.list_topics()]
        assert admin.alter_configs({resource: {"retention.ms": "1234"}}) == {resource: None}
        configs = admin.describe_configs([resource])[resource]
        assert isinstance(configs, dict)
        assert configs["retention.ms"].value == "1234"
        listed = admin.list_offsets({where: OffsetSpec.LATEST})[where]
        assert isinstance(listed, ListedOffset)
        assert listed.offset == 0
        assert admin.delete_records({where: -1}) == {where: 0}
        assert admin.alter_group_offsets(group, {where: 0}) == {where: None}
        assert admin.list_group_offsets(group) == {where: CommittedOffset(Offset(0))}
        assert group in [one.group_id for one in admin.list_groups()]
        assert isinstance(admin.describe_groups([group])[GroupId(group)], GroupInfo)
        assert admin.find_coordinator(group) in admin.describe_cluster().nodes
        assert admin.describe_log_dirs([where])
        assert admin.delete_group_offsets(group, [where]) == {where: None}
        admin.delete_groups([group])
        assert admin.delete_topics([name]) == {name: None}
        with pytest.raises(UnknownTopicError):
            admin.describe_topic(name)


def test_an_admin_that_is_not_running_says_so_and_may_be_started_again(kohort: Kohort) -> None:
    admin = Admin(kohort.bootstrap)
    admin.close()
    for _ in range(2):
        with pytest.raises(ClientClosedError, match="not running"):
            admin.list_topics()
        with admin:
            admin.start()
            assert admin.describe_cluster().nodes


def test_an_admin_that_reaches_no_broker_says_so_at_once_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(NoBrokerError):
        Admin("127.0.0.1:1").start()
    assert threading.active_count() == before


def test_a_call_that_waits_fails_when_another_thread_closes_the_admin(kohort: Kohort) -> None:
    admin, waits = Admin(kohort.bootstrap), threading.Event()
    admin.start()

    async def wait(_: AsyncAdmin) -> None:
        waits.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor() as threads:
        call = threads.submit(admin.run, wait)
        assert waits.wait(60)
        admin.close()
        assert isinstance(call.exception(60), ClientClosedError)


def test_an_admin_on_a_cluster_takes_no_settings_that_would_have_no_effect() -> None:
    cluster = ClusterClient("localhost:1")
    assert AsyncAdmin(cluster).cluster is cluster
    with pytest.raises(SettingError, match="has the settings of the ClusterClient"):
        AsyncAdmin(cluster, security_protocol="SSL")
    with pytest.raises(SettingError, match="has the settings of the ClusterClient"):
        AsyncAdmin(cluster, ClientOptions(client_id="other"))
