"""Topics and brokers a consumer waits for."""

import asyncio
import logging
from typing import Any, cast

import pytest
from tests.unit.client.consumer.stage import TURNS, Stage, on_stage, read

from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import NewTopic
from kohort.client.consumer import AsyncConsumer
from kohort.client.consumer.background import MetadataWatch, Tasks, Topics
from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.errors import TopicAuthorizationError
from kohort.client.metadata import Metadata
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicName
from kohort.testing.intercept import cut_off


async def _until_said(consumer: AsyncConsumer, log: pytest.LogCaptureFixture, words: str) -> None:
    for _ in range(TURNS):
        await consumer.poll(20)
        if words in log.text:
            return
    raise AssertionError(log.text)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["subscribed", "assigned"])
@on_stage
async def test_a_topic_that_is_created_later_is_read_soon_and_asked_for_aloud_until_then(
    stage: Stage, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    later = ["later"] if how == "subscribed" else []
    async with stage.reader(
        *later, group_id="g", allow_auto_create_topics=False, retry_backoff_max_ms=20
    ) as consumer:
        if not later:
            consumer.assign([("later", 0)])
        await _until_said(consumer, caplog, "there is no topic 'later'")
        async with AsyncAdmin(stage.broker.bootstrap) as admin:
            await admin.create_topic(NewTopic("later", partitions=1))
        await stage.write_to("later", b"at last")
        assert [record.value for record in await read(consumer, 1)] == [b"at last"]
    assert caplog.text.count("there is no topic") == 1


@on_stage
async def test_brokers_that_are_out_of_reach_are_complained_about_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with stage.reader(client_id="watched", metadata_max_age_ms=1) as consumer:
        await read(consumer, 3)
        rule = stage.broker.intercept(cut_off, api="Metadata", client="watched", times=3)
        await stage.write(b"d")
        assert [record.value for record in await read(consumer, 1)] == [b"d"]
        for _ in range(TURNS):
            await consumer.poll(20)
            if len(rule.seen) == 3:
                break
    assert caplog.text.count("trying again until a broker answers") == 1


class Denying:
    """A cluster that denies every topic."""

    metadata = Metadata()

    async def refresh(self, asked: frozenset[TopicName], *, create: bool) -> Metadata:
        return Metadata(problems=dict.fromkeys(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED))


@pytest.mark.parametrize("later", [frozenset({TopicName("other")}), frozenset(), None])
def test_a_denied_topic_is_not_spoken_of_once_it_is_not_wanted_any_more(later: Topics) -> None:
    async def work() -> None:
        wanted: list[Topics] = [frozenset({TopicName("denied")})]
        tasks = Tasks()
        watch = MetadataWatch(
            cast(Any, Denying()),
            ConsumerSettings(),
            tasks,
            wanted=lambda: wanted[-1],
            updated=lambda _: None,
        )
        for is_given_up in (False, True):
            watch.request()
            await tasks.bell.wait()  # the answer is there
            if is_given_up:
                wanted.append(later)
                watch.raise_error()
                wanted.pop()
                watch.raise_error()  # it is gone for good
            else:
                with pytest.raises(TopicAuthorizationError, match="'denied'"):
                    watch.raise_error()
            tasks.bell.clear()
        await tasks.stop()

    asyncio.run(work())
