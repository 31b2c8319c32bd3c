"""The page docs/reference/group-states.md: how groups go from state to state, and what requests get in each.

The tables "state x request" are written here; tests/scenario/groups read them from the page and play each
cell.
"""

from re import findall

from kohort.groups.classic.transitions import TRANSITIONS, as_mermaid
from kohort.groups.consumer.assignment import MemberState
from kohort.model.errors import ErrorCode

CLASSIC_REQUESTS = """\
What each request gets in each state: the error code, or `parked` if it waits; and the state of the group
afterwards. The columns are the first letters of the states; ∅: there is no group. `-`: cannot happen.

| request | ∅ | E | P | C | S | D |
|---|---|---|---|---|---|---|
| join, new, v4 | 79 E | 79 E | 79 P | 79 C | 79 S | 15 D |
| join, new, v9 | 79 E | 79 E | 79 P | 79 C | 79 S | 15 D |
| join, new, v0 | parked P | parked P | parked P | parked P | parked P | 15 D |
| join, new, v3 | parked P | parked P | parked P | parked P | parked P | 15 D |
| join, new instance, v5 | parked P | parked P | parked P | parked P | parked P | 15 D |
| join, known instance without id | - | - | parked P | parked P | 0 S | 15 D |
| join, pending id | 25 ∅ | parked P | parked P | parked P | parked P | 15 D |
| join, known follower, unchanged | 25 ∅ | 25 E | parked P | 0 C | 0 S | 15 D |
| join, known follower, changed | 25 ∅ | 25 E | parked P | parked P | parked P | 15 D |
| join, known leader, unchanged | 25 ∅ | 25 E | parked P | 0 C | parked P | 15 D |
| join, known leader, changed | 25 ∅ | 25 E | parked P | parked P | parked P | 15 D |
| join, unknown id | 25 ∅ | 25 E | 25 P | 25 C | 25 S | 15 D |
| sync, follower | 25 ∅ | 25 E | 27 P | parked C | 0 S | 15 D |
| sync, leader | 25 ∅ | 25 E | 27 P | 0 S | 0 S | 15 D |
| heartbeat | 25 ∅ | 25 E | 27 P | 0 C | 0 S | 15 D |
| leave, follower | 25 ∅ | 25 E | 0 P | 0 P | 0 P | 15 D |
| leave, leader | 25 ∅ | 25 E | 0 P | 0 P | 0 P | 15 D |
| leave, instance | 25 ∅ | 25 E | 0 P | 0 P | 0 P | 15 D |
| leave, pending id | 25 ∅ | 0 E | 0 P | 0 C | 0 S | 15 D |
| leave, unknown id | 25 ∅ | 25 E | 25 P | 25 C | 25 S | 15 D |
| commit, no identity | 0 E | 0 E | 25 P | 25 C | 25 S | 15 D |
| commit, member, v8 | 22 ∅ | 25 E | 0 P | 27 C | 0 S | 15 D |
| commit, member, v9 | 69 ∅ | 25 E | 0 P | 27 C | 0 S | 15 D |
| delete group | 69 ∅ | 0 ∅ | 68 P | 68 C | 68 S | 69 D |
| delete offsets, subscribed topic | 69 ∅ | 0 E | 86 P | 86 C | 86 S | 69 D |
| delete offsets, other topic | 69 ∅ | 0 E | 0 P | 0 C | 0 S | 69 D |
"""
CONSUMER_STATES = """\
## Consumer groups
A consumer group (KIP-848) has no phases that all members go through together. Its state is read from three
epochs, that of the group, that of the target assignment and that of each member; the first line that is true
counts:

| state | when |
|---|---|
| Empty | there are no members; a static member that left for a while is one |
| Assigning | the epoch of the group is above that of the target assignment |
| Reconciling | a member has not reached the target assignment |
| Stable | otherwise |

Each member goes to the target assignment by itself.

| state of a member | code in its record | meaning |
|---|---|---|
"""

MEMBER_STATES = {
    MemberState.STABLE: "nothing is outstanding for the epoch that it is in",
    MemberState.UNREVOKED_PARTITIONS: "it must give up partitions before it moves to the target epoch",
    MemberState.UNRELEASED_PARTITIONS: "at the target epoch; others still own some of its partitions",
    MemberState.UNKNOWN: "any other code in the log",
}

CONSUMER_REQUESTS = """\
What each request of a static member gets in each of its states: the error code, and its state afterwards.
∅: there is no group. N: it is no member. S: STABLE. U: UNREVOKED_PARTITIONS. R: UNRELEASED_PARTITIONS. A: it
has left for a while (epoch -2). C: it speaks the classic protocol, and is STABLE; CR: and UNRELEASED.
Another member is in the group. The first ten requests are ConsumerGroupHeartbeat.

| request | ∅ | N | S | U | R | A | C |
|---|---|---|---|---|---|---|---|
| heartbeat, its epoch | 69 ∅ | 25 N | 0 S | 0 U | 0 R | 110 A | 0 S |
| heartbeat, its epoch, owns what it has | 69 ∅ | 25 N | 0 S | 0 S | 0 R | 110 A | 0 S |
| heartbeat, the epoch before, owns what it has | 69 ∅ | 25 N | 0 S | 110 U | 110 R | 110 A | 110 C |
| heartbeat, a newer epoch | 69 ∅ | 25 N | 110 S | 110 U | 110 R | 110 A | 110 C |
| join | 0 S | 0 R | 111 S | 111 U | 111 R | 0 S | 0 S |
| join, without its instance id | 0 S | 0 R | 0 S | 0 S | 0 R | 0 S | 0 S |
| join, another id as its instance | 0 N | 0 N | 111 S | 111 U | 111 R | 0 N | 0 N |
| heartbeat, another id as its instance | 69 ∅ | 25 N | 82 S | 82 U | 82 R | 82 A | 82 C |
| leave | 69 ∅ | 25 N | 0 N | 0 N | 0 N | 0 N | 0 N |
| leave for a while | 69 ∅ | 25 N | 0 A | 0 A | 0 A | 0 A | 0 A |
| OffsetCommit, its epoch | 69 ∅ | 25 N | 0 S | 0 U | 0 R | 113 A | 0 C |
| OffsetCommit, another epoch | 69 ∅ | 25 N | 113 S | 113 U | 113 R | 113 A | 22 C |
| OffsetFetch, its epoch | 0 ∅ | 25 N | 0 S | 0 U | 0 R | 113 A | 0 C |
| OffsetFetch, another epoch | 0 ∅ | 25 N | 113 S | 113 U | 113 R | 113 A | 22 C |
| JoinGroup | 25 ∅ | 25 N | 0 C | 0 C | 0 CR | 0 C | 0 C |
| SyncGroup | 25 ∅ | 25 N | 25 S | 25 U | 25 R | 25 A | 0 C |
| Heartbeat | 25 ∅ | 25 N | 25 S | 25 U | 25 R | 25 A | 0 C |
| LeaveGroup | 25 ∅ | 25 N | 0 N | 0 N | 0 N | 0 N | 0 N |
| DeleteGroups | 69 ∅ | 68 N | 68 S | 68 U | 68 R | 68 A | 68 C |
"""


def group_states(mark: str) -> str:
    """The page, with the mark of a generated one."""
    rows = [
        f"| {transition.source.value} | {transition.target.value} | {'; '.join(transition.triggers)} |"
        for transition in TRANSITIONS
    ]
    members = [f"| {state.name} | {state.value} | {MEMBER_STATES[state]} |" for state in MemberState]
    return "\n".join(
        [
            "# States of a group",
            mark,
            "",
            "## Classic groups",
            "```mermaid",
            as_mermaid().rstrip(),
            "```",
            "",
            "| from | to | when |",
            "|---|---|---|",
            *rows,
            "",
            CLASSIC_REQUESTS,
            _legend(CLASSIC_REQUESTS),
            "",
            CONSUMER_STATES + "\n".join(members),
            "",
            CONSUMER_REQUESTS,
            _legend(CONSUMER_REQUESTS),
            "",
        ]
    )


def _legend(table: str) -> str:
    """The names of the codes in a table."""
    codes = {int(code) for code in findall(r"\| (\d+) ", table)} - {0}
    return ", ".join(f"{code} {ErrorCode(code).name}" for code in sorted(codes)) + "."
