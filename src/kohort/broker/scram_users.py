"""Users in the catalog: what the SCRAM APIs and ``kohort serve --user`` do with them (security 3)."""

import secrets
from collections.abc import Mapping

from kohort.log.catalog import Catalog, UserKey
from kohort.model.errors import KohortError
from kohort.security.scram import (
    LEAST_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)
from kohort.security.secret import Secret


async def add_users(catalog: Catalog, users: Mapping[str, Secret]) -> None:
    """Store credentials for both mechanisms; a user who has one keeps it."""
    known = {user for user, _ in catalog.credentials}
    new: dict[UserKey, ScramCredential] = {}
    for user, password in users.items():
        if user == "*" or not password.reveal():
            raise KohortError(
                f"user {user} cannot be made", hint="the name * and empty passwords are refused"
            )
        if user not in known:
            for mechanism in ScramMechanism:
                salt = secrets.token_bytes(16)
                salted = salted_password(mechanism, password.reveal(), salt, LEAST_ITERATIONS)
                new[user, mechanism] = credential_of(mechanism, salted, salt, LEAST_ITERATIONS)
    if new:
        await catalog.change_credentials((), new)
