"""Users and ACLs as JSON, as every catalog stores them."""

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping
from typing import Any

from kohort.log.catalog import UserKey
from kohort.security.acls import Acl, AclResourceType, Operation, PatternType, Permission
from kohort.security.scram import ScramCredential, ScramMechanism

_MECHANISMS = {mechanism.value: mechanism for mechanism in ScramMechanism}


def credentials_record(
    removed: Iterable[UserKey], stored: Mapping[UserKey, ScramCredential]
) -> Mapping[str, Any]:
    """One line for all changes of a request: they are done or not done together."""
    return {
        "type": "scram",
        "removed": [[user, mechanism.value] for user, mechanism in removed],
        "stored": [
            {
                "user": user,
                "mechanism": mechanism.value,
                "iterations": one.iterations,
                "salt": _text(one.salt),
                "stored_key": _text(one.stored_key),
                "server_key": _text(one.server_key),
            }
            for (user, mechanism), one in stored.items()
        ],
    }


def acls_record(removed: Iterable[Acl], added: Iterable[Acl]) -> Mapping[str, Any]:
    """One line for all changes of a request; a rule is a list in the order of its fields."""
    return {"type": "acls", "removed": [list(one) for one in removed], "added": [list(one) for one in added]}


def read_credential(fields: Mapping[str, Any]) -> tuple[UserKey, ScramCredential]:
    """One of ``stored`` in a record of credentials."""
    credential = ScramCredential(
        a2b_base64(fields["salt"]),
        a2b_base64(fields["stored_key"]),
        a2b_base64(fields["server_key"]),
        fields["iterations"],
    )
    return (fields["user"], _MECHANISMS[fields["mechanism"]]), credential


def _text(key: bytes) -> str:
    return b2a_base64(key, newline=False).decode()


def read_acl(fields: list[Any]) -> Acl:
    """One rule of a record of ACLs."""
    kind, name, pattern, principal, host, operation, permission = fields
    return Acl(
        AclResourceType(kind),
        name,
        PatternType(pattern),
        principal,
        host,
        Operation(operation),
        Permission(permission),
    )
