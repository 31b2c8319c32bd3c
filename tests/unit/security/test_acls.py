"""ACLs against a reference that is slow and plain (security 4)."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rounds import ROUNDS

from kohort.security.acls import (
    Acl,
    AclFilter,
    AclIndex,
    AclResourceType,
    Authorizer,
    Operation,
    PatternType,
    Permission,
    Question,
    host_text,
)

TOPIC, LITERAL, PREFIXED = AclResourceType.TOPIC, PatternType.LITERAL, PatternType.PREFIXED
NAMES = ("*", "a", "ab", "abc", "b", "*x")
OPERATIONS = (
    Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER_CONFIGS,
)  # fmt: skip
FIELDS: tuple[Any, ...] = (  # of a rule
    (TOPIC, AclResourceType.GROUP),
    NAMES,
    (LITERAL, PREFIXED),
    ("User:a", "User:b", "User:*"),
    ("*", "1.1.1.1"),
    OPERATIONS,
    (Permission.ALLOW, Permission.DENY),
)
ASKED: tuple[Any, ...] = (  # of a question
    ("User:a", "User:b", "User:super"),
    ("1.1.1.1", "2.2.2.2"),
    (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    (TOPIC,),
    ("a", "ab", "abc", "abcd", "b", "c", "*x", "*"),
)
FILTERS = st.builds(
    AclFilter,
    st.sampled_from([AclResourceType.ANY, TOPIC]),
    st.sampled_from([None, "a", "ab", "abcd", "*", "*xy"]),
    st.sampled_from([PatternType.ANY, PatternType.MATCH, LITERAL, PREFIXED]),
    st.sampled_from([None, "User:a", "User:c"]),
    st.sampled_from([None, "*", "1.1.1.1"]),
    st.sampled_from([Operation.ANY, Operation.READ]),
    st.sampled_from([Permission.ANY, Permission.DENY]),
)
ACLS = st.builds(Acl, *map(st.sampled_from, FIELDS))
QUESTIONS = st.builds(Question, *map(st.sampled_from, ASKED))
IMPLIES = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def reference(acls: list[Acl], asked: Question, *, everyone: bool) -> bool:
    if asked.principal == "User:super":
        return True
    about = [
        acl
        for acl in acls
        if acl.resource_type == asked.resource_type
        and (asked.name.startswith(acl.name) if acl.pattern is PREFIXED else acl.name in (asked.name, "*"))
    ]
    if not about:
        return everyone
    mine = [a for a in about if a.principal in (asked.principal, "User:*") and a.host in (asked.host, "*")]
    if any(a.permission is Permission.DENY and a.operation in (Operation.ALL, asked.operation) for a in mine):
        return False
    enough = {Operation.ALL, asked.operation} | IMPLIES.get(asked.operation, set())
    return any(a.permission is Permission.ALLOW and a.operation in enough for a in mine)


def test_verdicts_are_those_of_the_reference() -> None:
    """Security scenario 43. 1,000 sets of rules; `make fuzz` tries 100,000."""
    for number in range(1_000 * ROUNDS):
        dice = Random(number)
        acls = [Acl(*map(dice.choice, FIELDS)) for _ in range(dice.randrange(13))]
        everyone = dice.random() < 0.5
        authorizer = Authorizer(acls, super_users=["User:super"], allow_if_no_acl=everyone)
        asked = [Question(*map(dice.choice, ASKED)) for _ in range(12)]
        for question in [*asked, *asked]:  # the second time from memory
            assert authorizer.may(question) == reference(acls, question, everyone=everyone), number


@settings(max_examples=500)
@given(st.lists(ACLS, max_size=8), QUESTIONS)
def test_a_name_that_is_allowed_is_found_among_all_names(acls: list[Acl], asked: Question) -> None:
    """Implied operations do not count here."""
    same = asked._replace(operation=Operation.WRITE)
    plain = [acl for acl in acls if acl.operation in (Operation.ALL, Operation.WRITE)]
    authorizer = Authorizer(plain, super_users=["User:super"])
    names = [acl.name for acl in plain if acl.name != "*"] + ["fresh"]
    names += [acl.name + "\uffff" for acl in plain if acl.pattern is PREFIXED]
    if any(authorizer.may(same._replace(name=name)) for name in names):
        assert authorizer.may_with_some(same)


def test_a_change_is_seen_by_the_next_question() -> None:
    rule = Acl(TOPIC, "t", LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)
    asked = Question("User:a", "h", Operation.READ, TOPIC, "t")
    authorizer = Authorizer([rule])
    assert authorizer.may(asked)
    authorizer.changed([rule, rule._replace(permission=Permission.DENY)])
    assert not authorizer.may(asked)


def test_the_memory_of_verdicts_is_bounded() -> None:
    authorizer = Authorizer([])
    for number in range(10_100):
        authorizer.may(Question("User:a", "h", Operation.READ, TOPIC, str(number)))
    assert len(authorizer._verdicts) <= 10_000


RULES = [
    Acl(TOPIC, name, pattern, "User:a", "*", Operation.READ, Permission.ALLOW)
    for name, pattern in (
        ("abc", LITERAL),
        ("*", LITERAL),
        ("ab", PREFIXED),
        ("b", PREFIXED),
        ("ab", LITERAL),
    )
]


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        (LITERAL, "abc", [("abc", LITERAL)]),
        (LITERAL, "*", [("*", LITERAL)]),
        (PREFIXED, "ab", [("ab", PREFIXED)]),
        (PatternType.ANY, "ab", [("ab", PREFIXED), ("ab", LITERAL)]),
        (PatternType.MATCH, "abc", [("abc", LITERAL), ("*", LITERAL), ("ab", PREFIXED)]),
        (PatternType.MATCH, None, [(one.name, one.pattern) for one in RULES]),
        (PREFIXED, None, [("ab", PREFIXED), ("b", PREFIXED)]),
    ],
)
def test_filters_find_what_kafkas_find(
    pattern: PatternType, name: str | None, found: list[tuple[str, PatternType]]
) -> None:
    wanted = AclFilter(1, name, pattern, None, None, 1, 1)
    assert [(one.name, one.pattern) for one in RULES if wanted.matches(one)] == found


@given(st.lists(ACLS, max_size=12), st.lists(FILTERS, max_size=12))
def test_many_filters_find_what_each_finds_alone(acls: list[Acl], filters: list[AclFilter]) -> None:
    index = AclIndex()
    for acl in acls:
        index.add(acl)
    for one in filters:
        found = filter(one.matches, index.candidates(one))
        assert sorted(found) == sorted(filter(one.matches, acls))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("h", "h"),
    ],
)
def test_hosts_are_written_as_java_writes_them(given: str, text: str) -> None:
    """Security trap 5. See security 10."""
    assert host_text(given) == text
