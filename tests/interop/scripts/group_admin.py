"""DescribeGroups, ListGroups, DeleteGroups: groups of every state, seen from outside."""

from collections.abc import Iterator

from tests.interop.scripts.exchange import Answer, Exchange, Reply
from tests.interop.scripts.members import Member, new_member, stable_one, stable_pair, subscription
from tests.interop.scripts.offsets import at, committing, fetching
from tests.interop.scripts.setting import make_topic, ready_group, wait_until_listed

from kohort.model.errors import ErrorCode
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

Steps = Iterator[tuple[str, Answer]]
OURS = "script.listed-"


def describe_groups(x: Exchange) -> Steps:
    """Every version of a stable group, then every state."""
    lead, follow = stable_pair(x, "script.described")
    for version in range(7):
        yield f"stable v{version}", x.get(DescribeGroupsRequest(groups=[lead.group]), version)
    asked = DescribeGroupsRequest(groups=[lead.group], include_authorized_operations=True)
    for version in (3, 6):
        yield f"with operations v{version}", x.get(asked, version)
    ready_group(x, "script.described-none")
    for version in (0, 5, 6):
        request = DescribeGroupsRequest(groups=["script.described-none", lead.group])
        yield f"unknown and known v{version}", x.get(request, version)
    unknown = DescribeGroupsRequest(groups=["script.described-none"], include_authorized_operations=True)
    yield "unknown with operations", x.get(unknown, 6)
    ready_group(x, "")
    yield "empty id", x.get(DescribeGroupsRequest(groups=[""]), 6)
    yield "none", x.get(DescribeGroupsRequest(), 6)
    yield "twice", x.get(DescribeGroupsRequest(groups=[lead.group, lead.group]), 6)
    follow.start_join({"range": subscription("script.other")})
    lead.beat_until(ErrorCode.REBALANCE_IN_PROGRESS)
    seen = DescribeGroupsRequest(groups=[lead.group])
    yield "preparing", x.get(seen, 6)
    lead.join()
    follow.joined()
    yield "completing", x.get(seen, 6)
    follow.leave()
    lead.leave()
    yield "empty", x.get(seen, 6)
    static = stable_one(x, "script.described-static", instance="one")
    yield "static", x.get(DescribeGroupsRequest(groups=[static.group]), 6)
    pending = new_member(x, "script.described-pending", "pending")
    pending.get_id()
    wait_until_listed(x, pending.group)
    yield "only a pending id", x.get(DescribeGroupsRequest(groups=[pending.group]), 6)


def only_ours(answer: Answer) -> Answer:
    """Without the groups of other tests."""
    assert isinstance(answer, Reply)
    assert isinstance(answer.message, ListGroupsResponse)
    answer.message.groups = [each for each in answer.message.groups if each.group_id.startswith(OURS)]
    return answer


def list_groups(x: Exchange) -> Steps:
    """All versions and filters over groups of four states."""
    topic = "script.listed"
    make_topic(x, topic)
    stable_one(x, f"{OURS}stable")
    stable_one(x, f"{OURS}empty").leave()
    simple = ready_group(x, f"{OURS}simple")
    x.ask(committing(simple, topic, at(0, 1)), 9)
    completing = new_member(x, f"{OURS}completing", "completing")
    completing.get_id()
    completing.join()
    pending = Member(x, ready_group(x, f"{OURS}pending"), "pending")
    pending.get_id()
    wait_until_listed(x, pending.group)
    for version in range(6):
        yield f"v{version}", only_ours(x.get(ListGroupsRequest(), version))
    for states in (
        ["Stable"],
        ["stable"],
        ["STABLE ", "Empty"],
        ["CompletingRebalance"],
        ["No"],
        [""],
        ["Dead"],
    ):
        yield f"states {states} v4", only_ours(x.get(ListGroupsRequest(states_filter=states), 4))
    for types in (["classic"], ["Classic"], ["consumer"], ["classic", "consumer"], ["nonsense"]):
        yield f"types {types}", only_ours(x.get(ListGroupsRequest(types_filter=types), 5))
    both = ListGroupsRequest(states_filter=["Empty"], types_filter=["classic"])
    yield "state and type", only_ours(x.get(both, 5))


def delete_groups(x: Exchange) -> Steps:
    """Unknown, with members, empty, twice; offsets go with the group."""
    topic = "script.deleted"
    make_topic(x, topic)
    ready_group(x, "script.deleted-none")
    for version in range(3):
        request = DeleteGroupsRequest(groups_names=["script.deleted-none"])
        yield f"unknown v{version}", x.get(request, version)
    member = stable_one(x, "script.deleted-stable")
    yield "with a member", x.get(DeleteGroupsRequest(groups_names=[member.group]), 2)
    simple = ready_group(x, "script.deleted-simple")
    x.ask(committing(simple, topic, at(0, 5)), 9)
    yield "simple", x.get(DeleteGroupsRequest(groups_names=[simple]), 2)
    yield "its offsets are gone", x.get(fetching(simple, topic, 0), 9)
    yield "and it is unknown", x.get(DeleteGroupsRequest(groups_names=[simple]), 2)
    pending = new_member(x, "script.deleted-pending", "pending")
    pending.get_id()
    yield "only a pending id", x.get(DeleteGroupsRequest(groups_names=[pending.group]), 2)
    yield "the pending id joins afterwards", pending.join()
    member.leave()
    ready_group(x, "")
    several = [member.group, "script.deleted-none", member.group, ""]
    yield "several, one twice", x.get(DeleteGroupsRequest(groups_names=several), 2)
    yield "none", x.get(DeleteGroupsRequest(), 2)
