"""``kohort topics``: list, describe, create, alter, delete."""

import asyncio
from collections.abc import Mapping
from typing import Annotated

import typer

from kohort.cli import topic_views
from kohort.cli.running import FAILED, OK
from kohort.cli.screen import note, say, show_json
from kohort.cli.session import (
    AsJson,
    ClusterOptions,
    Yes,
    confirm,
    nothing_listed,
    on_cluster,
    refuse,
    show_deleted,
    talk,
)
from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import BROKER_DEFAULT, CreatedTopic, NewTopic, Resource, ResourceType
from kohort.client.errors import BrokerError
from kohort.client.metadata import TopicInfo
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicName
from kohort.model.topics import show_topic_id
from kohort.story.names import counted

_LOOKS, _LOOK_AGAIN_SECONDS = 50, 0.1

app = typer.Typer(no_args_is_help=True, help="List, describe, create, alter and delete topics.")

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]
Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Names of topics.")]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="Set a config; may be repeated."),
]


@app.command("list")
@on_cluster
def list_(
    where: ClusterOptions,
    internal: Annotated[bool, typer.Option("--internal", help="Show internal topics too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List topics with their partitions, records and size."""

    async def command(admin: AsyncAdmin) -> int:
        topics = await topic_views.survey(
            admin, [t for t in await admin.list_topics() if internal or not t.is_internal]
        )
        if as_json:
            show_json([topic_views.summary_json(topic) for topic in topics])
        else:
            hint = "; create one with `kohort topics create NAME`"
            topic_views.show_list(topics, empty=nothing_listed(admin, "topics", hint))
        return OK

    talk(where, command)


@app.command()
@on_cluster
def describe(
    where: ClusterOptions,
    names: Names,
    all_configs: Annotated[
        bool, typer.Option("--all-configs", help="Show configs that have their default, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show leaders, replicas, offsets, sizes and configs of topics."""

    async def command(admin: AsyncAdmin) -> int:
        described = await admin.describe_topics(names)
        missing = [found for found in described.values() if isinstance(found, BrokerError)]
        there = [found for found in described.values() if not isinstance(found, BrokerError)]
        topics = await topic_views.survey(admin, there, configs=True)
        if as_json:
            show_json([topic_views.description_json(topic, all_configs) for topic in topics])
        else:
            for topic in topics:
                topic_views.show_description(topic, all_configs)
        for error in missing:
            note(f"kohort: error: {error}")
        return FAILED if missing else OK

    talk(where, command)


@app.command()
@on_cluster
def create(
    where: ClusterOptions,
    name: Name,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="How many partitions.", show_default="num.partitions")
    ] = BROKER_DEFAULT,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor", "-r", help="How many replicas.", show_default="default.replication.factor"
        ),
    ] = BROKER_DEFAULT,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic is there already.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create a topic."""
    topic = NewTopic(
        name=name,
        partitions=partitions,
        replication_factor=replication_factor,
        configs=_pairs(config or []),
    )

    async def command(admin: AsyncAdmin) -> int:
        result = (await admin.create_topics([topic]))[TopicName(name)]
        if isinstance(result, BrokerError):
            if not (if_not_exists and result.code == ErrorCode.TOPIC_ALREADY_EXISTS):
                raise result
            there = await admin.describe_topic(name)
            result = CreatedTopic(
                name=there.name,
                topic_id=there.topic_id,
                partitions=len(there.partitions),
                replication_factor=there.replication_factor,
            )
            _show_created(result, as_json, created=False)
        else:
            _show_created(result, as_json, created=True)
        return OK

    talk(where, command)


def _show_created(topic: CreatedTopic, as_json: bool, *, created: bool) -> None:
    if as_json:
        show_json(
            {
                "topic": topic.name,
                "topic_id": show_topic_id(topic.topic_id),
                "partitions": topic.partitions,
                "replication_factor": topic.replication_factor,
                "created": created,
            }
        )
        return
    size = f"{counted(topic.partitions, 'partition')}, replication factor {topic.replication_factor}"
    say(f"created topic {topic.name}: {size}" if created else f"topic {topic.name} is there already: {size}")


@app.command()
@on_cluster
def alter(
    where: ClusterOptions,
    name: Name,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="The new number of partitions.")
    ] = None,
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            "--delete-config", "-d", metavar="NAME", help="Go back to the default; may be repeated."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add partitions to a topic, set configs, or put them back to their defaults."""
    changes: dict[str, str | None] = {**_pairs(config or []), **dict.fromkeys(delete_config or [])}
    if partitions is None and not changes:
        raise refuse("nothing to alter", "give --partitions, --config or --delete-config")

    async def command(admin: AsyncAdmin) -> int:
        if changes:
            await _alter_configs(admin, name, changes)
        if partitions is not None:
            error = (await admin.create_partitions({name: partitions}))[TopicName(name)]
            if error is not None:
                raise error
        described = await describe_grown(admin, name, partitions or 0)
        (topic,) = await topic_views.survey(admin, [described], configs=True)
        if as_json:
            show_json(topic_views.description_json(topic, all_configs=False))
        else:
            say(f"altered topic {name}: {topic_views.one_line(topic)}")
        return OK

    talk(where, command)


async def describe_grown(admin: AsyncAdmin, name: str, partitions: int) -> TopicInfo:
    """Describe a topic that has just grown: brokers hear of it a moment after their controller."""
    for _ in range(_LOOKS):
        topic = await admin.describe_topic(name)
        if len(topic.partitions) >= partitions:
            break
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    return topic


async def _alter_configs(admin: AsyncAdmin, name: str, changes: Mapping[str, str | None]) -> None:
    resource = Resource(ResourceType.TOPIC, name)
    error = (await admin.alter_configs({resource: changes}))[resource]
    if error is not None:
        raise error


@app.command()
@on_cluster
def delete(
    where: ClusterOptions,
    names: Names,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete topics with everything in them. Asks first when typed at a terminal."""
    confirm(f"Delete {', '.join(names)} with all records?", given=yes or as_json)

    async def command(admin: AsyncAdmin) -> int:
        results = await admin.delete_topics(names)
        failed = [error for error in results.values() if error is not None]
        show_deleted("topic", results, as_json)
        for error in failed:
            note(f"kohort: error: {error}")
        return FAILED if failed else OK

    talk(where, command)


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise refuse(f"--config {text!r} is not NAME=VALUE", "for example --config retention.ms=3600000")
        pairs[name.strip()] = value.strip()
    return pairs
