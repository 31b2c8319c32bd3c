"""DescribeUserScramCredentials (50): the mechanisms and iterations of users, never salts or keys."""

from collections import Counter
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.model.errors import ErrorCode
from kohort.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState


def handle(
    broker: "BrokerState", request: DescribeUserScramCredentialsRequest, _context: Context
) -> DescribeUserScramCredentialsResponse:
    known: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), credential in broker.catalog.credentials.items():
        info = CredentialInfo(mechanism=mechanism.wire_number, iterations=credential.iterations)
        known.setdefault(user, []).append(info)
    asked = Counter(user.name for user in request.users) if request.users else Counter(known)
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[
            _describe(user, known.get(user), times if request.users else 1) for user, times in asked.items()
        ],
    )


def _describe(
    user: str, infos: list[CredentialInfo] | None, times: int
) -> DescribeUserScramCredentialsResult:
    if times > 1:
        code, text = ErrorCode.DUPLICATE_RESOURCE, "Cannot describe SCRAM credentials for the same user twice"
        message = f"{text} in a single request: {user}"
    elif infos is None:
        code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {user}"
    else:
        return DescribeUserScramCredentialsResult(user=user, error_message=None, credential_infos=infos)
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message)


def refuse(
    request: DescribeUserScramCredentialsRequest, code: ErrorCode
) -> DescribeUserScramCredentialsResponse:
    results = [  # as in Kafka, without their names
        DescribeUserScramCredentialsResult(error_code=code, error_message=code.name)
        for _ in request.users or []
    ]
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=code.name, results=results)
