"""See, answer, delay, corrupt or cut off any request that reaches an embedded broker.

    broker.intercept(delay(0.5), api="Fetch", client="slow-consumer")
    broker.intercept(cut_off, api="Produce", topic="orders", times=1)
    seen = broker.intercept(watch, api="JoinGroup")

A rule applies to the requests that match all its filters, the newest rule first. What it does is
an action: a function of the request and of ``proceed``, which lets the broker handle it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from kohort.broker.context import Context, RawReply, Response, Result
from kohort.codec.compiled import encode
from kohort.codec.schema import Message, Struct
from kohort.model.errors import ProtocolError
from kohort.wire.apis import ApiKey, api_spec

Proceed = Callable[[], Result]


@dataclass(frozen=True, slots=True)
class Seen:
    """One request a rule matched."""

    api: str
    version: int
    client_id: str
    request: Message


Action = Callable[[Seen, Proceed], Result]


@dataclass(slots=True)
class Rule:
    """A standing order about requests; ``seen`` lists those it matched so far."""

    action: Action
    api: ApiKey | None = None
    client: str | None = None
    topic: str | None = None
    group: str | None = None
    times: int | None = None  # how often it applies; None: until it is removed
    seen: list[Seen] = field(default_factory=list)

    def matches(self, context: Context, request: Message) -> bool:
        return (
            (self.times is None or len(self.seen) < self.times)
            and (self.api is None or context.api_key == self.api)
            and (self.client is None or context.client_id == self.client)
            and (self.topic is None or self.topic in names_in(request, _TOPIC_FIELDS))
            and (self.group is None or self.group in names_in(request, _GROUP_FIELDS))
        )


_TOPIC_FIELDS = frozenset({"name", "topic", "topic_names"})
_GROUP_FIELDS = frozenset({"group_id", "groups", "groups_names", "key", "coordinator_keys"})


def names_in(request: Struct, fields: frozenset[str]) -> set[str]:
    """Every text under one of ``fields``, however deep in a request.

    Requests that name topics by id (Produce 13, Fetch 13 and later) do not match a topic's name.
    """
    found: set[str] = set()
    for declared in request.fields:
        value = getattr(request, declared.name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Struct):
                found |= names_in(item, fields)
            elif isinstance(item, str) and declared.name in fields:
                found.add(item)
    return found


def api_named(name: str | int) -> ApiKey:
    """An API by its Kafka name (``"JoinGroup"``), our name (``"join_group"``) or its key."""
    if isinstance(name, int):
        return ApiKey(name)
    wanted = name.replace("_", "").lower()
    for key in ApiKey:
        if key.name.replace("_", "").lower() == wanted:
            return key
    raise ValueError(f"no API is called {name!r}; names are Kafka's, such as 'JoinGroup'")


class Where(TypedDict, total=False):
    """The filters of a rule; a request must pass all that are given."""

    api: str | int  # Kafka's name or the key
    client: str  # the client id
    topic: str
    group: str
    times: int  # how many requests it applies to


def rule(action: Action, **where: Unpack[Where]) -> Rule:
    """A rule from the names a test uses."""
    return Rule(
        action,
        api=api_named(where["api"]) if "api" in where else None,
        client=where.get("client"),
        topic=where.get("topic"),
        group=where.get("group"),
        times=where.get("times"),
    )


class Interceptions:
    """The rules of one broker; given to its dispatch as the interceptor."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def add(self, rule: Rule) -> Rule:
        self._rules.insert(0, rule)
        return rule

    def clear(self) -> None:
        self._rules.clear()

    def __bool__(self) -> bool:
        """Whether there are rules."""
        return bool(self._rules)

    def __call__(self, context: Context, request: Message, proceed: Proceed) -> Result:
        for rule in self._rules:
            if rule.matches(context, request):
                seen = Seen(api_spec(context.api_key).name, context.version, context.client_id, request)
                rule.seen.append(seen)
                return rule.action(seen, proceed)
        return proceed()


# Actions


def watch(_seen: Seen, proceed: Proceed) -> Result:
    """Change nothing; the rule's ``seen`` tells what came."""
    return proceed()


def cut_off(seen: Seen, _proceed: Proceed) -> Result:
    """Close the connection instead of answering."""
    raise ProtocolError(f"{seen.api} of client {seen.client_id!r} was cut off by the test")


def cut_off_after(seen: Seen, proceed: Proceed) -> Result:
    """Let the broker do what was asked, then close the connection: the client cannot know it happened."""
    result = proceed()
    if not isinstance(result, Awaitable):
        return cut_off(seen, proceed)

    async def wait_and_cut(result: Awaitable[Response]) -> Response:
        await result
        raise ProtocolError(f"{seen.api} of client {seen.client_id!r} was cut off by the test, once done")

    return wait_and_cut(result)


def swallow(_seen: Seen, _proceed: Proceed) -> Result:
    """Never answer; the connection stays open until the client gives up."""
    return asyncio.get_running_loop().create_future()


def answer(reply: Message | Callable[[Message], Message]) -> Action:
    """Reply with this message, or with what the function makes of the request."""

    def act(seen: Seen, _proceed: Proceed) -> Result:
        return reply if isinstance(reply, Message) else reply(seen.request)

    return act


def delay(seconds: float) -> Action:
    """Answer, but later."""

    def act(_seen: Seen, proceed: Proceed) -> Result:
        async def wait() -> Response:
            await asyncio.sleep(seconds)
            result = proceed()
            return await result if isinstance(result, Awaitable) else result

        return wait()

    return act


def corrupt(change: Callable[[bytes], bytes]) -> Action:
    """Answer with broken bytes: the body of the real reply after ``change`` had its way with it."""

    def act(seen: Seen, proceed: Proceed) -> Result:
        def spoil(response: Response) -> Response:
            if not isinstance(response, Message):
                return response
            return RawReply(change(encode(response, seen.version)))

        result = proceed()
        if not isinstance(result, Awaitable):
            return spoil(result)

        async def wait_and_spoil(result: Awaitable[Response]) -> Response:
            return spoil(await result)

        return wait_and_spoil(result)

    return act
