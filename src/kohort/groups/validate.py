"""What can be said about a request without looking at any group."""

from kohort.groups.commands import ConsumerHeartbeat, Join, Sync
from kohort.groups.consumer.assignment import JOINING, LEAVING, LEFT_FOR_A_WHILE
from kohort.groups.encoding import is_storable
from kohort.groups.replies import ConsumerHeartbeatReply
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode

UNCHANGED = -1  # of a rebalance timeout


def check_group_id(group_id: str) -> ErrorCode:
    """24 for an id no group can have. (Offset requests, which old clients send for ``""``, do not ask.)"""
    return ErrorCode.NONE if group_id and is_storable(group_id) else ErrorCode.INVALID_GROUP_ID


def check_sync(command: Sync) -> ErrorCode:
    """23 for a request of version 5 that does not name its protocol: before anything else is looked at."""
    if command.version >= 5 and None in (command.protocol_type, command.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def check_join(command: Join, settings: GroupSettings) -> ErrorCode:
    """24, 26 for a session timeout out of bounds, 42 for names that no record can hold."""
    error = check_group_id(command.group_id)
    if error:
        return error
    if not settings.min_session_timeout_ms <= command.session_timeout_ms <= settings.max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    given_id = f"{command.instance_id or command.client_id}-{command.fresh_id}"
    names = (command.member_id, given_id, command.protocol_type)
    if all(map(is_storable, names)) and all(is_storable(each.name) for each in command.protocols):
        return ErrorCode.NONE
    return ErrorCode.INVALID_REQUEST


def check_consumer_heartbeat(
    command: ConsumerHeartbeat, settings: GroupSettings
) -> ConsumerHeartbeatReply | None:
    """What is wrong with the request itself, in the order of modern-groups 3; ``None`` if nothing is."""
    wrong = _wrong_field(command)
    if wrong is not None:
        return ConsumerHeartbeatReply(error=ErrorCode.INVALID_REQUEST, error_message=wrong)
    assignor = command.server_assignor
    if assignor is not None and assignor not in settings.consumer_assignors:
        known = ", ".join(settings.consumer_assignors)
        return ConsumerHeartbeatReply(
            error=ErrorCode.UNSUPPORTED_ASSIGNOR,
            error_message=f"ServerAssignor {assignor} is not supported. Supported assignors: {known}.",
        )
    return None


def _wrong_field(command: ConsumerHeartbeat) -> str | None:
    epoch = command.member_epoch
    if _is_blank(command.member_id) and (command.version >= 1 or epoch > 0 or epoch == LEAVING):
        return "MemberId can't be empty."
    if _is_blank(command.group_id):
        return "GroupId can't be empty."
    if _is_blank(command.instance_id):
        return "InstanceId can't be empty."
    if _is_blank(command.rack_id):
        return "RackId can't be empty."
    if epoch == JOINING:
        return _wrong_in_join(command)
    if epoch == LEFT_FOR_A_WHILE and command.instance_id is None:
        return "InstanceId can't be null."
    if epoch < LEFT_FOR_A_WHILE:
        return f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
    return _unstorable(command)


def _is_blank(text: str | None) -> bool:
    """A text of spaces only is an empty one, as in Kafka."""
    return text is not None and not text.strip()


def _wrong_in_join(command: ConsumerHeartbeat) -> str | None:
    if command.rebalance_timeout_ms == UNCHANGED:
        return "RebalanceTimeoutMs must be provided in first request."
    if command.owned is None or command.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if command.names is None and command.expression is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return _unstorable(command)


def _unstorable(command: ConsumerHeartbeat) -> str | None:
    """Newer requests can carry names that no key of a record, or no classic group, has room for."""
    fields = {
        "GroupId": command.group_id,
        "MemberId": command.member_id,
        "InstanceId": command.instance_id or "",
        "SubscribedTopicRegex": command.expression or "",
    }
    return next((f"{name} is too long." for name, text in fields.items() if not is_storable(text)), None)
