"""``kohort acls``: who may do what."""

from typing import Annotated, Any

import typer

from kohort.cli.running import OK
from kohort.cli.screen import Column, TextTable, say, show_json, show_table
from kohort.cli.session import AsJson, ClusterOptions, on_cluster, refuse, talk
from kohort.client.admin import AsyncAdmin
from kohort.client.cluster import Role
from kohort.client.errors import BrokerError
from kohort.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclResourceType,
    Operation,
    PatternType,
    Permission,
)
from kohort.story.names import counted
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kohort.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from kohort.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

app = typer.Typer(no_args_is_help=True, help="ACLs: who may do what.")

Principal = Annotated[
    str | None,
    typer.Option(
        "--principal", metavar="TYPE:NAME", help="The user, as in User:alice; User:* is every user."
    ),
]
Operations = Annotated[
    list[str] | None,
    typer.Option(
        "--operation",
        metavar="NAME",
        help="What: READ, WRITE, DESCRIBE, CREATE, DELETE, ALTER, ALL …; repeatable.",
    ),
]
Topic = Annotated[str | None, typer.Option("--topic", metavar="NAME", help="A topic; * is all of them.")]
Group = Annotated[str | None, typer.Option("--group", metavar="NAME", help="A group; * is all of them.")]
TransactionalId = Annotated[
    str | None,
    typer.Option("--transactional-id", metavar="NAME", help="A transactional id; * is all of them."),
]
OnCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Prefix = Annotated[bool, typer.Option("--prefix", help="All names that begin with NAME.")]
Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="From this address only.")]
Deny = Annotated[bool, typer.Option("--deny", help="Deny it. A deny rule is stronger than every allow rule.")]


@app.command()
@on_cluster
def add(
    where: ClusterOptions,
    principal: Principal = None,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OnCluster = False,
    prefix: Prefix = False,
    host: Host = None,
    deny: Deny = False,
) -> None:
    """Allow a user an operation, or deny it. A rule that exists already stays as it is."""
    if principal is None or not operation:
        raise refuse(
            "a rule needs --principal and --operation", "as in --principal User:alice --operation READ"
        )
    resource = _resource(topic, group, transactional_id, cluster)
    if resource is None:
        raise refuse(
            "a rule needs a resource", "choose one of --topic, --group, --transactional-id, --cluster"
        )
    rules = [
        Acl(
            *resource,
            PatternType.PREFIXED if prefix else PatternType.LITERAL,
            principal,
            host or "*",
            _operation(name),
            Permission.DENY if deny else Permission.ALLOW,
        )
        for name in operation
    ]

    async def command(admin: AsyncAdmin) -> int:
        request = CreateAclsRequest(creations=[_creation(rule) for rule in rules])
        reply = await admin.cluster.ask(Role.CONTROLLER, request, CreateAclsResponse)
        for rule, result in zip(rules, reply.results, strict=True):
            if result.error_code:
                raise BrokerError(result.error_code, f"add the rule {_show(rule)}", result.error_message)
        for rule in rules:
            say(f"added: {_show(rule)}")
        return OK

    talk(where, command)


@app.command(name="list")
@on_cluster
def list_acls(
    where: ClusterOptions,
    principal: Principal = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OnCluster = False,
    as_json: AsJson = False,
) -> None:
    """List the rules, or those that have an effect on a resource."""
    resource = _resource(topic, group, transactional_id, cluster)
    pattern = PatternType.ANY if resource is None else PatternType.MATCH
    wanted = _filter(resource, pattern, principal)

    async def command(admin: AsyncAdmin) -> int:
        rules = await _described(admin, wanted)
        if as_json:
            show_json([{key: _json(value) for key, value in rule._asdict().items()} for rule in rules])
        else:
            columns = [Column(name) for name in ("principal", "permission", "operation", "resource", "host")]
            rows = [
                (rule.principal, rule.permission.name, rule.operation.name, _show_resource(rule), rule.host)
                for rule in rules
            ]
            show_table(TextTable(columns, rows), empty="there are no ACLs")
        return OK

    talk(where, command)


@app.command()
@on_cluster
def remove(
    where: ClusterOptions,
    principal: Principal = None,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OnCluster = False,
    prefix: Prefix = False,
    host: Host = None,
    deny: Deny = False,
) -> None:
    """Remove the rules that were added with these options; what is not given matches every rule."""
    resource = _resource(topic, group, transactional_id, cluster)
    if principal is None and resource is None:
        raise refuse("choose which rules to remove", "give --principal, a resource, or both")
    literal = PatternType.ANY if resource is None else PatternType.LITERAL
    common = _filter(resource, PatternType.PREFIXED if prefix else literal, principal)
    common = common._replace(host=host, permission=Permission.DENY if deny else Permission.ANY)
    filters = [common._replace(operation=_operation(name)) for name in operation or ()] or [common]

    async def command(admin: AsyncAdmin) -> int:
        request = DeleteAclsRequest(filters=[DeleteAclsFilter(**_fields(one)) for one in filters])
        reply = await admin.cluster.ask(Role.CONTROLLER, request, DeleteAclsResponse)
        removed = 0
        for result in reply.filter_results:
            if result.error_code:
                raise BrokerError(result.error_code, "remove rules", result.error_message)
            removed += len(result.matching_acls)
        say(f"removed {counted(removed, 'rule')}")
        return OK

    talk(where, command)


async def _described(admin: AsyncAdmin, wanted: AclFilter) -> list[Acl]:
    request = DescribeAclsRequest(**_fields(wanted))
    reply = await admin.cluster.ask(Role.ANY, request, DescribeAclsResponse)
    if reply.error_code:
        raise BrokerError(reply.error_code, "list the ACLs", reply.error_message)
    return [
        Acl(
            AclResourceType(found.resource_type),
            found.resource_name,
            PatternType(found.pattern_type),
            one.principal,
            one.host,
            Operation(one.operation),
            Permission(one.permission_type),
        )
        for found in reply.resources
        for one in found.acls
    ]


def _resource(
    topic: str | None, group: str | None, transactional_id: str | None, cluster: bool
) -> tuple[AclResourceType, str] | None:
    given = [
        (kind, name)
        for kind, name in (
            (AclResourceType.TOPIC, topic),
            (AclResourceType.GROUP, group),
            (AclResourceType.TRANSACTIONAL_ID, transactional_id),
            (AclResourceType.CLUSTER, CLUSTER_NAME if cluster else None),
        )
        if name is not None
    ]
    if len(given) > 1:
        raise refuse("a rule is about one resource", "run the command once for each")
    return given[0] if given else None


def _filter(
    resource: tuple[AclResourceType, str] | None, pattern: PatternType, principal: str | None
) -> AclFilter:
    kind, name = resource or (AclResourceType.ANY, None)
    return AclFilter(kind, name, pattern, principal, None, Operation.ANY, Permission.ANY)


def _fields(wanted: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": int(wanted.resource_type),
        "resource_name_filter": wanted.name,
        "pattern_type_filter": int(wanted.pattern),
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": int(wanted.operation),
        "permission_type": int(wanted.permission),
    }


def _creation(rule: Acl) -> AclCreation:
    return AclCreation(
        resource_type=rule.resource_type,
        resource_name=rule.name,
        resource_pattern_type=rule.pattern,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )


def _operation(text: str) -> Operation:
    try:
        found = Operation[text.upper().replace("-", "_")]
    except KeyError:
        found = Operation.UNKNOWN
    if found in (Operation.UNKNOWN, Operation.ANY):
        known = ", ".join(one.name for one in Operation if one > Operation.ANY)
        raise refuse(f"--operation: there is no {text!r}", f"choose from {known}")
    return found


def _show(rule: Acl) -> str:
    host = "" if rule.host == "*" else f" from {rule.host}"
    verb = "may not" if rule.permission is Permission.DENY else "may"
    return f"{rule.principal} {verb} {rule.operation.name} {_show_resource(rule)}{host}"


def _show_resource(rule: Acl) -> str:
    kind = rule.resource_type.name.lower().replace("_", " ")
    if rule.resource_type is AclResourceType.CLUSTER:
        return kind
    star = "…" if rule.pattern is PatternType.PREFIXED else ""
    return f"{kind} {rule.name}{star}"


def _json(value: object) -> object:
    return value.name if isinstance(value, (AclResourceType, PatternType, Operation, Permission)) else value
