"""What ``Admin`` says to those who call it otherwise than it is meant."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kohort.client.admin import Admin
from kohort.client.results import CommittedOffset, NewTopic
from kohort.model.ids import Offset
from kohort.model.topics import TopicPartition
from kohort.testing import Broker


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
        asyncio.run(call(Admin("127.0.0.1:1")))


def test_an_admin_shows_where_it_goes() -> None:
    assert repr(Admin(bootstrap_servers=["a:1", "b:2"])) == "<Admin of a:1,b:2>"


def test_pairs_are_partitions_and_numbers_are_offsets() -> None:
    async def administer(bootstrap: str) -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topic(NewTopic("orders", partitions=2))
            assert await admin.alter_group_offsets("billing", {("orders", 1): 5}) == {("orders", 1): None}
            committed = await admin.list_group_offsets("billing", [("orders", 1)])
            assert committed == {("orders", 1): CommittedOffset(Offset(5))}
            (listed,) = await admin.list_offsets({("orders", 1): -1})
            assert type(listed) is TopicPartition

    with Broker() as broker:
        asyncio.run(administer(broker.bootstrap))
