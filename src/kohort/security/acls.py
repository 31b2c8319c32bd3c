"""ACLs: rules, filters that find rules, and the index that answers who may do what (security 4)."""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from itertools import chain
from typing import NamedTuple

CLUSTER_NAME = "kafka-cluster"
ANY_NAME = "*"
ANY_PRINCIPAL = "User:*"
ANY_HOST = "*"
_MOST_VERDICTS = 10_000  # that are remembered


class AclResourceType(IntEnum):
    """What a rule is about; the codes of the ACL APIs."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of a rule is meant; ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What a principal does with a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """What a rule does."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS = {
    AclResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that the bit fields of replies show for a resource."""

# What an ALLOW implies; a DENY implies nothing.
_IMPLY = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}


class Acl(NamedTuple):
    """One rule."""

    resource_type: AclResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclFilter(NamedTuple):
    """Finds rules; ``None`` and ANY find everything."""

    resource_type: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (AclResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern != PatternType.MATCH:
            return False
        if acl.pattern is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name == ANY_NAME


class AclIndex:
    """Finds the rules of many filters without a look at every rule for each."""

    def __init__(self) -> None:
        self._all: list[Acl] = []
        self._by_name: dict[str, list[Acl]] = {}
        self._by_principal: dict[str, list[Acl]] = {}
        self._by_host: dict[str, list[Acl]] = {}
        self._prefix_lengths: set[int] = set()

    def add(self, acl: Acl) -> None:
        self._all.append(acl)
        self._by_name.setdefault(acl.name, []).append(acl)
        self._by_principal.setdefault(acl.principal, []).append(acl)
        self._by_host.setdefault(acl.host, []).append(acl)
        if acl.pattern is PatternType.PREFIXED:
            self._prefix_lengths.add(len(acl.name))

    def candidates(self, wanted: AclFilter) -> Sequence[Acl]:
        """Rules among which are all that a filter matches."""
        found = [[self._all] if wanted.name is None else self._named(wanted.name, wanted.pattern)]
        if wanted.principal is not None:
            found.append([self._by_principal.get(wanted.principal, [])])
        if wanted.host is not None:
            found.append([self._by_host.get(wanted.host, [])])
        return list(chain(*min(found, key=lambda lists: sum(map(len, lists)))))

    def _named(self, name: str, pattern: int) -> list[list[Acl]]:
        names = [name]
        if pattern == PatternType.MATCH:
            names += [ANY_NAME, *(name[:length] for length in self._prefix_lengths)]
        return [self._by_name.get(each, []) for each in dict.fromkeys(names)]


class Question(NamedTuple):
    """May this principal, from this host, do this with this resource?"""

    principal: str
    host: str
    operation: Operation
    resource_type: AclResourceType
    name: str


@lru_cache(1_000)
def host_text(host: str) -> str:
    """An address as ACLs write it, which is Java's form: IPv6 in full, IPv4 inside of IPv6 as IPv4."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))
    return str(address)


class _Rules:
    """The rules of one resource type, by name."""

    def __init__(self) -> None:
        self.literal: dict[str, list[Acl]] = {}
        self.prefixed: dict[str, list[Acl]] = {}
        self.lengths: list[int] = []  # of the prefixes

    def about(self, name: str) -> Iterator[Acl]:
        """Every rule whose resource matches the name."""
        yield from self.literal.get(name, ())
        if name != ANY_NAME:
            yield from self.literal.get(ANY_NAME, ())
        for length in self.lengths:
            if length > len(name):
                break
            yield from self.prefixed.get(name[:length], ())


class Authorizer:
    """Answers from an index that is made again when the rules change, and remembers its verdicts."""

    def __init__(
        self, acls: Iterable[Acl], *, super_users: Iterable[str] = (), allow_if_no_acl: bool = False
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self.changed(acls)

    def changed(self, acls: Iterable[Acl]) -> None:
        """Use these rules from now on."""
        self._rules = {kind: _Rules() for kind in AclResourceType}
        for acl in acls:
            rules = self._rules[acl.resource_type]
            names = rules.prefixed if acl.pattern is PatternType.PREFIXED else rules.literal
            names.setdefault(acl.name, []).append(acl)
        for rules in self._rules.values():
            rules.lengths = sorted({len(name) for name in rules.prefixed})
        self._verdicts: dict[Question, bool] = {}

    @property
    def has_administrator(self) -> bool:
        """Whether there is a super user, or a rule that lets some principal change rules."""
        about_cluster = self._rules[AclResourceType.CLUSTER].about(CLUSTER_NAME)
        return bool(self._super_users) or any(
            acl.permission is Permission.ALLOW and acl.operation in (Operation.ALL, Operation.ALTER)
            for acl in about_cluster
        )

    def may(self, question: Question) -> bool:
        verdict = self._verdicts.get(question)
        if verdict is None:
            verdict = self._verdict(question)[0]
            if len(self._verdicts) >= _MOST_VERDICTS:
                self._verdicts.clear()
            self._verdicts[question] = verdict
        return verdict

    def reason(self, question: Question) -> str:
        """Why the answer is as it is, in words for the audit log."""
        allowed, rule = self._verdict(question)
        if rule is not None:
            pattern, name = rule.pattern.name, rule.name
            what = f"{rule.operation.name} on {rule.resource_type.name} {pattern}:{name}"
            return f"rule {rule.permission.name} {rule.principal} from {rule.host}, {what}"
        if question.principal in self._super_users:
            return "a super user"
        return "no rule is about it" if allowed else "no rule allows it"

    def _verdict(self, question: Question) -> tuple[bool, Acl | None]:
        """The answer, and the rule that decides, if one does."""
        if question.principal in self._super_users:
            return True, None
        rules = list(self._rules[question.resource_type].about(question.name))
        if not rules:
            return self._allow_if_no_acl, None
        relevant = [acl for acl in rules if _is_about_peer(acl, question)]
        denied = (Operation.ALL, question.operation)
        for acl in relevant:
            if acl.permission is Permission.DENY and acl.operation in denied:
                return False, acl
        allowed = _IMPLY.get(question.operation, frozenset({question.operation})) | {Operation.ALL}
        for acl in relevant:
            if acl.permission is Permission.ALLOW and acl.operation in allowed:
                return True, acl
        return False, None

    def may_with_some(self, question: Question) -> bool:
        """Whether the answer is yes for any name at all (Kafka's authorizeByResourceType).

        ``name`` of the question does not count. Implied operations do not count here.
        """
        if self.may(question._replace(name="hardcode")):
            return True
        rules = self._rules[question.resource_type]
        wanted = (Operation.ALL, question.operation)
        relevant = [
            acl
            for named in (rules.literal, rules.prefixed)
            for some in named.values()
            for acl in some
            if _is_about_peer(acl, question) and acl.operation in wanted
        ]
        denied = {(acl.pattern, acl.name) for acl in relevant if acl.permission is Permission.DENY}
        if (PatternType.LITERAL, ANY_NAME) in denied:
            return False
        return any(acl.permission is Permission.ALLOW and not _is_covered(acl, denied) for acl in relevant)


def _is_about_peer(acl: Acl, question: Question) -> bool:
    return acl.principal in (question.principal, ANY_PRINCIPAL) and acl.host in (question.host, ANY_HOST)


def _is_covered(acl: Acl, denied: set[tuple[PatternType, str]]) -> bool:
    """Whether a DENY covers all that an ALLOW allows."""
    if acl.pattern is PatternType.LITERAL and (acl.pattern, acl.name) in denied:
        return True
    if acl.pattern is PatternType.LITERAL and acl.name == ANY_NAME:
        return False
    return any((PatternType.PREFIXED, acl.name[:end]) in denied for end in range(1, len(acl.name) + 1))
