"""What each API needs (security 5): the rules that the rows of ``SERVED`` name, in one table.

An API without a rule cannot be served: a row has one, and a broker with an authorizer looks all of them up
when it starts. A broker without an authorizer does not load this module.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kohort.broker.access import (
    CLUSTER,
    DENIED,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    Call,
    Entries,
    Rule,
    both,
    each,
    edited,
    free,
    group,
    needs,
    topics,
    without,
)
from kohort.broker.context import Context, Result
from kohort.broker.handlers import Served
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID
from kohort.model.topics import is_legal_name
from kohort.security.acls import CLUSTER_NAME, AclResourceType, Authorizer, Operation
from kohort.wire.messages.describe_topic_partitions import DescribeTopicPartitionsResponse, TopicRequest
from kohort.wire.messages.metadata import MetadataResponseTopic
from kohort.wire.messages.offset_fetch import OffsetFetchResponsePartition, OffsetFetchResponseTopic

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState
    from kohort.broker.dispatch import Handler

_NOT_ASKED = -(2**31)
_FIRST_JOIN_WITHOUT_PROTOCOL = 7


def _transactional(call: Call) -> Message | None:
    transactional_id = call.request.transactional_id
    if transactional_id is None or call.may(Operation.WRITE, TRANSACTIONAL_ID, transactional_id):
        return None
    return call.refuse(DENIED[TRANSACTIONAL_ID])


def _fetch(call: Call) -> Result:
    """The handler asks for each partition of the session, also of those that are not in the request."""
    if _replica_id(call.request) >= 0 and not call.may(Operation.CLUSTER_ACTION, CLUSTER):
        return call.refuse(DENIED[TOPIC])
    call.context.may_read = lambda name: call.may(Operation.READ, TOPIC, name)
    return call.proceed()


def _replica_id(request: Any) -> int:  # noqa: ANN401 - FetchRequest, which is loaded when it is needed
    state = getattr(request, "replica_state", None)
    found: int = max(request.replica_id, -1 if state is None else state.replica_id)
    return found


def _is_visible(call: Call, kind: AclResourceType, name: str) -> bool:
    """Whether it is listed; what is not listed is not refused either, and no matter for the audit log."""
    return call.may(Operation.DESCRIBE, kind, name, audited=False)


def _metadata(call: Call) -> Result:
    request, version = call.request, call.context.version
    if request.topics is None or (version == 0 and not request.topics):
        return edited(call.proceed(), lambda response: _finish_metadata(call, response, filtered=True))
    granted, denied = [], []
    for entry in request.topics:
        name = call.topic_name(entry)
        if name is None or (call.may(Operation.DESCRIBE, TOPIC, name) and _may_be_made(call, name)):
            granted.append(entry)
        else:
            by_id = entry.topic_id != NO_TOPIC_ID
            denied.append(
                MetadataResponseTopic(
                    error_code=DENIED[TOPIC], name=None if by_id else name, topic_id=entry.topic_id
                )
            )

    def finish(response: Any) -> None:  # noqa: ANN401 - MetadataResponse
        if not granted:
            response.topics = []  # in version 0 an empty list asks for all topics
        _finish_metadata(call, response, filtered=False)
        response.topics.extend(denied)

    return edited(call.proceed(topics=granted), finish)


def _may_be_made(call: Call, name: str) -> bool:
    """A topic that is missing would be made, which has a right of its own."""
    if not call.request.allow_auto_topic_creation or call.broker.topics.get(name) is not None:
        return True
    if not call.broker.configs.flag("auto.create.topics.enable"):
        return True
    everywhere = call.may(Operation.CREATE, CLUSTER, audited=False)
    return everywhere or call.may(Operation.CREATE, TOPIC, name)


def _finish_metadata(call: Call, response: Any, *, filtered: bool) -> None:  # noqa: ANN401
    if filtered:
        response.topics = [one for one in response.topics if _is_visible(call, TOPIC, one.name)]
    if call.request.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.name is not None:
                topic.topic_authorized_operations = call.bits(TOPIC, topic.name)
    _set_cluster_bits(call, response)


def _set_cluster_bits(call: Call, response: Any) -> None:  # noqa: ANN401
    if response.cluster_authorized_operations != _NOT_ASKED:
        allowed = call.may(Operation.DESCRIBE, CLUSTER, audited=False)
        response.cluster_authorized_operations = call.bits(CLUSTER) if allowed else 0


def _describe_cluster(call: Call) -> Result:
    return edited(call.proceed(), lambda response: _set_cluster_bits(call, response))


def _offset_fetch(call: Call) -> Result:
    """Groups first; then the topics of those that are left, by name or all."""
    request = call.request
    if not request.groups:
        if not call.may(Operation.DESCRIBE, GROUP, request.group_id):
            return _refuse_group(call)
        return edited(call.proceed(), lambda response: _show_committed(call, [request], [response]))
    page = call._replace(request=call.having(groups=_without_repeats(request.groups)))
    granted = [one for one in page.request.groups if call.may(Operation.DESCRIBE, GROUP, one.group_id)]
    kept = {id(one) for one in granted}
    answer = without(page, Entries("groups", "groups"), lambda one: id(one) not in kept, DENIED[GROUP])
    return edited(answer, lambda response: _show_committed(call, granted, response.groups))


def _without_repeats(groups: Iterable[Any]) -> list[Any]:
    """The handler answers each entry, but all that a group has only once; so do these."""
    kept, everything = [], set()
    for one in groups:
        if one.topics is None and one.group_id in everything:
            continue
        if one.topics is None:
            everything.add(one.group_id)
        kept.append(one)
    return kept


def _show_committed(call: Call, asked: list[Any], answers: list[Any]) -> None:
    """Answers come in the order of what was asked; refused groups, which have no topics, at the end."""
    for entry, answer in zip(asked, answers, strict=False):
        answer.topics = _committed(call, answer.topics, everything=entry.topics is None)


def _refuse_group(call: Call) -> Message:
    refusal: Any = call.refuse(DENIED[GROUP])
    if call.context.version < 2:  # only partitions have an error code
        refusal.topics = [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=DENIED[GROUP]
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in call.request.topics or []
        ]
    return refusal  # type: ignore[no-any-return]  # it is of the API's own class


def _committed(call: Call, answered: Iterable[Any], *, everything: bool) -> list[Any]:
    shown = []
    for topic in answered:
        name = topic.name or call.topic_name(topic)  # by its id a topic may be gone by now
        if name is None or call.may(Operation.DESCRIBE, TOPIC, name, audited=not everything):
            shown.append(topic)
        elif not everything:
            for part in topic.partitions:
                part.committed_offset = part.committed_leader_epoch = -1
                part.metadata, part.error_code = "", DENIED[TOPIC]
            shown.append(topic)
    return shown


def _find_coordinator(call: Call) -> Result:
    kind = TRANSACTIONAL_ID if call.request.key_type == 1 else GROUP

    def is_denied(key: str) -> bool:
        return not call.may(Operation.DESCRIBE, kind, key)

    if call.context.version < 4:
        return call.refuse(DENIED[kind]) if is_denied(call.request.key) else call.proceed()
    place = {key: number for number, key in enumerate(call.request.coordinator_keys)}
    return edited(
        without(call, Entries("coordinator_keys", "coordinators"), is_denied, DENIED[kind]),
        lambda response: response.coordinators.sort(key=lambda one: place.get(one.key, 0)),
    )


def _join_group(call: Call) -> Result:
    if call.may(Operation.READ, GROUP, call.request.group_id):
        return call.proceed()
    refusal: Any = call.refuse(DENIED[GROUP])
    refusal.member_id = ""
    if call.context.version >= _FIRST_JOIN_WITHOUT_PROTOCOL:
        refusal.protocol_name = None
    return refusal  # type: ignore[no-any-return]  # it is of the API's own class


def _describe_groups(asked: str) -> Rule:
    def rule(call: Call) -> Result:
        def finish(response: Any) -> None:  # noqa: ANN401 - the answers of two APIs
            for one in response.groups:
                if call.request.include_authorized_operations and not one.error_code:
                    one.authorized_operations = call.bits(GROUP, one.group_id)
            response.groups.sort(key=lambda one: one.error_code != DENIED[GROUP])

        return edited(each(Operation.DESCRIBE, GROUP, Entries(asked, "groups"))(call), finish)

    return rule


def _describe_consumer_groups(call: Call) -> Result:
    """A group whose members have a topic that the peer may not describe is not shown."""

    def hide(response: Any) -> None:  # noqa: ANN401 - ConsumerGroupDescribeResponse
        for one in response.groups:
            names = {name for member in one.members for name in _topics_of(member)}
            if not all(call.may(Operation.DESCRIBE, TOPIC, name) for name in names):
                one.error_code, one.members = DENIED[TOPIC], []
                one.error_message = (
                    "The group has described topic(s) that the client is not authorized to describe."
                )

    return edited(_describe_groups("group_ids")(call), hide)


def _topics_of(member: Any) -> set[str]:  # noqa: ANN401 - a member in ConsumerGroupDescribeResponse
    assigned = (*member.assignment.topic_partitions, *member.target_assignment.topic_partitions)
    return {*member.subscribed_topic_names, *(one.topic_name for one in assigned)}


def _list_groups(call: Call) -> Result:
    if _is_visible(call, CLUSTER, CLUSTER_NAME):
        return call.proceed()

    def keep(response: Any) -> None:  # noqa: ANN401 - ListGroupsResponse
        response.groups = [one for one in response.groups if _is_visible(call, GROUP, one.group_id)]

    return edited(call.proceed(), keep)


def _list_transactions(call: Call) -> Result:
    def keep(response: Any) -> None:  # noqa: ANN401 - ListTransactionsResponse
        response.transaction_states = [
            one
            for one in response.transaction_states
            if _is_visible(call, TRANSACTIONAL_ID, one.transactional_id)
        ]

    return edited(call.proceed(), keep)


def _create_topics(call: Call) -> Result:
    everywhere = call.may(Operation.CREATE, CLUSTER, audited=False)

    def is_denied(entry: Any) -> bool:  # noqa: ANN401 - CreatableTopic
        return not everywhere and not call.may(Operation.CREATE, TOPIC, entry.name)

    def finish(response: Any) -> None:  # noqa: ANN401 - CreateTopicsResponse
        for one in response.topics:
            if one.error_code == DENIED[TOPIC]:
                one.error_message = "Authorization failed."
            elif not one.error_code and not call.may(
                Operation.DESCRIBE_CONFIGS, TOPIC, one.name, audited=False
            ):
                one.topic_config_error_code = DENIED[TOPIC]
                one.num_partitions = one.replication_factor = -1
                one.configs = []

    return edited(without(call, Entries(key=_name), is_denied, DENIED[TOPIC]), finish)


def _name(entry: Any) -> str:  # noqa: ANN401 - the entries of two APIs
    found: str = entry.name
    return found


def _delete_topics(call: Call) -> Result:
    if call.may(Operation.DELETE, CLUSTER, audited=False):
        return call.proceed()
    asked = "topics" if call.context.version >= 6 else "topic_names"

    def is_denied(entry: Any) -> bool:  # noqa: ANN401 - a name, or a name or id; both are INVALID_REQUEST
        name = entry if isinstance(entry, str) else call.topic_name(entry)
        if name is None or (asked == "topics" and entry.name is not None and entry.topic_id != NO_TOPIC_ID):
            return False
        if not call.may(Operation.DESCRIBE, TOPIC, name):
            return True
        exists = call.broker.topics.get(name) is not None
        return exists and not call.may(Operation.DELETE, TOPIC, name)

    def key(entry: Any) -> object:  # noqa: ANN401 - as above
        return entry if isinstance(entry, str) else entry.name or entry.topic_id

    return without(call, Entries(asked, "responses", key), is_denied, DENIED[TOPIC])


def _delete_groups(call: Call) -> Result:
    """A group that is named twice is refused once."""
    once = call._replace(request=call.having(groups_names=list(dict.fromkeys(call.request.groups_names))))
    return each(Operation.DELETE, GROUP, Entries("groups_names", "results"))(once)


def _init_producer_id(call: Call) -> Result:
    if call.request.transactional_id is not None:
        return _transactional(call) or call.proceed()
    if call.may(Operation.IDEMPOTENT_WRITE, CLUSTER, audited=False) or call.may_with_some(
        Operation.WRITE, TOPIC
    ):
        return call.proceed()
    call.may(Operation.IDEMPOTENT_WRITE, CLUSTER)  # for the audit log
    return call.refuse(DENIED[CLUSTER])


def _leader_epochs(call: Call) -> Result:
    if call.may(Operation.CLUSTER_ACTION, CLUSTER, audited=False):
        return call.proceed()
    return topics(Operation.DESCRIBE)(call)


def _configs(operation: Operation, answered: str, *, once: bool) -> Rule:
    """Each resource has the right of its kind: topics, groups, and the cluster for all others.

    ``once``: a resource may be named once, whatever rights there are.
    """

    def rule(call: Call) -> Result:
        request = call.request
        granted, refused = [], []
        times = Counter((one.resource_type, one.resource_name) for one in request.resources)
        for entry in request.resources:
            kind = {2: TOPIC, 32: GROUP}.get(entry.resource_type, CLUSTER)
            name = CLUSTER_NAME if kind is CLUSTER else entry.resource_name
            if call.may(operation, kind, name):
                granted.append(entry)
                continue
            is_repeat = once and times[entry.resource_type, entry.resource_name] > 1
            code = ErrorCode.INVALID_REQUEST if is_repeat else DENIED[kind]
            refused += getattr(call.refuse(code, resources=[entry]), answered)
        if not refused:
            return call.proceed()
        return edited(
            call.proceed(resources=granted), lambda response: getattr(response, answered).extend(refused)
        )

    return rule


def _consumer_heartbeat(call: Call) -> Result:
    if not call.may(Operation.READ, GROUP, call.request.group_id):
        return call.refuse(DENIED[GROUP])
    names = call.request.subscribed_topic_names or []
    if not all(call.may(Operation.DESCRIBE, TOPIC, name) for name in names):
        return call.refuse(DENIED[TOPIC])
    return call.proceed()


def _describe_visible_topics(call: Call) -> Result:
    """All topics that the peer may describe. The cursor of the reply, too, names none of the others."""
    cursor = call.request.cursor
    names = [topic.name for topic in call.broker.topics if cursor is None or topic.name >= cursor.topic_name]
    visible = [TopicRequest(name=name) for name in names if _is_visible(call, TOPIC, name)]
    if not visible:
        return DescribeTopicPartitionsResponse()
    is_there = cursor is not None and visible[0].name == cursor.topic_name
    return call.proceed(topics=visible, cursor=cursor if is_there else None)


def _describe_topic_partitions(call: Call) -> Result:
    def finish(response: Any) -> None:  # noqa: ANN401 - DescribeTopicPartitionsResponse
        for one in response.topics:
            if one.error_code != DENIED[TOPIC]:
                one.topic_authorized_operations = call.bits(TOPIC, one.name)

    if not call.request.topics:
        return edited(_describe_visible_topics(call), finish)
    cursor = call.request.cursor
    start = "" if cursor is None else cursor.topic_name
    names = [one for one in call.request.topics if one.name >= start]
    if cursor is not None and all(one.name != start for one in names):
        return call.proceed()  # which refuses it, whatever the topics are
    denied = {one.name for one in names if not call.may(Operation.DESCRIBE, TOPIC, one.name)}
    page = call._replace(request=call.having(topics=names, cursor=None if start in denied else cursor))
    return edited(without(page, Entries(), lambda one: one.name in denied, DENIED[TOPIC]), finish)


def _legal_name(_call: Call, entry: Any) -> str | None:  # noqa: ANN401 - TopicRequest
    """A name that no topic can have is refused as such, whatever rights there are."""
    return entry.name if is_legal_name(entry.name) else None


RULES: dict[str, Rule] = {
    "produce": both(_transactional, topics(Operation.WRITE, Entries("topic_data", "responses"))),
    "fetch": _fetch,
    "list offsets": topics(Operation.DESCRIBE),
    "metadata": _metadata,
    "offset commit": both(group(Operation.READ), topics(Operation.READ)),
    "offset fetch": _offset_fetch,
    "find coordinator": _find_coordinator,
    "join group": _join_group,
    "READ the group": needs(Operation.READ, GROUP, "group_id"),
    "describe groups": _describe_groups("groups"),
    "list groups": _list_groups,
    "free": free,
    "create topics": _create_topics,
    "delete topics": _delete_topics,
    "delete records": topics(Operation.DELETE),
    "init producer id": _init_producer_id,
    "offset for leader epoch": _leader_epochs,
    "DESCRIBE the cluster": needs(Operation.DESCRIBE, CLUSTER),
    "ALTER the cluster": needs(Operation.ALTER, CLUSTER),
    "describe configs": _configs(Operation.DESCRIBE_CONFIGS, "results", once=False),
    "alter configs": _configs(Operation.ALTER_CONFIGS, "responses", once=True),
    "create partitions": topics(Operation.ALTER, Entries(answered="results", key=_name)),
    "delete groups": _delete_groups,
    "offset delete": both(group(Operation.DELETE), topics(Operation.READ)),
    "DESCRIBE_CONFIGS of the cluster": needs(Operation.DESCRIBE_CONFIGS, CLUSTER),
    "describe cluster": _describe_cluster,
    "describe producers": each(Operation.READ, TOPIC, Entries(), name=_legal_name),
    "describe transactions": each(
        Operation.DESCRIBE, TRANSACTIONAL_ID, Entries("transactional_ids", "transaction_states")
    ),
    "list transactions": _list_transactions,
    "consumer group heartbeat": _consumer_heartbeat,
    "consumer group describe": _describe_consumer_groups,
    "describe topic partitions": _describe_topic_partitions,
    "share group describe": each(Operation.DESCRIBE, GROUP, Entries("group_ids", "groups")),
}


def check_rules(served: Iterable[Served]) -> None:
    """Raise RuntimeError for an API whose rule is not in the table."""
    if missing := [api.key.name for api in served if api.rule not in RULES]:
        raise RuntimeError(f"APIs without a rule in broker/authorization.py: {', '.join(missing)}")


def guarded(handler: "Handler", authorizer: Authorizer) -> "Handler":
    """The handler behind its rule."""
    rule = RULES[handler.served.rule]

    def handle(broker: "BrokerState", request: Message, context: Context) -> Result:
        return rule(Call(broker, authorizer, handler, request, context))

    return handler._replace(handle=handle)
