"""Rules that stand between a request and its handler (security 5). Their table is in ``authorization.py``.

A rule stands before the handler. It takes out of a request what the peer may not ask for, lets the handler
answer the rest, and adds the refusals that the handler itself writes for that API (``refuse``). So a handler
does not know about rights, and a name that is denied is never looked up: whether it exists stays unknown.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.broker.context import Context, Result
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode, ProtocolError
from kohort.model.ids import NO_TOPIC_ID
from kohort.security.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    AclResourceType,
    Authorizer,
    Operation,
    Question,
    host_text,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState
    from kohort.broker.dispatch import Handler

logger = logging.getLogger("kohort.authorizer")  # the audit log

_AUDITED_A_MINUTE = 600  # refusals of one principal; the others are counted
_SHOWN = 249  # characters of a name: as long as a topic's may be

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
DENIED = {
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Call(NamedTuple):
    """One request before its handler."""

    broker: "BrokerState"
    authorizer: Authorizer
    handler: "Handler"
    request: Any
    context: Context

    def may(
        self, operation: Operation, kind: AclResourceType, name: str = CLUSTER_NAME, *, audited: bool = True
    ) -> bool:
        """A refusal goes to the audit log, unless the check only filters, fills bits, or is not the last."""
        question = self._question(operation, kind, name)
        allowed = self.authorizer.may(question)
        self.context.asked.append(question)
        self.context.is_denied |= not allowed
        if allowed:
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("%s", self._audit(question, "allowed"))
        elif audited and logger.isEnabledFor(logging.INFO):
            self._audit_refusal(question)
        return allowed

    def may_with_some(self, operation: Operation, kind: AclResourceType) -> bool:
        return self.authorizer.may_with_some(self._question(operation, kind, ""))

    def bits(self, kind: AclResourceType, name: str = CLUSTER_NAME) -> int:
        """The operations that the peer may do, as the bit fields of replies show them."""
        return sum(
            1 << operation for operation in OPERATIONS[kind] if self.may(operation, kind, name, audited=False)
        )

    def _question(self, operation: Operation, kind: AclResourceType, name: str) -> Question:
        host = host_text(self.context.client_host[1:])
        return Question(self.context.connection.principal, host, operation, kind, name)

    def _audit_refusal(self, question: Question) -> None:
        self.broker.notices.warn(
            logger,
            f"denied requests of {question.principal}",
            self._audit(question, "denied"),
            at_most=_AUDITED_A_MINUTE,
            level=logging.INFO,
        )

    def _audit(self, question: Question, verdict: str) -> str:
        who, host, operation, kind, name = question
        return (
            f"{verdict}: {who} from {host}, {operation.name} on {kind.name} {name[:_SHOWN]!r} "
            f"by {self.context}: {self.authorizer.reason(question)}"
        )

    def proceed(self, **fields: object) -> Result:
        """Let the handler answer the request with these fields changed."""
        return self.handler.handle(self.broker, self.having(**fields), self.context)

    def having(self, **fields: object) -> Message:
        request: Message = copy(self.request) if fields else self.request
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def refuse(self, code: ErrorCode, **fields: object) -> Message:
        """The refusal of the request with these fields changed."""
        if getattr(self.request, "acks", None) == 0:
            # No client waits for a reply: a closed connection is the only sign the client can see.
            raise ProtocolError(f"{self.context} is denied without a reply to say so: {code.name}")
        return self.handler.refuse(self.having(**fields), code)

    def topic_name(self, entry: Any) -> str | None:  # noqa: ANN401 - the entries of many messages
        """The name of a topic that is named, or known by its id; None for an id that is not known."""
        topic_id = getattr(entry, "topic_id", NO_TOPIC_ID)
        if topic_id != NO_TOPIC_ID:
            topic = self.broker.topics.by_id(topic_id)
            return None if topic is None else topic.name
        name: str | None = getattr(entry, "name", None) if hasattr(entry, "name") else entry.topic
        return name


Rule = Callable[[Call], Result]


def edited(result: Result, edit: Callable[[Any], None]) -> Result:
    """The result with a change of its reply, now or when it is there."""
    if result is None:
        return None
    if isinstance(result, Awaitable):
        return _edited_later(result, edit)
    edit(result)
    return result


async def _edited_later(result: Awaitable[Any], edit: Callable[[Any], None]) -> Any:  # noqa: ANN401
    response = await result
    if response is not None:
        edit(response)
    return response


# Rules that several APIs share


def free(call: Call) -> Result:
    """Everybody may ask."""
    return call.proceed()


def needs(operation: Operation, kind: AclResourceType, field: str = "") -> Rule:
    """All or nothing: the cluster, or the resource that one field names."""

    def rule(call: Call) -> Result:
        name = (getattr(call.request, field) or "") if field else CLUSTER_NAME
        return call.proceed() if call.may(operation, kind, name) else call.refuse(DENIED[kind])

    return rule


class Entries(NamedTuple):
    """The field of a request that lists things, and the field of the reply that answers them.

    Entries of the same ``key`` are refused as repeats, whatever rights there are; without one they may be
    repeated.
    """

    asked: str = "topics"
    answered: str = "topics"
    key: Callable[[Any], Hashable] | None = None


def each(
    operation: Operation,
    kind: AclResourceType,
    entries: Entries,
    *,
    name: Callable[[Call, Any], str | None] = lambda _call, entry: entry,
) -> Rule:
    """One by one: what is denied is refused at the end of the reply, the rest is answered."""

    def rule(call: Call) -> Result:
        def is_denied(entry: object) -> bool:
            found = name(call, entry)
            return found is not None and not call.may(operation, kind, found)

        return without(call, entries, is_denied, DENIED[kind])

    return rule


def without(call: Call, of: Entries, is_denied: Callable[[Any], bool], code: ErrorCode) -> Result:
    """Answer the entries that are not denied; refuse the others with ``code``, and their repeats as such.

    No handler sees repeats that are denied: its words for them may tell what exists.
    """
    entries = getattr(call.request, of.asked) or []
    denied = [entry for entry in entries if is_denied(entry)]
    if not denied:
        return call.proceed()
    refused = {id(entry) for entry in denied}  # entries cannot be hashed, and may be equal
    granted = [entry for entry in entries if id(entry) not in refused]
    repeats: list[Any] = []
    if of.key is not None:
        times = Counter(map(of.key, entries))
        repeats = list({of.key(entry): entry for entry in denied if times[of.key(entry)] > 1}.values())
        denied = [entry for entry in denied if times[of.key(entry)] == 1]
    refusal = call.refuse(code, **{of.asked: denied})
    answers = getattr(refusal, of.answered)
    if repeats:
        answers += getattr(call.refuse(ErrorCode.INVALID_REQUEST, **{of.asked: repeats}), of.answered)
    if not granted:
        return refusal
    return edited(
        call.proceed(**{of.asked: granted}), lambda response: getattr(response, of.answered).extend(answers)
    )


def topics(operation: Operation, entries: Entries = Entries()) -> Rule:  # noqa: B008 - it cannot change
    return each(operation, TOPIC, entries, name=Call.topic_name)


def both(first: Callable[[Call], Message | None], then: Rule) -> Rule:
    """A condition for the whole request, then a rule for its parts."""

    def rule(call: Call) -> Result:
        refusal = first(call)
        return then(call) if refusal is None else refusal

    return rule


def group(operation: Operation) -> Callable[[Call], Message | None]:
    def check(call: Call) -> Message | None:
        return None if call.may(operation, GROUP, call.request.group_id or "") else call.refuse(DENIED[GROUP])

    return check
