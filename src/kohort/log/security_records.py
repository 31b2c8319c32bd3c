"""Users and ACLs as JSON, as every catalog stores them."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from kohort.log.catalog import UserKey
from kohort.security.acls import Acl, AclResourceType, Operation, PatternType, Permission
from kohort.security.scram import ScramCredential, ScramMechanism

_KEYS = ("salt", "stored_key", "server_key")


def credentials_record(
    removed: Iterable[UserKey], stored: Mapping[UserKey, ScramCredential]
) -> Mapping[str, Any]:
    """One line for all changes of a request: they are done or not done together."""
    return {
        "type": "scram",
        "removed": [[user, mechanism.value] for user, mechanism in removed],
        "stored": [
            {"user": user, "mechanism": mechanism.value, "iterations": one.iterations}
            | {key: b64encode(getattr(one, key)).decode() for key in _KEYS}
            for (user, mechanism), one in stored.items()
        ],
    }


def acls_record(removed: Iterable[Acl], added: Iterable[Acl]) -> Mapping[str, Any]:
    """One line for all changes of a request; a rule is a list in the order of its fields."""
    return {"type": "acls", "removed": [list(one) for one in removed], "added": [list(one) for one in added]}


def read_credential(fields: Mapping[str, Any]) -> tuple[UserKey, ScramCredential]:
    """One of ``stored`` in a record of credentials."""
    salt, stored_key, server_key = (b64decode(fields[key]) for key in _KEYS)
    credential = ScramCredential(salt, stored_key, server_key, fields["iterations"])
    return (fields["user"], ScramMechanism(fields["mechanism"])), credential


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
