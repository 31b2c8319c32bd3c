"""AlterUserScramCredentials (51): users for SCRAM and PLAIN. All that is valid is stored in one step.

The request carries the salted password, which is as good as the password; only keys made of it are stored.
"""

from collections import Counter
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.heavy_work import WorkSlice
from kohort.log.catalog import UserKey
from kohort.model.errors import ErrorCode, RefusedError
from kohort.security.listeners import is_loopback
from kohort.security.scram import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS_OF_A_CREDENTIAL,
    ScramCredential,
    ScramMechanism,
    credential_of,
)
from kohort.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_MECHANISMS = {mechanism.wire_number: mechanism for mechanism in ScramMechanism}
_LONGEST_SALT = 1_024
_PRICE = 20  # of a credential
_Change = ScramCredentialDeletion | ScramCredentialUpsertion


async def handle(
    broker: "BrokerState", request: AlterUserScramCredentialsRequest, context: Context
) -> AlterUserScramCredentialsResponse:
    if _is_overheard(broker, context):
        return refuse(request, ErrorCode.INVALID_REQUEST)
    changes = _changes(request)
    times = Counter(change.name for change in changes)
    removed: list[UserKey] = []
    stored: dict[UserKey, ScramCredential] = {}
    refused: dict[str, RefusedError] = {}
    slice_ = WorkSlice()
    for change in changes:
        await slice_.spend(_PRICE)
        try:
            if times[change.name] > 1:
                text = "A user credential cannot be altered twice in the same request"
                raise RefusedError(ErrorCode.DUPLICATE_RESOURCE, text)
            if isinstance(change, ScramCredentialDeletion):
                removed.append(_deletion(broker, change))
            else:
                key, credential = _upsertion(change)
                stored[key] = credential
        except RefusedError as error:
            refused.setdefault(change.name, error)
    if removed or stored:
        await broker.catalog.change_credentials(removed, stored)
    done = [user for user, _ in (*removed, *stored)]
    return AlterUserScramCredentialsResponse(
        results=[
            *(AlterUserScramCredentialsResult(user=user, error_message=None) for user in done),
            *(_result(user, error.code, str(error)) for user, error in refused.items()),
        ]
    )


def _changes(request: AlterUserScramCredentialsRequest) -> list[_Change]:
    return [*request.deletions, *request.upsertions]


def _is_overheard(broker: "BrokerState", context: Context) -> bool:
    """Whether others can read the request on its way."""
    listener = context.connection.endpoint.listener
    is_local = listener.protocol.has_tls or is_loopback(context.client_host[1:])
    return not is_local and not broker.settings.insecure


def _deletion(broker: "BrokerState", change: ScramCredentialDeletion) -> UserKey:
    key = change.name, _mechanism(change)
    if key not in broker.catalog.credentials:
        text = "Attempt to delete a user credential that does not exist"
        raise RefusedError(ErrorCode.RESOURCE_NOT_FOUND, text)
    return key


def _upsertion(change: ScramCredentialUpsertion) -> tuple[UserKey, ScramCredential]:
    mechanism = _mechanism(change)
    if change.iterations < LEAST_ITERATIONS:
        raise _unacceptable("Too few iterations")
    if change.iterations > MOST_ITERATIONS_OF_A_CREDENTIAL:
        raise _unacceptable("Too many iterations")
    if not 1 <= len(change.salt) <= _LONGEST_SALT:
        raise _unacceptable(f"The salt must have 1 to {_LONGEST_SALT} bytes")
    if len(change.salted_password) != mechanism.hash_size:
        raise _unacceptable(f"The salted password must have {mechanism.hash_size} bytes")
    salted, salt = change.salted_password, change.salt
    return (change.name, mechanism), credential_of(mechanism, salted, salt, change.iterations)


def _mechanism(change: _Change) -> ScramMechanism:
    if not change.name:
        raise _unacceptable("Username must not be empty")
    if change.name == "*":  # the principal User:* stands for everybody in ACLs
        raise _unacceptable("Username must not be *")
    if change.mechanism not in _MECHANISMS:
        raise RefusedError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return _MECHANISMS[change.mechanism]


def _unacceptable(text: str) -> RefusedError:
    return RefusedError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)


def refuse(request: AlterUserScramCredentialsRequest, code: ErrorCode) -> AlterUserScramCredentialsResponse:
    users = {change.name for change in _changes(request)}
    return AlterUserScramCredentialsResponse(
        results=[_result(user, code, code.name) for user in sorted(users)]
    )


def _result(user: str, code: ErrorCode, message: str) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)
