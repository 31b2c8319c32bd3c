"""DeleteAcls (31): removes the rules that filters find, all in one step."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.handlers.describe_acls import NO_AUTHORIZER, acl_filter
from kohort.broker.heavy_work import WorkSlice
from kohort.model.errors import ErrorCode
from kohort.security.acls import Acl, AclFilter, AclIndex
from kohort.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

logger = logging.getLogger("kohort.authorizer")

_MOST_REMOVED = 10_000
_FILTER_PRICE = 5


async def handle(broker: "BrokerState", request: DeleteAclsRequest, context: Context) -> DeleteAclsResponse:
    if broker.authorizer is None:
        return _answer(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    wanted = [acl_filter(one, context) for one in request.filters]
    found = await _found(list(broker.catalog.acls), wanted)
    if found is None:
        return refuse(request, ErrorCode.INVALID_REQUEST)
    removed = {acl for acls in found for acl in acls}
    if removed:
        await broker.catalog.change_acls(removed, ())
        broker.authorizer.changed(broker.catalog.acls)
        if not broker.authorizer.has_administrator:
            logger.warning(
                "%s removed the last right to change ACLs; a start with super.users helps", context
            )
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_message=None, matching_acls=[_match(acl) for acl in acls])
            for acls in found
        ]
    )


async def _found(acls: Sequence[Acl], wanted: Sequence[AclFilter]) -> list[list[Acl]] | None:
    """The rules of each filter; None if they are too many together, each counted as often as it is found."""
    slice_ = WorkSlice()
    index = AclIndex()
    for acl in acls:
        index.add(acl)
        await slice_.spend(1)
    found: dict[AclFilter, list[Acl]] = {}
    rows = 0
    for one in wanted:
        if one not in found:
            candidates = index.candidates(one)
            found[one] = list(filter(one.matches, candidates))
            await slice_.spend(_FILTER_PRICE + len(candidates))
        rows += len(found[one])
        if rows > _MOST_REMOVED:
            return None
    return [found[one] for one in wanted]


def _match(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def refuse(request: DeleteAclsRequest, code: ErrorCode) -> DeleteAclsResponse:
    return _answer(request, code, code.name)


def _answer(request: DeleteAclsRequest, code: ErrorCode, message: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.filters
        ]
    )
