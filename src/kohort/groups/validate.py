"""What can be said about a request without looking at any group."""

from kohort.groups.commands import Join, Sync
from kohort.groups.encoding import is_storable
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode


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
    names = (f"{command.instance_id or command.client_id}-{command.fresh_id}", command.protocol_type)
    if all(map(is_storable, names)) and all(is_storable(each.name) for each in command.protocols):
        return ErrorCode.NONE
    return ErrorCode.INVALID_REQUEST
